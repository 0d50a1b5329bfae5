package lead_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
)

// attempt is what the peers of a plan, by their number in the plan's order, report of it. Who is not in the map reports nothing.
type attempt func(planned []int) map[int]word

// name is the node of a peer's number.
func name(i int) string { return fmt.Sprintf("sl-%d", i) }

// all has each peer of a plan report the same.
func all(planned []int, w word) map[int]word {
	words := map[int]word{}
	for _, i := range planned {
		words[i] = w
	}
	return words
}

// accuses is an attempt that one ends by accusing the first that stands with it in the plan, whom the others only hear of.
func accuses(liar int) attempt {
	return func(planned []int) map[int]word {
		if !slices.Contains(planned, liar) {
			return all(planned, word{done: true})
		}
		victim := planned[0]
		if victim == liar {
			victim = planned[1]
		}
		words := all(planned, heard(name(victim), name(liar)))
		words[liar] = saw(name(victim))
		return words
	}
}

// then is accuses for a plan of all, and something else when somebody is left out.
func then(liar, n int, rest func(planned []int) map[int]word) attempt {
	return func(planned []int) map[int]word {
		if len(planned) == n || !slices.Contains(planned, liar) {
			return accuses(liar)(planned)
		}
		return rest(planned)
	}
}

// cut is an attempt over links that do not carry.
func cut(links ...[2]int) attempt {
	return func(planned []int) map[int]word {
		words := all(planned, word{done: true})
		for _, l := range links {
			if slices.Contains(planned, l[0]) && slices.Contains(planned, l[1]) {
				words[l[0]], words[l[1]] = saw(name(l[1])), saw(name(l[0]))
			}
		}
		return words
	}
}

// play has attempts of a second go as told until a round is committed, for five minutes at most, and returns who took part and
// how long it took since the first attempt ended.
func (b *table) play(do attempt) (with []int, took time.Duration) {
	b.t.Helper()
	round, last := b.contract().Round(), uint64(0)
	var first time.Time
	for end := b.now.Add(5 * time.Minute); b.now.Before(end); b.now = b.now.Add(100 * time.Millisecond) {
		for session, r := range b.reports {
			r.At = b.now // heartbeats
			b.reports[session] = r
		}
		b.follow()
		p := b.contract().Plan
		if b.contract().Round() > round {
			return with, b.now.Sub(first)
		}
		if p == nil || p.Attempt == last {
			continue
		}
		last, with = p.Attempt, nil
		for _, q := range p.Participants {
			with = append(with, number(q.Node))
		}
		b.now = b.now.Add(time.Second)
		if first.IsZero() {
			first = b.now
		}
		for i, w := range do(with) {
			b.tells(i, w)
		}
	}
	b.t.Fatalf("nothing is committed; the last attempt is that of %v: %s", with, b.follow())
	return nil, 0
}

// TestThoseWhoWereLeftOutComeBack: three peers of which two suffice. One was left out for a link to another, and the third can't
// go on with that one either.
func TestThoseWhoWereLeftOutComeBack(t *testing.T) {
	const (
		grace  = time.Minute
		more   = 5*time.Second + time.Second + time.Second // a pause, an attempt, and what reports and commands take
		bound  = grace + 3*more
		silent = bound + grace
	)
	tests := []struct {
		name  string
		do    attempt
		with  []int
		bound time.Duration
	}{
		{"the first accuses one, then the other", accuses(0), []int{1, 2}, bound},
		{"the second does", accuses(1), []int{0, 2}, bound},
		{"the last does", accuses(2), []int{0, 1}, bound},
		{"it accuses one, then fails and blames nobody", then(0, 3, func([]int) map[int]word {
			return map[int]word{0: saw(""), 1: heard("", "sl-0"), 2: heard("", "sl-0")}
		}), []int{1, 2}, bound},
		{"it accuses one, then sends the other nothing", then(0, 3, func([]int) map[int]word {
			return map[int]word{1: saw("sl-0"), 2: saw("sl-0")}
		}), []int{1, 2}, bound},
		{"it accuses one, then reports nothing", then(0, 3, func([]int) map[int]word {
			return map[int]word{1: {done: true}, 2: {done: true}}
		}), []int{1, 2}, silent},
		{"it accuses one, then itself", then(0, 3, func([]int) map[int]word {
			return map[int]word{0: saw("sl-0"), 1: heard("sl-0", "sl-0"), 2: heard("sl-0", "sl-0")}
		}), []int{1, 2}, bound},
		{"both links of one are cut, one after the other", func(planned []int) map[int]word {
			if len(planned) == 3 {
				return cut([2]int{0, 1})(planned)
			}
			return cut([2]int{0, 1}, [2]int{0, 2})(planned)
		}, []int{1, 2}, bound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newTable(t, 2, 3)
			b.ready(1, 0, 1, 2)
			with, took := b.play(tt.do)
			if slices.Sort(with); !slices.Equal(with, tt.with) || took > tt.bound {
				t.Errorf("%v went on after %s, want %v after %s at most", with, took, tt.with, tt.bound)
			}
			// Who is left out now sits out, and who came back does not.
			b.ready(1, 0, 1, 2)
			with, took = b.play(cut())
			if slices.Sort(with); !slices.Equal(with, tt.with) || took > time.Second {
				t.Errorf("the next round: %v after %s", with, took)
			}
		})
	}
}

