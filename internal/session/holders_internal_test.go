package session

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/round"
)

// A node that can't be dialled is asked last, unless it has made a connection itself; else their order stays.
func TestReachableFirst(t *testing.T) {
	var holders []*round.Session
	for _, n := range []string{"shut", "a", "linked", "b"} {
		holders = append(holders, &round.Session{Node: n})
	}
	for name, x := range map[string]struct {
		unreached []round.Unreached
		want      []string
	}{
		"nothing is known": {nil, []string{"shut", "a", "linked", "b"}},
		"two can't be dialled": {
			[]round.Unreached{{Node: "shut"}, {Node: "linked", Linked: true}, {Node: "elsewhere"}},
			[]string{"a", "linked", "b", "shut"},
		},
		"nobody can": {[]round.Unreached{{Node: "shut"}, {Node: "a"}, {Node: "linked"}, {Node: "b"}}, []string{"shut", "a", "linked", "b"}},
	} {
		var got []string
		for _, h := range reachableFirst(holders, x.unreached) {
			got = append(got, h.Node)
		}
		if diff := cmp.Diff(x.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
