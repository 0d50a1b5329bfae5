package merge_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/swarmd/swarmd/merge"
)

func TestMergers(t *testing.T) {
	for name, c := range map[string]struct {
		units string // one letter for each participant, in upper case if it owns nothing
		k     int
		want  [][]int
	}{
		"none":              {"abc", 0, [][]int{{0}, {1}, {2}}},
		"one":               {"abc", 1, [][]int{{0}, {1}, {2}}},
		"two":               {"abc", 2, [][]int{{0, 1}, {1, 2}, {2, 0}}},
		"three":             {"abcd", 3, [][]int{{0, 1, 2}, {1, 2, 3}, {2, 3, 0}, {3, 0, 1}}},
		"too few":           {"abc", 4, [][]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}}},
		"alone":             {"a", 3, [][]int{{0}}},
		"one party":         {"aaa", 2, [][]int{{0}, {1}, {2}}},
		"two of a party":    {"aabb", 2, [][]int{{0, 2}, {1, 2}, {2, 0}, {3, 0}}},
		"party in between":  {"abab", 3, [][]int{{0, 1}, {1, 2}, {2, 3}, {3, 0}}},
		"who owns nothing":  {"aBcDe", 2, [][]int{{0, 2}, nil, {2, 4}, nil, {4, 0}}},
		"nobody owns":       {"AB", 2, [][]int{nil, nil}},
		"nobody is there":   {"", 2, [][]int{}},
		"party without any": {"aAb", 2, [][]int{{0, 2}, nil, {2, 0}}},
	} {
		var units []string
		var owns []bool
		for _, u := range c.units {
			units = append(units, strings.ToLower(string(u)))
			owns = append(owns, u >= 'a')
		}
		if d := cmp.Diff(c.want, merge.Mergers(units, owns, c.k)); d != "" {
			t.Errorf("%s: (-want +got)\n%s", name, d)
		}
	}
}

// TestMergersAreOfDifferentParties: as many as there are, the owner first, and nobody who owns nothing.
func TestMergersAreOfDifferentParties(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		n, k := rng.IntN(12), rng.IntN(6)
		units, owns, parties := make([]string, n), make([]bool, n), map[string]bool{}
		for i := range n {
			units[i], owns[i] = string(rune('a'+rng.IntN(5))), rng.IntN(3) > 0
			if owns[i] {
				parties[units[i]] = true
			}
		}
		for owner, mergers := range merge.Mergers(units, owns, k) {
			if !owns[owner] {
				if mergers != nil {
					t.Errorf("%v %v: %d owns nothing and is merged by %v", units, owns, owner, mergers)
				}
				continue
			}
			seen := map[string]bool{}
			for _, i := range mergers {
				if seen[units[i]] || !owns[i] {
					t.Errorf("%v %v, k=%d: %v merge the shard of %d", units, owns, k, mergers, owner)
				}
				seen[units[i]] = true
			}
			if len(mergers) != max(1, min(k, len(parties))) || mergers[0] != owner {
				t.Errorf("%v %v, k=%d: %v merge the shard of %d, where there are %d parties", units, owns, k, mergers, owner, len(parties))
			}
		}
	}
}
