package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
	"github.com/swarmd/swarmd/merge/mergetest"
)

const (
	resumeNodes  = 4
	resumeLeaves = 16
	victim       = 2
)

// phases are when the victim's links are cut, by what it does with its scratch file: with four nodes that own four leaves
// each it writes twelve contributions, or four leaves of the mean. Or by how many leaves are in its slot.
var phases = []struct {
	name, method, op string
	k                int
	lent             bool // slots lend their bytes
}{
	{"gather", "geomedian", "write", 4, false},
	{"sums", "geomedian", "write", 11, false},
	{"merge", "geomedian", "read", 0, false},
	{"give", "geomedian", "read", 11, false},
	{"merge", "fedadam", "write", 1, false},
	{"give", "fedadam", "write", 2, false},
	{"last", "fedadam", "write", 3, false},
	{"first", "mean", "slot", 0, false},
	{"middle", "mean", "slot", 7, false},
	{"middle", "normclip", "slot", 5, false},
	{"late", "coordmedian", "slot", 12, false},
	{"give", "geomedian(wire=bfloat16)", "read", 11, false},
	{"give", "fedadam(wire=float16)", "write", 2, false},
	{"middle", "mean(wire=bfloat16)", "slot", 7, false},
	{"middle", "normclip(wire=float16)", "slot", 5, false},
	{"merge lent", "geomedian", "read", 0, true},
	{"first lent", "mean", "slot", 0, true},
	{"middle lent", "mean", "slot", 7, true},
	{"middle lent", "normclip", "slot", 5, true},
}

// broken runs attempt 1 of a training whose victim is cut off at a phase, and returns what goes on after the cut.
func broken(t *testing.T, phase int) (*training, *swarm, exchange.Attempt, *atomic.Bool, []outcome) {
	t.Helper()
	return brokenOf(t, phase, 0)
}

// brokenOf is broken with so many mergers of each shard.
func brokenOf(t *testing.T, phase, mergers int) (*training, *swarm, exchange.Attempt, *atomic.Bool, []outcome) {
	t.Helper()
	l, local, _ := floats(t, resumeLeaves, resumeNodes)
	p := phases[phase]
	tr := newTraining(t, canonical(t, p.method), l, resumeNodes, true, rand.New(rand.NewPCG(1, 1)))
	tr.local = local
	s := tr.join(newSwarm(t, resumeNodes, exchange.Config{}))
	if p.lent {
		give := s.extend
		s.extend = func(hub int, slots *exchange.Slots) {
			give(hub, slots)
			lend(slots)
		}
	}
	var dead atomic.Bool
	tr.spools[victim].watch = func(op string, k int) {
		if op == p.op && k == p.k {
			dead.Store(true)
		}
	}
	tr.merged[victim].watch = func(k int) {
		if p.op == "slot" && k >= p.k { // Several may be under way when one is counted.
			dead.Store(true)
		}
	}
	s.through(newNetwork(func(from, to, _ int) verdict {
		if dead.Load() && (from == victim || to == victim) {
			return cut
		}
		return pass
	}))
	a := attempt(t, l, 1, 1, 2, 1, 3)
	if phase%2 == 1 || mergers == 3 {
		interleave(a)
	}
	if a = tr.plan(a); mergers > 1 {
		a = witnessing(a, mergers)
	}
	out := s.runAll(t.Context(), a, tr.local, tr.merged)
	tr.spools[victim].watch, tr.merged[victim].watch = nil, nil
	dead.Store(false)
	return tr, s, a, &dead, out
}

// interleave has the participants own every so many-th leaf.
func interleave(a exchange.Attempt) {
	n := len(a.Participants)
	for i := range a.Participants {
		p := &a.Participants[i]
		p.Shard, p.More = merge.Shard{First: i, Leaves: 1}, nil
		for leaf := i + n; leaf < a.Layout.Leaves(); leaf += n {
			p.More = append(p.More, merge.Shard{First: leaf, Leaves: 1})
		}
	}
}

// missing is how many bytes of leaves another attempt with the same nodes must move.
func (tr *training) missing(a exchange.Attempt) (bytes uint64) {
	others := len(a.Participants) - 1
	for i, p := range a.Participants {
		kept, own := make([]int, tr.layout.Leaves()), shard(p)
		if f := tr.contributions(i).last; f != nil {
			for off := range f.writes {
				kept[own[off/int64(others*merge.MaxLeafSize)]]++
			}
		}
		for leaf := range tr.layout.Leaves() {
			switch {
			case tr.merged[i].writes[tr.layout.LeafOffset(leaf)] > 0:
			case slices.Contains(own, leaf):
				bytes += uint64(tr.travels(leaf) * (others - kept[leaf]))
			default:
				bytes += uint64(tr.travels(leaf))
			}
		}
	}
	return bytes
}

