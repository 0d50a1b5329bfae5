package exchange_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// leafSent is a leaf frame that was begun on its way from one node to another.
type leafSent struct{ from, to, leaf int }

// frames counts them.
type frames struct {
	mu   sync.Mutex
	sent map[leafSent]int
}

// watch counts on every stream of the swarm, both ways.
func (f *frames) watch(s *swarm) {
	f.sent = make(map[leafSent]int)
	s.wrap = func(from, to int, stream exchange.Stream) exchange.Stream {
		return &tap{Stream: stream, out: framer{f: f, from: from, to: to}, in: framer{f: f, from: to, to: from}}
	}
}

// total is how many leaf frames went between two nodes, and from a node if to is -1.
func (f *frames) total(from, to int) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for l, k := range f.sent {
		if l.from == from && (to < 0 || l.to == to) {
			n += k
		}
	}
	return n
}

// begun reports whether node 0's contributions to the others are under way: a stream that comes when the attempt is over
// already is refused with what is on it.
func (f *frames) begun(a exchange.Attempt) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, to := range []int{1, 2} {
		if f.sent[leafSent{0, to, a.Participants[to].Shard.First + 1}] == 0 {
			return false
		}
	}
	return true
}

type tap struct {
	exchange.Stream
	out, in framer
}

func (t *tap) Write(b []byte) (int, error) {
	n, err := t.Stream.Write(b)
	t.out.see(b[:n])
	return n, err
}

func (t *tap) Read(b []byte) (int, error) {
	n, err := t.Stream.Read(b)
	t.in.see(b[:n])
	return n, err
}

// framer follows the frames of one direction: kind, argument, length.
type framer struct {
	f        *frames
	from, to int
	head     []byte
	skip     int
}

func (r *framer) see(b []byte) {
	for len(b) > 0 {
		if r.skip > 0 {
			n := min(r.skip, len(b))
			r.skip, b = r.skip-n, b[n:]
			continue
		}
		n := min(9-len(r.head), len(b))
		r.head, b = append(r.head, b[:n]...), b[n:]
		if len(r.head) < 9 {
			continue
		}
		if r.head[0] == 3 || r.head[0] == 7 {
			r.f.mu.Lock()
			r.f.sent[leafSent{r.from, r.to, int(binary.LittleEndian.Uint32(r.head[1:]))}]++
			r.f.mu.Unlock()
		}
		r.skip, r.head = int(binary.LittleEndian.Uint32(r.head[5:])), r.head[:0]
	}
}

const (
	spillNodes  = 3
	spillLeaves = 36
)

// severed is a training whose link between nodes 1 and 2 does as the verdict says after so many bytes. Until node 0's
// contributions are under way the link carries less than a leaf: a node that had all of the others' contributions by then
// would wait for nobody.
func severed(t *testing.T, text string, v verdict, bytes int) (*training, *swarm, *network, *frames, exchange.Attempt) {
	t.Helper()
	l, local, _ := floats(t, spillLeaves, spillNodes)
	tr := newTraining(t, canonical(t, text), l, spillNodes, true, rand.New(rand.NewPCG(1, 1)))
	tr.local = local
	s := tr.join(newSwarm(t, spillNodes, exchange.Config{}))
	f := new(frames)
	a := tr.plan(attempt(t, l, 1, 2, 1, 3))
	judge := after(1, bytes, v)
	net := newNetwork(func(from, to, moved int) verdict {
		if from+to != 3 || from == 0 || to == 0 {
			return pass
		}
		if moved < 1<<10 && !f.begun(a) {
			return pass
		}
		for !f.begun(a) {
			time.Sleep(time.Millisecond)
		}
		return judge(from, to, moved)
	})
	s.through(net)
	f.watch(s)
	return tr, s, net, f, a
}

// TestLivePeersSendNothingAgain holds that a link that fails costs only what was on it: who is not at its ends has sent all
// it can, and sends no leaf again.
func TestLivePeersSendNothingAgain(t *testing.T) {
	for k, text := range []string{"mean", "coordmedian", "normclip", "fedadam", "geomedian", "mean(wire=bfloat16)"} {
		if !row(k) { // mean, geomedian
			continue
		}
		for name, v := range map[string]verdict{"stalls": stall, "is cut": cut} {
			if !thorough && (v == stall) != (k == 0) {
				continue
			}
			t.Run(text+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tr, s, net, f, a := severed(t, text, v, 768<<10)
					for i, o := range s.runAll(t.Context(), a, tr.local, tr.merged) {
						if o.err == nil {
							t.Fatalf("participant %d has everything: the link failed too late", i)
						}
					}
					if v == stall {
						for _, to := range []int{1, 2} { // Its contribution, and none that waits for the other two.
							if got, want := f.total(0, to), a.Participants[to].Shard.Leaves; got < want {
								t.Errorf("node 0 sent %d leaves to %d while it waited, want at least %d", got, to, want)
							}
						}
					}
					net.set(anyPass)
					a.Number = 2
					tr.verify(a, s.runAll(t.Context(), a, tr.local, tr.merged))
					tr.once()
					again := map[[2]int]int{}
					for l, k := range f.sent {
						if k == 1 || l.from+l.to == 3 && l.from*l.to != 0 { // the link that failed
							continue
						}
						// A cut ends the attempt at once, and with it the one leaf that a link is just carrying.
						if again[[2]int{l.from, l.to}]++; v == stall || k > 2 || again[[2]int{l.from, l.to}] > 1 {
							t.Errorf("leaf %d was sent %d times from %d to %d", l.leaf, k, l.from, l.to)
						}
					}
					for i, sp := range tr.spills {
						if sp.open != 0 {
							t.Errorf("participant %d has its spill still", i)
						}
					}
				})
			})
		}
	}
}

