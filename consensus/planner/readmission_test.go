package planner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/planner/explain"
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

// TestWhoNamesARequiredNodeIsLeftOut: a link does not carry, and the end of it that the rules require reports a failure of its own that it
// lays to nobody, or to itself. It can't be spared, so the other end goes.
func TestWhoNamesARequiredNodeIsLeftOut(t *testing.T) {
	for _, says := range []word{saw(""), saw("sl-0")} {
		for _, late := range []bool{false, true} { // whether the third comes while the two try
			b := newTableOf(t, state.Rules{Required: []string{"sl-0"}}, 3, func(int, *state.OpenSession) {})
			b.ready(1, 0, 1)
			b.now = b.now.Add(time.Minute)
			attempts := 0
			with, took := b.play(func(planned []int) map[int]word {
				if attempts++; attempts == 3 || !late {
					b.ready(1, 2)
				}
				words := all(planned, word{done: true})
				if slices.Contains(planned, 1) {
					words = all(planned, heard("sl-0", "sl-1"))
					words[0], words[1] = says, saw("sl-0")
				}
				return words
			})
			if slices.Sort(with); !slices.Equal(with, []int{0, 2}) || took > 80*time.Second {
				t.Errorf("the required one says %+v: %v went on after %s", says, with, took)
			}
		}
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
			told = explain.Lines(b.follow(), b.now)
		}
		return words
	})
	text := strings.Join(told, "\n")
	if want := "sitting out until round 4, as attempts failed because of it: sl-0"; !strings.Contains(text, want) || strings.Contains(text, "of it: sl-0,") {
		t.Errorf("want %q in\n%s", want, text)
	}
}

// signs is an attempt that all finish, with the same model but for who signs another.
func signs(liars ...int) attempt {
	return func(planned []int) map[int]word {
		words := all(planned, word{done: true})
		for _, l := range liars {
			if slices.Contains(planned, l) {
				words[l] = word{done: true, model: "2"}
			}
		}
		return words
	}
}

// TestWhoIsProvenToLieStaysOut: one signs another model, then the link of the other two does not carry, once or for a while.
func TestWhoIsProvenToLieStaysOut(t *testing.T) {
	const liar = 2
	lies := map[string]attempt{
		"signs another model": signs(liar),
		"blames itself": func(planned []int) map[int]word {
			words := all(planned, heard(name(liar), name(liar)))
			words[liar] = saw(name(liar))
			return words
		},
	}
	for lie, do := range lies {
		for _, times := range []int{1, 4} {
			t.Run(fmt.Sprintf("it %s, the link breaks %d times", lie, times), func(t *testing.T) {
				b := newTable(t, 2, 3)
				b.ready(1, 0, 1, 2)
				cuts, back := 0, 0
				with, _ := b.play(func(planned []int) map[int]word {
					if slices.Contains(planned, liar) {
						back += bit(cuts > 0)
						return do(planned)
					}
					if cuts++; cuts > times {
						return cut()(planned)
					}
					b.now = b.now.Add(time.Minute) // a long merge, so that the grace is over
					return cut([2]int{0, 1})(planned)
				})
				if slices.Sort(with); !slices.Equal(with, []int{0, 1}) || cuts != times+1 || back > 0 {
					t.Errorf("%v went on after %d attempts without the liar, %d with it again", with, cuts, back)
				}
			})
		}
	}
}

// TestTwoLiarsDoNotProve: they name one after the other of three honest peers, all of which are needed.
func TestTwoLiarsDoNotProve(t *testing.T) {
	for _, liars := range [][2]int{{0, 1}, {0, 4}, {3, 4}} {
		b := newTable(t, 3, 5)
		b.ready(1, 0, 1, 2, 3, 4)
		with, took := b.play(func(planned []int) map[int]word {
			var lying, honest []int
			for _, i := range slices.Sorted(slices.Values(planned)) {
				if i == liars[0] || i == liars[1] {
					lying = append(lying, i)
				} else {
					honest = append(honest, i)
				}
			}
			if len(lying) == 0 {
				return all(planned, word{done: true})
			}
			words := all(planned, heard(name(honest[0]), name(lying[0])))
			for _, i := range lying {
				words[i] = saw(name(honest[0]))
			}
			return words
		})
		if slices.Contains(with, liars[0]) || slices.Contains(with, liars[1]) || took > 3*time.Minute {
			t.Errorf("liars %v: %v went on after %s", liars, with, took)
		}
	}
}

