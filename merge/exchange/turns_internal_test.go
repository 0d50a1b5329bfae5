package exchange

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// granted lists which of the turns may send.
func granted(ts []*turn) string {
	s := ""
	for _, t := range ts {
		select {
		case <-t.granted:
			s += "1"
		default:
			s += "0"
		}
	}
	return s
}

func expect(t *testing.T, ts []*turn, want string) {
	t.Helper()
	synctest.Wait()
	if got := granted(ts); got != want {
		t.Fatalf("granted %s, want %s", got, want)
	}
}

// TestTurnsGoToWhoIsBehind has more streams than writers.
func TestTurnsGoToWhoIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := &turns{hold: time.Minute, wait: time.Minute}
		var first []*turn
		for i := range writers {
			first = append(first, ts.ask(rank{merged: true, share: 0.9, distance: i}))
		}
		expect(t, first, "1111")
		next := []*turn{
			ts.ask(rank{merged: true, share: 0.1}),
			ts.ask(rank{share: 0.5, distance: 2}),
			ts.ask(rank{share: 0.5, distance: 1}),
			ts.ask(rank{share: 0.2, distance: 3}),
		}
		for i, want := range []string{"0001", "0011", "0111", "1111"} {
			ts.end(first[i])
			expect(t, next, want)
		}
	})
}

func TestTurnThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := &turns{hold: time.Minute, wait: time.Minute}
		var all []*turn
		for i := range writers + 2 {
			all = append(all, ts.ask(rank{distance: i}))
		}
		ts.end(all[writers]) // its attempt has ended while it waited
		ts.end(all[0])
		expect(t, all, "111101")
		for _, x := range all {
			ts.end(x)
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
		ts := &turns{hold: limit, wait: time.Minute}
		for range writers {
			ts.ask(rank{})
		}
		time.Sleep(limit / 2)
		late := []*turn{ts.ask(rank{}), ts.ask(rank{merged: true})}
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
		ts := &turns{hold: time.Minute, wait: limit}
		var busy []*turn
		for range writers {
			busy = append(busy, ts.ask(rank{}))
		}
		last := []*turn{ts.ask(rank{merged: true, share: 1})}
		for i := range 9 {
			time.Sleep(limit / 10)
			k := i % writers
			more := ts.ask(rank{share: float64(i) / 10})
			ts.end(busy[k])
			busy[k] = more
			expect(t, append(busy, last...), "11110")
		}
		time.Sleep(limit / 10)
		expect(t, append(busy, last...), "11111")
	})
}

func TestRank(t *testing.T) {
	order := []rank{{}, {distance: 1}, {share: 0.5}, {merged: true}, {merged: true, distance: 2}, {merged: true, share: 0.1}}
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

// TestNoLeafInTurnOnceOver holds that nothing is sent when the attempt or the stream ended while it waited, even if its turn came.
func TestNoLeafInTurnOnceOver(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	closed := make(chan struct{})
	close(closed)
	for name, c := range map[string]struct {
		ctx   context.Context
		quit  chan struct{}
		taken int
	}{
		"attempt is over": {ctx: over},
		"stream is gone":  {ctx: t.Context(), quit: closed, taken: writers},
	} {
		t.Run(name, func(t *testing.T) {
			r := &run{ctx: c.ctx, Attempt: Attempt{Participants: make([]Participant, 2)}}
			r.turns.hold, r.turns.wait = time.Hour, time.Hour
			for range c.taken {
				r.turns.ask(rank{})
			}
			for range 100 {
				err := r.inTurn(&conn{s: alwaysQueues{}}, 1, rank{}, c.quit, func() error { t.Fatal("sent"); return nil })
				if err != nil {
					t.Fatal(err)
				}
			}
			if len(r.turns.waiting) > 0 || len(r.turns.sending) != c.taken {
				t.Errorf("%d wait, %d send", len(r.turns.waiting), len(r.turns.sending))
			}
		})
	}
}

type alwaysQueues struct{ Stream }

func (alwaysQueues) Queues() bool { return true }
