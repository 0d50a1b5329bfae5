package exchange_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// handshakes makes dialling take time on the cores of one machine, which all nodes share, and gives each dial up after five seconds
// as an SL's network does.
type handshakes struct {
	cores chan struct{}
	each  func(from int) time.Duration
	never func(from, to int) bool // who is never answered; may be nil
}

// all runs one attempt at all hubs that have a slot.
func (m handshakes) all(ctx context.Context, s *swarm, a exchange.Attempt, local, merged []*slot) []outcome {
	s.handshake = func(ctx context.Context, from, to int) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if m.never != nil && m.never(from, to) {
			<-ctx.Done()
			return ctx.Err()
		}
		select {
		case m.cores <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-m.cores }()
		select {
		case <-time.After(m.each(from)):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.runAll(ctx, a, local, merged)
}

// ones are n weights.
func ones(n int) []uint32 { return slices.Repeat([]uint32{1}, n) }

// few makes a small model of one leaf for each of n.
func few(t *testing.T, n int) (l *merge.Layout, local, merged []*slot) {
	t.Helper()
	l, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{int64(n) * 256}}})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		local, merged = append(local, newSlot(l.Bytes())), append(merged, newSlot(l.Bytes()))
	}
	return l, local, merged
}

// TestQueuedHandshakesAreNoStall: the first attempt on a machine that needs longer for its handshakes than a stream may take succeeds.
func TestQueuedHandshakesAreNoStall(t *testing.T) {
	const n = 12
	l, local, merged := few(t, n)
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, n, exchange.Config{})
		m := handshakes{cores: make(chan struct{}, 2), each: func(int) time.Duration { return 180 * time.Millisecond }}
		start := time.Now()
		mustAll(t, m.all(s.ctx, s, attempt(t, l, 1, ones(n)...), local, merged))
		if took := time.Since(start); took < 10*time.Second {
			t.Errorf("it took %s, which tells nothing of the stall time", took)
		}
	})
}

// TestSlowDiallerIsNotBlamed: others have long opened theirs when one works its queue off.
func TestSlowDiallerIsNotBlamed(t *testing.T) {
	const n = 22
	l, local, merged := few(t, n)
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, n, exchange.Config{})
		m := handshakes{cores: make(chan struct{}, n*n), each: func(from int) time.Duration {
			if from == 5 {
				return 4 * time.Second
			}
			return time.Millisecond
		}}
		start := time.Now()
		mustAll(t, m.all(s.ctx, s, attempt(t, l, 1, ones(n)...), local, merged))
		if took := time.Since(start); took < 20*time.Second {
			t.Errorf("it took %s, which tells nothing of the stall time", took)
		}
	})
}

// TestDeadIsFoundAmongMany: that the others open their streams does not excuse who is gone.
func TestDeadIsFoundAmongMany(t *testing.T) {
	const n, dead = 16, 3
	l, local, merged := few(t, n)
	local[dead] = nil
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, n, exchange.Config{})
		m := handshakes{
			cores: make(chan struct{}, n*n), each: func(int) time.Duration { return 100 * time.Millisecond },
			never: func(_, to int) bool { return to == dead },
		}
		start := time.Now()
		for i, o := range m.all(s.ctx, s, attempt(t, l, 1, ones(n)...), local, merged) {
			if i != dead && blamed(o.err) != dead {
				t.Errorf("participant %d: got %v, want blame of %d", i, o.err, dead)
			}
		}
		if took := time.Since(start); took > 12*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// TestWhoNeverOpensIsFound: a participant that shows life, but opens no stream, can't say for ever that it has a queue; nor can one
// that opens its streams as late as it may keep another's place.
func TestWhoNeverOpensIsFound(t *testing.T) {
	for n, most := range map[int]time.Duration{4: 10 * time.Second, 10: 30 * time.Second} {
		l, local, merged := few(t, n)
		synctest.Test(t, func(t *testing.T) {
			const liar = 1
			s := newSwarm(t, n, exchange.Config{})
			s.hubs[liar].FillOpening()
			m := handshakes{cores: make(chan struct{}, n*n), each: func(from int) time.Duration {
				if from == 0 { // It begins with the liar, which else says first that it waits for it.
					return 4900 * time.Millisecond
				}
				return time.Millisecond
			}}
			ctx, cancel := context.WithTimeout(s.ctx, most+2*time.Second)
			defer cancel()
			for i, o := range m.all(ctx, s, attempt(t, l, 1, ones(n)...), local, merged) {
				if i != liar && blamed(o.err) != liar {
					t.Errorf("participant %d of %d: got %v, want blame of %d within %s", i, n, o.err, liar, most)
				}
			}
		})
	}
}
