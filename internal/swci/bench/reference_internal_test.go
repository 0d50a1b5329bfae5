package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/internal/bridge/program"
	"github.com/swarmd/swarmd/internal/swci/cluster"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/mergetest"
)

// memorySwarm is a swarm without daemons, which merges in memory when all its programs have synced.
type memorySwarm struct {
	t      *testing.T
	method *merge.Method
	layout *merge.Layout
	plan   []int                                                 // peers in the order in which they are merged
	spoil  func(s *memorySwarm, offered [][]byte, merged []byte) // if not nil: changes the model of a round
	answer func(s *memorySwarm)                                  // if not nil: changes what programs get

	local, read [][]byte
	base, state []byte
	result      program.Result

	mu     sync.Mutex
	synced int
	done   chan struct{}
}

// memorySession is one peer's session with it.
type memorySession struct {
	*memorySwarm
	peer int
}

func newMemorySwarm(t *testing.T, method string, peers int, size int64) (*memorySwarm, *programs) {
	t.Helper()
	m, err := merge.ParseMethod(method)
	if err != nil {
		t.Fatal(err)
	}
	l, err := merge.NewLayout(layers(size))
	if err != nil {
		t.Fatal(err)
	}
	s := &memorySwarm{t: t, method: m, layout: l, done: make(chan struct{}), read: make([][]byte, peers)}
	p := &programs{reference: newReference(m, l)}
	for i := range peers {
		s.plan = append([]int{i}, s.plan...)
		s.local = append(s.local, make([]byte, size))
		p.peers = append(p.peers, &peer{session: &memorySession{s, i}})
	}
	return s, p
}

func (s *memorySession) Local() []byte     { return s.local[s.peer] }
func (s *memorySession) Committed() []byte { return s.read[s.peer] }
func (s *memorySession) Release() error    { return nil }

func (s *memorySession) Sync(ctx context.Context) (program.Result, error) {
	s.mu.Lock()
	done := s.done
	s.synced++
	if s.synced == len(s.local) {
		s.merge()
		s.synced, s.done = 0, make(chan struct{})
		close(done)
	}
	s.mu.Unlock()
	select {
	case <-done:
		return s.result, nil
	case <-ctx.Done():
		return program.Result{}, ctx.Err()
	}
}

func (s *memorySwarm) merge() {
	r := program.Result{Round: s.result.Round + 1, Contributed: true}
	var weights []uint32
	var models [][]byte
	for _, i := range s.plan {
		r.Participants = append(r.Participants, cluster.SLName(i))
		weights, models = append(weights, uint32(weightOf(i))), append(models, bytes.Clone(s.local[i]))
	}
	model, state, err := mergetest.Merge(s.method, s.layout, weights, models, s.base, s.state)
	if err != nil {
		s.t.Error(err)
	}
	if s.spoil != nil {
		s.spoil(s, models, model)
	}
	digest, _ := mergetest.Digests(s.method, s.layout, model, nil)
	r.Digest = digest.String()
	for i := range s.read {
		s.read[i] = bytes.Clone(model)
	}
	s.base, s.state, s.result = model, state, r
	if s.answer != nil {
		s.answer(s)
	}
}

// TestEveryMethodIsHeldToAReference: a swarm that merges rightly passes, by every method and wire type.
func TestEveryMethodIsHeldToAReference(t *testing.T) {
	for _, method := range merge.Methods() {
		for _, wire := range append([]string{""}, merge.Wires()...) {
			text := method
			if wire != "" {
				text += "(wire=" + wire + ")"
			}
			t.Run(text, func(t *testing.T) {
				for _, size := range []int64{4, 20<<10 + 4} {
					_, p := newMemorySwarm(t, text, 7, size)
					for range 3 {
						if _, err := p.round(t.Context()); err != nil {
							t.Fatalf("%d bytes: %v", size, err)
						}
					}
				}
			})
		}
	}
}

// slowSession takes a minute to write, a second to merge, and a minute to read.
type slowSession struct{ session }

func (s slowSession) Local() []byte {
	time.Sleep(time.Minute)
	return s.session.Local()
}

func (s slowSession) Sync(ctx context.Context) (program.Result, error) {
	time.Sleep(time.Second)
	return s.session.Sync(ctx)
}

func (s slowSession) Committed() []byte {
	time.Sleep(time.Minute)
	return s.session.Committed()
}

func TestWritingAndReadingAreNotTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := newMemorySwarm(t, "mean", 3, 1<<10)
		for _, peer := range p.peers {
			peer.session = slowSession{peer.session}
		}
		if took, err := p.round(t.Context()); err != nil || took != time.Second {
			t.Errorf("a round that takes a second was timed as %s, %v", took, err)
		}
	})
}

