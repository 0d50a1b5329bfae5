package schedule

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// granted lists which of the turns may send.
func granted(ts []*Turn) string {
	s := ""
	for _, t := range ts {
		select {
		case <-t.Granted:
			s += "1"
		default:
			s += "0"
		}
	}
	return s
}

func expect(t *testing.T, ts []*Turn, want string) {
	t.Helper()
	synctest.Wait()
	if got := granted(ts); got != want {
		t.Fatalf("granted %s, want %s", got, want)
	}
}

// TestTurnsGoToWhoIsBehind has more streams than writers.
func TestTurnsGoToWhoIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := &Scheduler{turnLimit: time.Minute, waitLimit: time.Minute}
		var first []*Turn
		for i := range Writers {
			first = append(first, ts.Ask(Rank{Merged: true, Share: 0.9, Distance: i}))
		}
		expect(t, first, "1111")
		next := []*Turn{
			ts.Ask(Rank{Merged: true, Share: 0.1}),
			ts.Ask(Rank{Share: 0.5, Distance: 2}),
			ts.Ask(Rank{Share: 0.5, Distance: 1}),
			ts.Ask(Rank{Share: 0.2, Distance: 3}),
		}
		for i, want := range []string{"0001", "0011", "0111", "1111"} {
			ts.End(first[i])
			expect(t, next, want)
		}
	})
}

func TestTurnThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := &Scheduler{turnLimit: time.Minute, waitLimit: time.Minute}
		var all []*Turn
		for i := range Writers + 2 {
			all = append(all, ts.Ask(Rank{Distance: i}))
		}
		ts.End(all[Writers]) // its attempt has ended while it waited
		ts.End(all[0])
		expect(t, all, "111101")
		for _, x := range all {
			ts.End(x)
		}
		if len(ts.sending)+len(ts.waiting) > 0 || ts.timer != nil {
			t.Errorf("%d send, %d wait, timer %v", len(ts.sending), len(ts.waiting), ts.timer)
		}
	})
}

// TestTurnsPassWhoIsStuck has writers that send nothing.
func TestTurnsPassWhoIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Second
		ts := &Scheduler{turnLimit: limit, waitLimit: time.Minute}
		for range Writers {
			ts.Ask(Rank{})
		}
		time.Sleep(limit / 2)
		late := []*Turn{ts.Ask(Rank{}), ts.Ask(Rank{Merged: true})}
		time.Sleep(limit/2 - 1)
		expect(t, late, "00")
		time.Sleep(time.Nanosecond)
		expect(t, late, "11")
	})
}

// TestTurnsForWhoWaitedLong has a stream that others are always preferred to.
func TestTurnsForWhoWaitedLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Second
		ts := &Scheduler{turnLimit: time.Minute, waitLimit: limit}
		var busy []*Turn
		for range Writers {
			busy = append(busy, ts.Ask(Rank{}))
		}
		last := []*Turn{ts.Ask(Rank{Merged: true, Share: 1})}
		for i := range 9 {
			time.Sleep(limit / 10)
			k := i % Writers
			more := ts.Ask(Rank{Share: float64(i) / 10})
			ts.End(busy[k])
			busy[k] = more
			expect(t, append(busy, last...), "11110")
		}
		time.Sleep(limit / 10)
		expect(t, append(busy, last...), "11111")
	})
}

func TestRank(t *testing.T) {
	order := []Rank{{}, {Distance: 1}, {Share: 0.5}, {Merged: true}, {Merged: true, Distance: 2}, {Merged: true, Share: 0.1}}
	for i, a := range order {
		for j, b := range order {
			t.Run(fmt.Sprintf("%d,%d", i, j), func(t *testing.T) {
				if a.before(b) != (i < j) {
					t.Errorf("%+v before %+v: %v", a, b, a.before(b))
				}
			})
		}
	}
}