// contributions are the files where a node keeps what others send.
func (tr *training) contributions(i int) *spools {
	if tr.method.Distances() {
		return tr.spools[i]
	}
	return tr.spills[i]
}

// once holds that nothing was written twice to any slot or scratch file of one set of nodes.
func (tr *training) once() {
	tr.t.Helper()
	for i := range tr.merged {
		for off, k := range tr.merged[i].writes {
			if k != 1 {
				tr.t.Errorf("participant %d wrote at %d of its slot %d times", i, off, k)
			}
		}
		for _, sp := range []*spools{tr.spools[i], tr.spills[i]} {
			if sp.opened > 1 {
				tr.t.Errorf("participant %d made %d scratch files of one kind", i, sp.opened)
			}
			if sp.last == nil {
				continue
			}
			for off, k := range sp.last.writes {
				if k != 1 {
					tr.t.Errorf("participant %d wrote at %d of its scratch file %d times", i, off, k)
				}
			}
		}
	}
}

func TestEveryPhaseResumes(t *testing.T) {
	for k, p := range phases {
		if !row(k) {
			continue
		}
		t.Run(p.method+"/"+p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr, s, a, _, first := broken(t, k)
				failed := 0
				for i, o := range first {
					if o.err != nil {
						failed++
					}
					// Whoever has all of the victim's contribution may only say that it left.
					left := p.op == "slot" && blamed(o.err) == -1 && strings.Contains(o.err.Error(), node(victim))
					if i != victim && o.err != nil && blamed(o.err) != victim && !left {
						t.Errorf("participant %d: got %v, want blame of the victim", i, o.err)
					}
				}
				missing := tr.missing(a)
				if failed < 2 || missing == 0 {
					t.Fatalf("%d failed, %d bytes are missing: the cut came too late", failed, missing)
				}
				a.Number = 2
				out := s.runAll(t.Context(), a, tr.local, tr.merged)
				tr.verify(a, out)
				tr.once()
				var sent uint64
				for _, o := range out {
					sent += o.sent
				}
				// Beside the leaves: headers, hellos, bitmaps, sums.
				if sent < missing || sent > missing+16<<10 {
					t.Errorf("attempt 2 moved %d bytes where %d were missing", sent, missing)
				}
			})
		})
	}
}

func TestASmallerSetStartsOver(t *testing.T) {
	for i, k := range []int{1, 2, 4} {
		if !row(i) {
			continue
		}
		t.Run(phases[k].method+"/"+phases[k].name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr, s, a, dead, _ := broken(t, k)
				dead.Store(true)
				smaller := attempt(t, tr.layout, 2, 1, 2, 0, 3)
				smaller.Method = a.Method
				p := smaller.Participants
				shards, err := mergetest.EqualShards(tr.layout.Leaves(), []bool{true, true, true})
				if err != nil {
					t.Fatal(err)
				}
				smaller.Participants = append(p[:victim:victim], p[victim+1:]...)
				for i := range shards {
					smaller.Participants[i].Shard = shards[i]
				}
				without := func(x []*slot) []*slot { return append(x[:victim:victim], x[victim+1:]...) }
				rest := *tr
				rest.local, rest.merged = without(tr.local), without(tr.merged)
				rest.spools = append(tr.spools[:victim:victim], tr.spools[victim+1:]...)
				rest.spills = append(tr.spills[:victim:victim], tr.spills[victim+1:]...)
				for _, m := range rest.merged {
					clear(m.b)
				}
				rest.verify(smaller, s.runAll(t.Context(), smaller, rest.local, rest.merged))
				for i, sp := range rest.spools {
					if sp.opened != 2 || sp.open > 1 {
						t.Errorf("participant %d: %d scratch files made, %d open, want 2 and at most 1", i, sp.opened, sp.open)
					}
				}
			})
		})
	}
}