// TestWhomSumsPutInTheWrongComesBack: an owner's sums say of one that it declared too little, and then it accuses the other.
func TestWhomSumsPutInTheWrongComesBack(t *testing.T) {
	const liar, victim = 0, 2
	b := clipping(t, 3, 3, 3)
	left := false
	with, took := b.play(func(planned []int) map[int]word {
		lies := slices.Contains(planned, liar)
		if left = left || !slices.Contains(planned, victim); lies && left {
			return accuses(liar)(planned)
		}
		var squares [][]float64
		for _, owner := range planned {
			var mine []float64
			for _, of := range planned {
				x := 9 / float64(len(planned))
				if lies && owner == liar && of == victim {
					x = 300
				}
				mine = append(mine, x)
			}
			squares = append(squares, mine)
		}
		b.report(squares...)
		return nil
	})
	if slices.Sort(with); !left || !slices.Equal(with, []int{1, 2}) || took > 90*time.Second {
		t.Errorf("%v went on after %s, the victim was left out: %t", with, took, left)
	}
}

// TestALiarThatDisagreesAlone: a liar is rid of one by accusing it, and then signs another model than the one that is left.
func TestALiarThatDisagreesAlone(t *testing.T) {
	const bound = time.Minute + 3*(5*time.Second+time.Second+time.Second) // the grace and three attempts with their pauses
	for minPeers := range uint32(2) {
		for liar := range 3 {
			t.Run(fmt.Sprintf("liar %d, %d needed", liar, minPeers+1), func(t *testing.T) {
				b := newTable(t, minPeers+1, 3)
				b.ready(1, 0, 1, 2)
				with, took := b.play(then(liar, 3, signs(liar)))
				if len(with) != 2 || slices.Contains(with, liar) || took > bound {
					t.Errorf("%v went on after %s", with, took)
				}
				b.ready(1, 0, 1, 2)
				if with, took = b.play(signs(liar)); len(with) != 2 || slices.Contains(with, liar) || took > time.Second {
					t.Errorf("the next round: %v after %s", with, took)
				}
			})
		}
	}
}

// TestATieLeavesNobodyOut: as many sign one model as the other, and nobody else is there, so nobody can tell who is wrong.
func TestATieLeavesNobodyOut(t *testing.T) {
	tests := []struct {
		n, minPeers int
		lie         []int
	}{
		{2, 1, []int{0}},
		{2, 1, []int{1}},
		{2, 2, []int{1}},
		{4, 1, []int{2, 3}},
		{4, 2, []int{2, 3}},
		{4, 2, []int{0, 2}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%v of %d lie, %d needed", tt.lie, tt.n, tt.minPeers), func(t *testing.T) {
			b := newTable(t, uint32(tt.minPeers), tt.n) //nolint:gosec // small
			for i := range tt.n {
				b.ready(1, i)
			}
			attempts := 0
			with, took := b.play(func(planned []int) map[int]word {
				if len(planned) != tt.n {
					t.Fatalf("attempt %d is that of %v", attempts+1, planned)
				}
				if attempts++; attempts > 30 {
					return signs()(planned) // it was the memory of a machine
				}
				return signs(tt.lie...)(planned)
			})
			if len(with) != tt.n || took < 2*time.Minute {
				t.Errorf("%v went on after %s", with, took)
			}
		})
	}
}

// TestOfTwoWhoIsConvictedGoes: with two of which one suffices, seals say which of them has lied, and the other goes on.
func TestOfTwoWhoIsConvictedGoes(t *testing.T) {
	for liar, sealed := range map[int]bool{0: true, 1: false} { // the owner has sealed two things, the receiver reports what was not sealed
		b := newTable(t, 1, 2)
		b.ready(1, 0, 1)
		b.follow()
		for end := b.now.Add(time.Minute); b.leftOut(2) == ""; b.now = b.now.Add(time.Second) {
			if b.now.After(end) {
				t.Fatalf("liar %d was not left out", liar)
			}
			b.digests(func(r, o int) (int, bool) { lie := r == 1 && o == 0; return bit(lie), !lie || sealed }, nil)
			b.follow()
		}
		if out := b.leftOut(2); out != name(liar) {
			t.Errorf("%s was left out for the lie of %s", out, name(liar))
		}
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
