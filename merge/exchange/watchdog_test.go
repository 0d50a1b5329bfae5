package exchange_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/merge/exchange"
)

// disk is a slot or a scratch file, a part of which hangs when it is written to.
type disk struct {
	*slot
	from, to int64
	answers  <-chan struct{}
}

func (d *disk) WriteAt(p []byte, off int64) (int, error) {
	if off >= d.from && off < d.to {
		<-d.answers
	}
	return d.slot.WriteAt(p, off)
}

func (d *disk) Close() error { return nil }

// An owner whose disk hangs tells so itself: it lives, and nobody else can tell its merge from one that waits.
func TestAnOwnerWhoseDiskHangsSaysSo(t *testing.T) {
	const hung = 1
	l, local, merged := floats(t, 30, 3)
	for _, what := range []string{"merged weights", "spill", "spool"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSwarm(t, 3, exchange.Config{})
				a := attempt(t, l, 1, 1, 1, 1)
				own := a.Participants[hung].Shard
				answers := make(chan struct{})
				if what == "spool" {
					a.Method = "geomedian"
				}
				s.extend = func(hub int, sl *exchange.Slots) {
					d := &disk{slot: newSlot(2 * l.Bytes()), to: 2 * l.Bytes(), answers: answers}
					open := func(int64) (exchange.Spool, error) {
						if hub != hung {
							d.to = 0
						}
						return d, nil
					}
					switch {
					case what == "spool":
						sl.Spool = open
					case what == "spill":
						sl.Spill = open
					case hub == hung:
						sl.Merged = &disk{slot: merged[hung], from: l.LeafOffset(own.First), to: l.LeafOffset(own.End()), answers: answers}
					}
				}
				if what == "spill" { // Only who is ahead of another is spilled.
					s.through(newNetwork(func(from, to, _ int) verdict {
						if from == 0 && to == hung {
							time.Sleep(8 * time.Second)
						}
						return pass
					}))
				}
				start := time.Now()
				var back outcome
				var wg sync.WaitGroup
				wg.Go(func() { back = s.runAll(t.Context(), a, []*slot{nil, local[hung], nil}, merged)[hung] })
				out := s.runAll(t.Context(), a, []*slot{local[0], nil, local[2]}, merged)
				took := time.Since(start)
				for _, i := range []int{0, 2} {
					if blamed(out[i].err) != hung || heardFrom(out[i].err) < 0 || !strings.Contains(out[i].err.Error(), "does its disk answer?") {
						t.Errorf("participant %d: got %v, want blame of %d by its own word", i, out[i].err, hung)
					}
				}
				if took < 30*time.Second || took > 45*time.Second {
					t.Errorf("it took %v, want 30 s and at most 15 more", took)
				}
				// Until the disk answers it takes part in nothing.
				a.Number = 2
				for i, o := range s.runAll(t.Context(), a, []*slot{local[0], nil, local[2]}, merged) {
					if i != hung && (blamed(o.err) != hung || heardFrom(o.err) != -1) {
						t.Errorf("attempt 2, participant %d: got %v, want blame of %d", i, o.err, hung)
					}
				}
				close(answers)
				wg.Wait()
				if blamed(back.err) != hung {
					t.Errorf("itself: got %v, want blame of %d", back.err, hung)
				}
			})
		})
	}
}

var _ exchange.Spool = (*disk)(nil)

// Scratch files are written whole on some file systems before they are used. Who makes one for long is not blamed.
func TestScratchMayTakeItsTime(t *testing.T) {
	l, local, merged := floats(t, 30, 3)
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, 3, exchange.Config{})
		a := attempt(t, l, 1, 1, 1, 1)
		a.Method = "fedadam(lr=0.01,beta1=0.9,beta2=0.99,tau=0.001)"
		s.extend = func(hub int, sl *exchange.Slots) {
			sl.Merged = newSlot(3 * l.Bytes()) // with room for an optimiser's state
			sl.Spool = func(bytes int64) (exchange.Spool, error) {
				if hub == 1 {
					time.Sleep(40 * time.Second)
				}
				return &disk{slot: newSlot(bytes)}, nil
			}
		}
		mustAll(t, s.runAll(t.Context(), a, local, merged))
	})
}