// TestAttemptsThatOverlap starts each node's second attempt as soon as its first has ended, while others are in theirs.
func TestAttemptsThatOverlap(t *testing.T) {
	for _, text := range []string{"mean", "geomedian", "fedadam"} {
		if !thorough && text == "fedadam" {
			continue
		}
		t.Run(text, func(t *testing.T) {
			l, local, _ := floats(t, resumeLeaves, resumeNodes)
			synctest.Test(t, func(t *testing.T) {
				tr := newTraining(t, canonical(t, text), l, resumeNodes, true, rand.New(rand.NewPCG(1, 1)))
				tr.local = local
				s := tr.join(newSwarm(t, resumeNodes, exchange.Config{}))
				var cuts atomic.Int32
				s.through(newNetwork(func(from, to, moved int) verdict {
					if from+to == 3 && moved > 300<<10 && cuts.Add(1) <= 2 { // Two of the streams between 0 and 3, or 1 and 2.
						return cut
					}
					return pass
				}))
				a := tr.plan(attempt(t, l, 1, 1, 2, 1, 3))
				out := make([]outcome, resumeNodes)
				var wg sync.WaitGroup
				for i := range resumeNodes {
					mine := make([]*slot, resumeNodes)
					mine[i] = tr.local[i]
					wg.Go(func() {
						a := a
						for ; a.Number <= 5; a.Number++ {
							if out[i] = s.runAll(t.Context(), a, mine, tr.merged)[i]; out[i].err == nil && a.Number > 1 {
								return
							}
							time.Sleep(time.Duration(i) * 700 * time.Millisecond)
						}
					})
				}
				wg.Wait()
				a.Number = 6
				tr.verify(a, s.runAll(t.Context(), a, tr.local, tr.merged))
				tr.once()
			})
		})
	}
}

func TestNoScratchFileIsLeftBehind(t *testing.T) {
	ends := map[string]func(*testing.T, *training, *swarm, exchange.Attempt){
		"forget": func(_ *testing.T, _ *training, s *swarm, a exchange.Attempt) {
			for _, h := range s.hubs {
				h.Forget(a.Contract)
			}
		},
		"close": func(_ *testing.T, _ *training, s *swarm, _ exchange.Attempt) {
			for _, h := range s.hubs {
				h.Close()
			}
		},
		"close while it runs": func(t *testing.T, tr *training, s *swarm, a exchange.Attempt) {
			ctx, cancel := context.WithCancel(t.Context())
			a.Number = 2
			var wg sync.WaitGroup
			wg.Go(func() { s.runAll(ctx, a, []*slot{tr.local[0], tr.local[1], nil, nil}, tr.merged) })
			synctest.Wait()
			for _, h := range s.hubs {
				h.Close()
			}
			cancel()
			wg.Wait()
		},
		"another round": func(_ *testing.T, tr *training, s *swarm, a exchange.Attempt) {
			a.Round, a.Number, a.Method = a.Round+1, 1, "mean"
			mustAll(tr.t, s.runAll(context.Background(), a, tr.local, tr.merged))
		},
	}
	for name, end := range ends {
		for _, k := range []int{1, 4} {
			if !thorough && k == 1 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", phases[k].method, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tr, s, a, _, _ := broken(t, k)
					end(t, tr, s, a)
					for i, sp := range tr.spills {
						if sp.open != 0 || sp.opened > 1 || len(sp.wrong) > 0 {
							t.Errorf("participant %d: %d spills made, %d open; %v", i, sp.opened, sp.open, sp.wrong)
						}
					}
					for i, sp := range tr.spools {
						if sp.open != 0 || sp.opened != 1 || len(sp.wrong) > 0 {
							t.Errorf("participant %d: %d scratch files made, %d open; %v", i, sp.opened, sp.open, sp.wrong)
						}
					}
				})
			})
		}
	}
}

func TestAnOwnerWithoutRoomIsBlamed(t *testing.T) {
	l, _, _ := floats(t, resumeLeaves, resumeNodes)
	for _, text := range []string{"geomedian", "fedadam"} {
		synctest.Test(t, func(t *testing.T) {
			tr := newTraining(t, canonical(t, text), l, resumeNodes, true, rand.New(rand.NewPCG(1, 1)))
			s := tr.join(newSwarm(t, resumeNodes, exchange.Config{}))
			full := errors.New("10 bytes are free")
			give := s.extend
			s.extend = func(hub int, slots *exchange.Slots) {
				if give(hub, slots); hub == victim {
					slots.Spool = func(int64) (exchange.Spool, error) { return nil, full }
				}
			}
			a := tr.plan(attempt(t, l, 1, 1, 2, 1, 3))
			for i, o := range s.runAll(t.Context(), a, tr.local, tr.merged) {
				if blamed(o.err) != victim || i == victim && !errors.Is(o.err, full) {
					t.Errorf("%s, participant %d: got %v, want blame of %d", text, i, o.err, victim)
				}
			}
		})
	}
}