// behind delays what node 1 sends: others must wait for it, but nothing fails.
func behind(from, _, _ int) verdict {
	if from == 1 {
		time.Sleep(500 * time.Millisecond) // For each 16 KiB.
	}
	return pass
}

func TestASlowContributorHoldsNobodyBack(t *testing.T) {
	for k, text := range []string{"mean", "geomedian", "coordmedian(wire=float16)"} {
		if !row(k) { // mean
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			tr, s, net, _, a := severed(t, text, pass, 0)
			net.set(behind)
			tr.verify(a, s.runAll(t.Context(), a, tr.local, tr.merged))
			tr.once()
			used := tr.contributions(2)
			if used.opened != 1 || used.open != 0 || used.last.reads == 0 {
				t.Errorf("%s: got %+v, want a file that was used and closed", text, used)
			}
			if tr.spills[1].opened > 0 && text == "mean" && tr.spills[1].last.reads > 0 {
				t.Error("the slow one itself spilled, though it waits for nobody")
			}
		})
	}
}

func TestNobodyStallsAndNothingIsSpilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, s, _, _, a := severed(t, "mean", pass, 0)
		tr.verify(a, s.runAll(t.Context(), a, tr.local, tr.merged))
		for i, sp := range tr.spills {
			if sp.opened != 0 {
				t.Errorf("participant %d made a spill", i)
			}
		}
	})
}

var errFull = errors.New("no space left on device")

// full takes a few leaves and no more.
type full struct {
	exchange.Spool
	left int
}

func (f *full) WriteAt(b []byte, off int64) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errFull
	}
	return f.Spool.WriteAt(b, off)
}

// TestWithoutRoomForASpill holds that the merge only costs more then.
func TestWithoutRoomForASpill(t *testing.T) {
	kinds := map[string]func(*spools) func(int64) (exchange.Spool, error){
		"not given": func(*spools) func(int64) (exchange.Spool, error) { return nil },
		"not made": func(*spools) func(int64) (exchange.Spool, error) {
			return func(int64) (exchange.Spool, error) { return nil, errFull }
		},
		"full": func(sp *spools) func(int64) (exchange.Spool, error) {
			return func(n int64) (exchange.Spool, error) {
				f, err := sp.make(n)
				return &full{f, 3}, err
			}
		},
	}
	for name, kind := range kinds {
		if !thorough && name != "full" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr, s, net, _, a := severed(t, "mean", pass, 0)
				give := s.extend
				s.extend = func(hub int, slots *exchange.Slots) {
					give(hub, slots)
					slots.Spill = kind(tr.spills[hub])
				}
				net.set(behind)
				tr.verify(a, s.runAll(t.Context(), a, tr.local, tr.merged))

				tr, s, net, _, a = severed(t, "mean", stall, 768<<10)
				give = s.extend
				s.extend = func(hub int, slots *exchange.Slots) {
					give(hub, slots)
					slots.Spill = kind(tr.spills[hub])
				}
				s.runAll(t.Context(), a, tr.local, tr.merged)
				net.set(anyPass)
				a.Number = 2
				tr.verify(a, s.runAll(t.Context(), a, tr.local, tr.merged))
			})
		})
	}
}

func TestNoSpillIsLeftBehind(t *testing.T) {
	for name, end := range map[string]func(*training, *swarm, exchange.Attempt){
		"forget": func(_ *training, s *swarm, a exchange.Attempt) {
			for _, h := range s.hubs {
				h.Forget(a.Contract)
			}
		},
		"close": func(_ *training, s *swarm, _ exchange.Attempt) {
			for _, h := range s.hubs {
				h.Close()
			}
		},
		"another round": func(tr *training, s *swarm, a exchange.Attempt) {
			a.Round, a.Number = a.Round+1, 1
			mustAll(tr.t, s.runAll(tr.t.Context(), a, tr.local, tr.merged))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr, s, net, _, a := severed(t, "mean", stall, 1<<10)
				s.runAll(t.Context(), a, tr.local, tr.merged)
				if sp := tr.spills[2]; sp.open != 1 || sp.bytes[0] != 2*int64(a.Participants[2].Shard.Leaves-1)*merge.MaxLeafSize+2*400 {
					t.Fatalf("got %+v, want one spill of twice the shard", sp)
				}
				net.set(anyPass)
				end(tr, s, a)
				for i, sp := range tr.spills {
					if sp.open != 0 || sp.opened > 1 || len(sp.wrong) > 0 {
						t.Errorf("participant %d: %d spills made, %d open; %v", i, sp.opened, sp.open, sp.wrong)
					}
				}
			})
		})
	}
}