func TestNewWeightsInEachRound(t *testing.T) {
	s, p := newMemorySwarm(t, "mean", 3, 1<<20)
	seen := map[string]bool{}
	for range 3 {
		if _, err := p.round(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, model := range append(s.local, s.read[0]) {
			for leaf := range s.layout.Leaves() {
				part := model[s.layout.LeafOffset(leaf):][:s.layout.LeafLen(leaf)]
				sum := merge.Sum(part).String()
				if seen[sum] {
					t.Fatal("two leaves of what was offered and merged are the same")
				}
				seen[sum] = true
			}
		}
	}
}

// add changes element k by d.
func add(model []byte, k int, d float32) {
	v := math.Float32frombits(binary.LittleEndian.Uint32(model[4*k:]))
	binary.LittleEndian.PutUint32(model[4*k:], math.Float32bits(v+d))
}

// TestAWrongModelFailsTheBench: the swarm agrees on its models, but that of the third round is not what was offered, or not what
// all have read.
func TestAWrongModelFailsTheBench(t *testing.T) {
	const elements = 300 << 10 / 4
	type spoil = func(s *memorySwarm, offered [][]byte, merged []byte)
	again := func(weights []uint32, from int) spoil {
		return func(s *memorySwarm, offered [][]byte, merged []byte) {
			model, _, err := mergetest.Merge(s.method, s.layout, weights, offered[from:], nil, nil)
			if err != nil {
				s.t.Error(err)
			}
			copy(merged, model)
		}
	}
	off := func(k int, d float32) spoil {
		return func(_ *memorySwarm, _ [][]byte, merged []byte) { add(merged, k, d) }
	}
	last := strconv.Itoa(elements - 1)
	for _, tt := range []struct {
		name, method string
		spoil        spoil
		answer       func(s *memorySwarm)
		want         string
	}{
		{"one element", "mean", off(elements-1, 1e-5), nil, "as element " + last + " of the merged model; mean of what the peers offered is "},
		{"not a number", "mean", off(5, float32(math.NaN())), nil, "round 3: sl-0 read NaN as element 5 "},
		{"the round before", "mean", func(s *memorySwarm, _ [][]byte, merged []byte) { copy(merged, s.base) }, nil, " as element "},
		{"without weights", "mean", again([]uint32{1, 1, 1, 1}, 0), nil, " as element "},
		{"without a peer", "mean", again([]uint32{99, 98, 97}, 1), nil, " as element "},
		{"leaves change places", "mean", func(s *memorySwarm, _ [][]byte, merged []byte) {
			n := s.layout.LeafSize()
			copy(merged, append(bytes.Clone(merged[n:2*n]), merged[:n]...))
		}, nil, " as element 0 "},
		{"a bit of another method", "fedadam", func(_ *memorySwarm, _ [][]byte, merged []byte) { merged[4*7] ^= 1 }, nil, "as element 7 of the merged model; fedadam("},
		{"a bit on the wire", "mean(wire=bfloat16)", func(_ *memorySwarm, _ [][]byte, merged []byte) { merged[4*7] ^= 1 }, nil, "as element 7 of the merged model; mean(wire=bfloat16) of"},
		{"one peer's model", "mean", nil, func(s *memorySwarm) { s.read[2][999] ^= 1 }, "round 3: sl-2 read another model than sl-0"},
		{"a short model", "mean", nil, func(s *memorySwarm) { s.read[1] = s.read[1][4:] }, "sl-1 read 307196 bytes, the model has 307200"},
		{"another digest", "mean", nil, func(s *memorySwarm) { s.result.Digest = merge.Sum(nil).String() }, "the swarm committed "},
		{"a stranger", "mean", nil, func(s *memorySwarm) { s.result.Participants[0] = "sl-9" }, "names sl-9 as a participant"},
		{"too few", "mean", nil, func(s *memorySwarm) { s.result.Participants = s.result.Participants[1:] }, "names 3 participants"},
		{"one of them twice", "mean", nil, func(s *memorySwarm) { s.result.Participants[0] = s.result.Participants[1] }, "4 peers have offered"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, p := newMemorySwarm(t, tt.method, 4, 4*elements)
			for range 2 {
				if _, err := p.round(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			s.spoil, s.answer = tt.spoil, tt.answer
			if _, err := p.round(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) || exit.Code(err) != exit.Failed || exit.Hint(err) == "" {
				t.Errorf("got %v, want %q, and a remedy", err, tt.want)
			}
		})
	}
}
