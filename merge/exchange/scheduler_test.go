package exchange_test

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/merge/exchange"
)

// queueing is a stream that says that the link is what it waits for. Each of its writes takes a while.
type queueing struct {
	exchange.Stream
	slow time.Duration
}

func (queueing) Queues() bool { return true }

func (q queueing) Write(p []byte) (int, error) {
	time.Sleep(q.slow)
	return q.Stream.Write(p)
}

// TestStreamsThatTakeTurns has more participants than may send at a time. Of those who contribute one gives each owner each piece
// slower than a turn lasts.
func TestStreamsThatTakeTurns(t *testing.T) {
	for k, method := range []string{"mean", "coordmedian"} {
		if !row(k) { // mean
			continue
		}
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(5, 6))
				const n = 9
				s := newSwarm(t, n, exchange.Config{})
				s.dials = func(from, to int) (exchange.Stream, exchange.Stream, error) {
					a, b := newPipe()
					slow := time.Millisecond
					if from == 3 || to == 3 {
						slow = 3 * time.Second
					}
					return queueing{a, slow}, queueing{b, time.Millisecond}, nil
				}
				l, _, merged := floats(t, 3*n+2, n)
				var local []*slot
				weights := make([]uint32, n)
				for i := range n {
					local = append(local, randomWeights(l, rng))
					weights[i] = uint32(1 + i)
				}
				weights[5] = 0
				a := attempt(t, l, 1, weights...)
				a.Method = method
				mustAll(t, s.runAll(t.Context(), a, local, merged))
				want := direct(t, a, local)
				for i, m := range merged {
					if !bytes.Equal(m.b, want) {
						t.Errorf("participant %d has another model", i)
					}
				}
			})
		})
	}
}
