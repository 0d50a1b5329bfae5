package exchange_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

type verdict int

const (
	pass verdict = iota
	stall
	cut
)

// network judges every piece of data between two nodes; dialled is the
// direction of the stream, moved counts its bytes so far.
type network struct {
	judge atomic.Pointer[func(from, to, moved int) verdict]
}

func (n *network) ask(from, to, moved int) verdict {
	if f := n.judge.Load(); f != nil {
		return (*f)(from, to, moved)
	}
	return pass
}

func (n *network) set(judge func(from, to, moved int) verdict) { n.judge.Store(&judge) }

func newNetwork(judge func(from, to, moved int) verdict) *network {
	n := new(network)
	n.set(judge)
	return n
}

func anyPass(int, int, int) verdict { return pass }

// through puts a network between the two ends of every stream.
func (s *swarm) through(n *network) {
	s.dials = func(from, to int) (exchange.Stream, exchange.Stream, error) {
		a, near := newPipe()
		far, b := newPipe()
		ctx, cancel := context.WithCancel(s.ctx)
		end := func() { _ = near.Close(); _ = far.Close() }
		context.AfterFunc(ctx, end)
		pump := func(x, y *pipe, from, to int) {
			defer func() { _ = y.CloseWrite() }()
			buf := make([]byte, 16<<10)
			for moved := 0; ; {
				k, err := x.Read(buf)
				if err != nil {
					return
				}
				switch n.ask(from, to, moved) {
				case stall:
					<-ctx.Done()
					return
				case cut:
					cancel()
					return
				}
				moved += k
				if _, err := y.Write(buf[:k]); err != nil {
					return
				}
			}
		}
		s.serving.Go(func() {
			var both sync.WaitGroup
			both.Go(func() { pump(near, far, from, to) })
			both.Go(func() { pump(far, near, to, from) })
			both.Wait()
			cancel()
		})
		return a, b, nil
	}
}

// after applies a verdict to all that node x sends or gets, from when one of
// its streams moved so much: that is how a process or a machine dies.
func after(x, bytes int, v verdict) func(from, to, moved int) verdict {
	var begun atomic.Bool
	return func(from, to, moved int) verdict {
		if from != x && to != x {
			return pass
		}
		if moved >= bytes {
			begun.Store(true)
		}
		if begun.Load() {
			return v
		}
		return pass
	}
}

func TestDeadAndStalledNodesAreBlamed(t *testing.T) {
	for name, v := range map[string]verdict{"dies": cut, "stalls": stall} {
		t.Run(name, func(t *testing.T) {
			l, local, merged := floats(t, 12, 4)
			synctest.Test(t, func(t *testing.T) {
				s := newSwarm(t, 4, exchange.Config{})
				s.through(newNetwork(after(2, 300<<10, v)))
				start := time.Now()
				out := s.runAll(t.Context(), attempt(t, l, 1, 1, 1, 1, 1), local, merged)
				took := time.Since(start)
				for _, i := range []int{0, 1, 3} {
					if got := blamed(out[i].err); got != 2 {
						t.Errorf("participant %d: got %v, want blame of 2", i, out[i].err)
					}
					var f *exchange.Failure
					if errors.As(out[i].err, &f) && (f.Node != "sl-2" || f.BytesReceived == 0) {
						t.Errorf("participant %d: got %+v, want sl-2 and bytes", i, f)
					}
					// Who is told first has waited as long.
					if from := heardFrom(out[i].err); v == stall && from != -1 {
						t.Errorf("participant %d: heard it from %d, want seen by itself", i, from)
					}
				}
				if v == stall && (took < 9*time.Second || took > 13*time.Second) {
					t.Errorf("it took %v, want about 10 s", took)
				}
				if v == cut && took > 3*time.Second {
					t.Errorf("it took %v, want at once", took)
				}
			})
		})
	}
}

func TestACutLinkIsReportedByBothEnds(t *testing.T) {
	l, local, merged := floats(t, 12, 3)
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, 3, exchange.Config{})
		s.through(newNetwork(func(from, to, moved int) verdict {
			if from+to == 2 && from != to && moved > 300<<10 { // 0 and 2
				return stall
			}
			return pass
		}))
		out := s.runAll(t.Context(), attempt(t, l, 1, 1, 1, 1), local, merged)
		if blamed(out[0].err) != 2 || blamed(out[2].err) != 0 {
			t.Errorf("got %v and %v, want blame of each other", out[0].err, out[2].err)
		}
		if b := blamed(out[1].err); b != 0 && b != 2 {
			t.Errorf("participant 1: got %v, want blame of 0 or 2", out[1].err)
		} else if got := heardFrom(out[1].err); got != 2-b {
			t.Errorf("participant 1 heard it from %d, want the other end of the link, %d", got, 2-b)
		}
		if a, b := heardFrom(out[0].err), heardFrom(out[2].err); a != -1 || b != -1 {
			t.Errorf("the ends of the link heard it from %d and %d, want from nobody", a, b)
		}
	})
}