// TestWhoSitsOutComesBack: a liar lets the round go on when it is rid of one, and ends the attempts of the next.
func TestWhoSitsOutComesBack(t *testing.T) {
	b := newTable(t, 2, 3)
	b.ready(1, 0, 1, 2)
	first, _ := b.play(then(0, 3, func(planned []int) map[int]word { return all(planned, word{done: true}) }))
	b.ready(1, 0, 1, 2)
	second, took := b.play(accuses(0))
	slices.Sort(second)
	if !slices.Contains(first, 0) || len(first) != 2 || !slices.Equal(second, []int{1, 2}) || took > 90*time.Second {
		t.Errorf("round 1: %v; round 2: %v after %s", first, second, took)
	}
}

// TestNoSetGoesOnUntilALinkHeals: each pair of three has failed once; all are tried again, so the one that heals is found.
func TestNoSetGoesOnUntilALinkHeals(t *testing.T) {
	for _, healed := range [][2]int{{0, 1}, {0, 2}, {1, 2}} {
		b := newTable(t, 2, 3)
		b.ready(1, 0, 1, 2)
		links, tried := [][2]int{{0, 1}, {0, 2}, {1, 2}}, map[string]bool{}
		with, took := b.play(func(planned []int) map[int]word {
			if tried[fmt.Sprint(slices.Sorted(slices.Values(planned)))] = true; len(tried) == 4 {
				links = slices.DeleteFunc(links, func(l [2]int) bool { return l == healed })
			}
			if len(planned) < 3 {
				return cut(links...)(planned)
			}
			return cut(links[0])(planned)
		})
		if slices.Sort(with); !slices.Equal(with, healed[:]) || took > 3*time.Minute {
			t.Errorf("%v went on after %s, want %v; tried %v", with, took, healed, tried)
		}
	}
}

// TestARequiredNodeIsNotLeftOut: of two ends of a broken link the one goes without which the rules allow a round.
func TestARequiredNodeIsNotLeftOut(t *testing.T) {
	b := newTableOf(t, state.Rules{Required: []string{"sl-1"}}, 3, func(int, *state.OpenSession) {})
	b.ready(1, 0, 1, 2)
	with, took := b.play(cut([2]int{0, 1}))
	if slices.Sort(with); !slices.Equal(with, []int{1, 2}) || took > 80*time.Second {
		t.Errorf("%v went on after %s", with, took)
	}
}

// TestWhoJoinsLaterHelps: all three are needed and one link is cut; a fourth makes a set without it.
func TestWhoJoinsLaterHelps(t *testing.T) {
	b := newTableOf(t, state.Rules{}, 4, func(_ int, o *state.OpenSession) { o.Terms.MinPeers = 3 })
	b.ready(1, 0, 1, 2)
	b.now = b.now.Add(time.Minute)
	attempts := 0
	with, _ := b.play(func(planned []int) map[int]word {
		if attempts++; attempts == 40 {
			b.ready(1, 3)
		}
		return cut([2]int{1, 2})(planned)
	})
	if slices.Sort(with); len(with) != 3 || !slices.Contains(with, 3) || attempts < 40 {
		t.Errorf("%v went on after %d attempts", with, attempts)
	}
}

// TestTheLiarIsExplained: what a user is told while two go on without the third.
func TestTheLiarIsExplained(t *testing.T) {
	b := newTable(t, 2, 3)
	b.ready(1, 0, 1, 2)
	var told []string
	b.play(func(planned []int) map[int]word {
		words := accuses(0)(planned)
		if !slices.Contains(planned, 0) {
			told = b.follow().Explain(b.now)
		}
		return words
	})
	text := strings.Join(told, "\n")
	if want := "sitting out until round 4, as attempts failed because of it: sl-0"; !strings.Contains(text, want) || strings.Contains(text, "of it: sl-0,") {
		t.Errorf("want %q in\n%s", want, text)
	}
}