func TestResumeSendsNoLeafTwice(t *testing.T) {
	const leaves, n = 30, 3
	l, local, merged := floats(t, leaves, n)
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, n, exchange.Config{})
		net := newNetwork(after(1, 1400<<10, cut))
		s.through(net)
		a := attempt(t, l, 1, 1, 2, 1)
		first := s.runAll(t.Context(), a, local, merged)
		held := 0
		for i := range n {
			if blamed(first[i].err) < 0 {
				t.Fatalf("participant %d: got %v, want a blame", i, first[i].err)
			}
			held += len(merged[i].writes)
		}
		if held == 0 || held == n*leaves {
			t.Fatalf("%d leaves held after the cut, want some", held)
		}
		// What the second attempt may move: every merged leaf to each receiver that does not hold it, and contributions
		// for the leaves that no owner had merged; frames' headers besides.
		var most, sent uint64
		for _, own := range a.Participants {
			for k := own.Shard.First; k < own.Shard.End(); k++ {
				for i, p := range a.Participants {
					if merged[i].writes[l.LeafOffset(k)] == 0 {
						missing := 1
						if p.Node == own.Node {
							missing = n - 1
						}
						most += uint64(missing * (l.LeafLen(k) + 16))
					}
				}
			}
		}
		net.set(anyPass)
		a.Number = 2
		out := s.runAll(t.Context(), a, local, merged)
		mustAll(t, out)
		want := direct(t, a, local)
		for i := range n {
			if string(merged[i].b) != string(want) {
				t.Errorf("participant %d holds other bytes than a direct merge", i)
			}
			if len(merged[i].writes) != leaves {
				t.Errorf("participant %d wrote %d leaves, want %d", i, len(merged[i].writes), leaves)
			}
			for off, k := range merged[i].writes {
				if k != 1 {
					t.Errorf("participant %d wrote the leaf at %d %d times", i, off, k)
				}
			}
			sent += out[i].sent
		}
		if most += 4096; sent > most { // hellos and what each holds
			t.Errorf("attempt 2 moved %d bytes, at most %d were missing", sent, most)
		}
	})
}

func TestAnotherSetStartsFromNothing(t *testing.T) {
	l, local, merged := floats(t, 30, 3)
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, 3, exchange.Config{})
		net := newNetwork(after(2, 1400<<10, cut))
		s.through(net)
		a := attempt(t, l, 1, 1, 1, 1)
		s.runAll(t.Context(), a, local, merged)
		net.set(anyPass)
		a = attempt(t, l, 2, 1, 1)
		mustAll(t, s.runAll(t.Context(), a, local, merged))
		if want := direct(t, a, local); string(merged[0].b) != string(want) || string(merged[1].b) != string(want) {
			t.Error("merged bytes are not those of the smaller set")
		}
	})
}

func TestNaNIsBlamedByAll(t *testing.T) {
	l, local, merged := floats(t, 12, 3)
	nan := math.Float32bits(float32(math.NaN()))
	at := int64(7*merge.MaxLeafSize + 400)
	for k := range int64(4) {
		local[1].b[at+k] = byte(nan >> (8 * k))
	}
	synctest.Test(t, func(t *testing.T) {
		out := newSwarm(t, 3, exchange.Config{}).runAll(t.Context(), attempt(t, l, 1, 1, 1, 1), local, merged)
		for i, o := range out {
			if blamed(o.err) != 1 || !strings.Contains(o.err.Error(), `tensor "a.weight"`) {
				t.Errorf("participant %d: got %v, want blame of 1 for tensor a.weight", i, o.err)
			}
		}
		var nf *merge.NonFinite
		if !errors.As(out[1].err, &nf) { // Leaf 7 of 12 belongs to participant 1.
			t.Errorf("owner: got %v, want *merge.NonFinite", out[1].err)
		}
		for i, want := range []bool{true, false, true} {
			if heard := heardFrom(out[i].err) >= 0; heard != want {
				t.Errorf("participant %d: only heard of it: %t, want %t", i, heard, want)
			}
		}
	})
}

func TestLatePlans(t *testing.T) {
	for name, delay := range map[string]time.Duration{"parked": 1500 * time.Millisecond, "dialled again": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			l, local, merged := floats(t, 12, 3)
			synctest.Test(t, func(t *testing.T) {
				s := newSwarm(t, 3, exchange.Config{})
				a := attempt(t, l, 1, 1, 1, 1)
				late := []*slot{nil, nil, local[2]}
				var wg sync.WaitGroup
				wg.Go(func() { mustAll(t, s.runAll(t.Context(), a, []*slot{local[0], local[1], nil}, merged)) })
				time.Sleep(delay)
				mustAll(t, s.runAll(t.Context(), a, late, merged))
				wg.Wait()
				if delay < 2*time.Second && s.dialed != 6 {
					t.Errorf("%d streams were dialled, want 6", s.dialed)
				}
			})
		})
	}
}

func TestANodeThatNeverComesIsBlamed(t *testing.T) {
	for _, weight := range []uint32{1, 0} {
		l, local, merged := floats(t, 12, 3)
		synctest.Test(t, func(t *testing.T) {
			s := newSwarm(t, 3, exchange.Config{})
			out := s.runAll(t.Context(), attempt(t, l, 1, 1, 1, weight), []*slot{local[0], local[1], nil}, merged)
			for i := range 2 {
				if blamed(out[i].err) != 2 {
					t.Errorf("weight %d, participant %d: got %v, want blame of 2", weight, i, out[i].err)
				}
			}
		})
	}
}

func TestAnOwnerThatCanNotBeDialledIsBlamed(t *testing.T) {
	l, local, merged := floats(t, 12, 3)
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, 3, exchange.Config{})
		s.dials = func(from, to int) (exchange.Stream, exchange.Stream, error) {
			if to == 1 {
				return nil, nil, errors.New("no route")
			}
			return pipes(from, to)
		}
		out := s.runAll(t.Context(), attempt(t, l, 1, 1, 1, 1), local, merged)
		for _, i := range []int{0, 2} {
			if blamed(out[i].err) != 1 {
				t.Errorf("participant %d: got %v, want blame of 1", i, out[i].err)
			}
		}
	})
}

func TestASlowContributorHoldsNobodyGuilty(t *testing.T) {
	l, local, merged := floats(t, 12, 3)
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, 3, exchange.Config{})
		net := &network{}
		net.set(func(from, _, _ int) verdict {
			if from == 1 {
				time.Sleep(3 * time.Second) // For each 16 KiB that node 1 sends.
			}
			return pass
		})
		s.through(net)
		mustAll(t, s.runAll(t.Context(), attempt(t, l, 1, 1, 1, 1), local, merged))
	})
}

func TestCancelLeavesNothingBehind(t *testing.T) {
	l, local, merged := floats(t, 12, 3)
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, 3, exchange.Config{})
		s.through(newNetwork(after(1, 300<<10, stall)))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		a := attempt(t, l, 1, 1, 1, 1)
		for i, o := range s.runAll(ctx, a, local, merged) {
			if !errors.Is(o.err, context.DeadlineExceeded) {
				t.Errorf("participant %d: got %v, want the context's error", i, o.err)
			}
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("it took %v, want 3 s", took)
		}
		for i, o := range s.runAll(t.Context(), a, local, merged) {
			if !errors.Is(o.err, exchange.ErrSuperseded) {
				t.Errorf("the same attempt again at %d: got %v, want ErrSuperseded", i, o.err)
			}
		}
	})
}

func TestStreamsOfOthersAreRefused(t *testing.T) {
	l, local, merged := floats(t, 12, 2)
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, 3, exchange.Config{})
		a := attempt(t, l, 1, 1, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { s.runAll(ctx, a, []*slot{local[0], nil}, merged) })
		// Node 2 claims to be participant 1.
		mine := a
		mine.Self = 1
		_, err := s.hubs[2].Run(t.Context(), mine, exchange.Slots{Local: local[1], Merged: merged[1]}, s.dial(2, []int{0, 1}))
		if blamed(err) != 0 || !strings.Contains(err.Error(), "sl-2 is not participant 1") {
			t.Errorf("got %v, want a refusal that names sl-2", err)
		}
		cancel()
		wg.Wait()
		synctest.Wait() // until what was served is noted
		s.mu.Lock()
		defer s.mu.Unlock()
		denied := false
		for _, err := range s.served {
			denied = denied || errors.Is(err, exchange.ErrDenied)
		}
		if !denied {
			t.Errorf("served: got %v, want ErrDenied", s.served)
		}
	})
}

func TestASupersededAttemptIsRefused(t *testing.T) {
	l, local, merged := floats(t, 12, 2)
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, 2, exchange.Config{})
		older, newer := attempt(t, l, 1, 1, 1), attempt(t, l, 2, 1, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { s.runAll(ctx, newer, []*slot{local[0], nil}, merged) })
		synctest.Wait()
		out := s.runAll(t.Context(), older, []*slot{nil, local[1]}, merged)
		if blamed(out[1].err) != -1 || !strings.Contains(out[1].err.Error(), "superseded by attempt 2") {
			t.Errorf("got %v, want nobody blamed and the newer attempt named", out[1].err)
		}
		cancel()
		wg.Wait()
	})
}

func TestAllWeightsZero(t *testing.T) {
	l, local, merged := floats(t, 3, 2)
	out := newSwarm(t, 2, exchange.Config{}).runAll(t.Context(), attempt(t, l, 1, 0, 0), local, merged)
	if !errors.Is(out[0].err, merge.ErrWeights) {
		t.Errorf("got %v, want ErrWeights", out[0].err)
	}
}
