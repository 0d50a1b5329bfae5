package exchange_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
	"github.com/swarmd/swarmd/merge/mergetest"
)

// slot is a weight file in memory. It counts writes per leaf.
type slot struct {
	mu     sync.Mutex
	b      []byte
	writes map[int64]int
	watch  func(k int) // called before the k-th write to a new place; may be nil
}

func newSlot(n int64) *slot { return &slot{b: make([]byte, n), writes: map[int64]int{}} }

func (s *slot) ReadAt(p []byte, off int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.NewReader(s.b).ReadAt(p, off)
}

func (s *slot) WriteAt(p []byte, off int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watch != nil {
		s.watch(len(s.writes))
	}
	s.writes[off]++
	return copy(s.b[off:], p), nil
}

// pipe is a stream with half-close over two unbuffered pipes.
type pipe struct{ in, out net.Conn }

func newPipe() (a, b *pipe) {
	x1, x2 := net.Pipe()
	y1, y2 := net.Pipe()
	return &pipe{in: x1, out: y1}, &pipe{in: y2, out: x2}
}

func (p *pipe) Read(b []byte) (int, error)         { return p.in.Read(b) }
func (p *pipe) Write(b []byte) (int, error)        { return p.out.Write(b) }
func (p *pipe) CloseWrite() error                  { return p.out.Close() }
func (p *pipe) Close() error                       { return errors.Join(p.out.Close(), p.in.Close()) }
func (p *pipe) Reset() error                       { return p.Close() }
func (p *pipe) SetReadDeadline(t time.Time) error  { return p.in.SetReadDeadline(t) }
func (p *pipe) SetWriteDeadline(t time.Time) error { return p.out.SetWriteDeadline(t) }

type tcp struct{ *net.TCPConn }

func (c tcp) Reset() error { _ = c.SetLinger(0); return c.Close() }

// swarm is N hubs joined by in-memory or loopback streams.
type swarm struct {
	t       testing.TB
	hubs    []*exchange.Hub
	serving sync.WaitGroup
	ctx     context.Context
	dials   func(from, to int) (exchange.Stream, exchange.Stream, error)
	wrap    func(from, to int, s exchange.Stream) exchange.Stream // dialling end
	// handshake is what a dial must pass; may be nil.
	handshake func(ctx context.Context, from, to int) error
	extend    func(hub int, s *exchange.Slots) // adds to what Run is given; may be nil
	lies      func(hub int) bool               // whether it merges by other weights than the plan's; may be nil
	mu        sync.Mutex
	served    []error
	dialed    int
}

func pipes(int, int) (exchange.Stream, exchange.Stream, error) {
	a, b := newPipe()
	return a, b, nil
}

func newSwarm(t testing.TB, n int, cfg exchange.Config) *swarm {
	ctx, cancel := context.WithCancel(context.Background())
	s := &swarm{t: t, ctx: ctx, dials: pipes}
	for i := range n {
		s.hubs = append(s.hubs, newHub(i, cfg))
	}
	t.Cleanup(func() {
		for _, h := range s.hubs {
			h.Close()
		}
		cancel()
		s.serving.Wait()
	})
	return s
}

func newHub(i int, cfg exchange.Config) *exchange.Hub {
	cfg.Sign, cfg.Verify = func(msg []byte) ([]byte, error) { return sign(node(i), msg), nil }, verify
	return exchange.NewHub(cfg)
}

// sign stands for a node key: who has the name can do it, which these tests do not mind.
func sign(node string, msg []byte) []byte {
	d := merge.Sum(append([]byte(node), msg...))
	return append(d[:], d[:]...)
}

func verify(node string, msg, sig []byte) error {
	if !bytes.Equal(sig, sign(node, msg)) {
		return errors.New("wrong signature")
	}
	return nil
}

func node(i int) string { return fmt.Sprintf("sl-%d", i) }

// dial opens a stream from the hub of one node to another by plan index; ids
// maps plan index to hub.
func (s *swarm) dial(self int, ids []int) exchange.Dial {
	return func(ctx context.Context, j int, _ bool) (exchange.Stream, error) {
		to := ids[j]
		if s.handshake != nil {
			if err := s.handshake(ctx, self, to); err != nil {
				return nil, err
			}
		}
		a, b, err := s.dials(self, to)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.dialed++
		s.mu.Unlock()
		s.serving.Go(func() {
			err := s.hubs[to].Serve(s.ctx, b, node(self))
			s.mu.Lock()
			s.served = append(s.served, err)
			s.mu.Unlock()
		})
		if s.wrap != nil {
			return s.wrap(self, to, a), nil
		}
		return a, nil
	}
}

type outcome struct {
	res  round.Done
	sent uint64 // payload and framing
	err  error
}

// runAll runs one attempt at every participant whose slot is given.
func (s *swarm) runAll(ctx context.Context, a exchange.Attempt, local, merged []*slot) []outcome {
	out := make([]outcome, len(a.Participants))
	ids := make([]int, len(a.Participants))
	for i, p := range a.Participants {
		_, _ = fmt.Sscanf(p.Node, "sl-%d", &ids[i])
	}
	var wg sync.WaitGroup
	for i := range a.Participants {
		if local[i] == nil {
			continue
		}
		wg.Go(func() {
			mine := a
			mine.Self = i
			slots := exchange.Slots{Name: "merged-0", Local: local[i], Merged: merged[i]}
			if s.extend != nil {
				s.extend(ids[i], &slots)
			}
			run := s.hubs[ids[i]].Run
			if s.lies != nil && s.lies(ids[i]) {
				run = s.hubs[ids[i]].RunByOtherWeights
			}
			before := s.hubs[ids[i]].SentBytes()
			done, err := run(ctx, mine, slots, s.dial(ids[i], ids))
			if out[i].err = err; err == nil {
				out[i].res, out[i].sent = *done, s.hubs[ids[i]].SentBytes()-before
			}
		})
	}
	wg.Wait()
	return out
}

// sent and received are what all hubs have counted.
func (s *swarm) sent() (n uint64) {
	for _, h := range s.hubs {
		n += h.SentBytes()
	}
	return n
}

func (s *swarm) received() (n uint64) {
	for _, h := range s.hubs {
		n += h.ReceivedBytes()
	}
	return n
}

var someTypes = []merge.DType{
	merge.Float32, merge.Float64, merge.Float16, merge.BFloat16, merge.Int8, merge.Uint8,
	merge.Int16, merge.Uint16, merge.Int32, merge.Uint32, merge.Int64, merge.Uint64, merge.Bool,
}

func randomLayout(t testing.TB, rng *rand.Rand) *merge.Layout {
	t.Helper()
	tensors := make([]merge.Tensor, 1+rng.IntN(20))
	for i := range tensors {
		tensors[i] = merge.Tensor{
			Name: fmt.Sprintf("t%d", i), DType: someTypes[rng.IntN(len(someTypes))],
			Shape: []int64{rng.Int64N(100), rng.Int64N(600)},
		}
	}
	l, err := merge.NewLayout(tensors)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// randomWeights fills a slot with finite values of the layout's types.
func randomWeights(l *merge.Layout, rng *rand.Rand) *slot {
	s := newSlot(l.Bytes())
	for at := 0; at < len(s.b); at += 8 {
		var eight [8]byte
		binary.LittleEndian.PutUint64(eight[:], rng.Uint64())
		copy(s.b[at:], eight[:])
	}
	for i := range l.Len() {
		tt := l.Tensor(i)
		n, size := tt.Elements(), int64(tt.DType.Size())
		var top byte
		switch tt.DType {
		case merge.Float32, merge.BFloat16, merge.Float64:
			top = 0x3f
		case merge.Float16:
			top = 0x3b
		default:
			continue
		}
		for k := range n {
			s.b[l.Offset(i)+(k+1)*size-1] = top
		}
	}
	return s
}

// direct merges without any exchange.
func direct(t testing.TB, a exchange.Attempt, local []*slot) []byte {
	t.Helper()
	var weights []uint32
	var from []*slot
	for i, p := range a.Participants {
		if p.Weight > 0 {
			weights = append(weights, p.Weight)
			from = append(from, local[i])
		}
	}
	method, err := merge.ParseMethod(a.Method)
	if err != nil {
		t.Fatal(err)
	}
	m, err := method.NewMerger(a.Layout, merge.Contributors{Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, a.Layout.Bytes())
	for leaf := range a.Layout.Leaves() {
		at, n := a.Layout.LeafOffset(leaf), int64(a.Layout.LeafLen(leaf))
		var sources [][]byte
		for _, s := range from {
			sources = append(sources, s.b[at:at+n])
		}
		if err := m.Leaf(leaf, out[at:at+n], sources, nil); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func attempt(t testing.TB, l *merge.Layout, number uint64, weights ...uint32) exchange.Attempt {
	t.Helper()
	owners := make([]bool, len(weights))
	for i := range owners {
		owners[i] = true
	}
	shards, err := mergetest.EqualShards(l.Leaves(), owners)
	if err != nil {
		t.Fatal(err)
	}
	a := exchange.Attempt{Contract: "c", Run: 1, Round: 1, Number: number, Layout: l, Method: "mean"}
	for i, w := range weights {
		a.Participants = append(a.Participants, exchange.Participant{Node: node(i), Weight: w, Shard: shards[i]})
	}
	return a
}

// floats makes a layout of about so many leaves of float32 and n slots where
// participant i holds i+1 everywhere.
func floats(t testing.TB, leaves, n int) (l *merge.Layout, local, merged []*slot) {
	t.Helper()
	l, err := merge.NewLayout([]merge.Tensor{
		{Name: "a.weight", DType: merge.Float32, Shape: []int64{int64(leaves-1) * merge.MaxLeafSize / 4}},
		{Name: "b.weight", DType: merge.Float32, Shape: []int64{100}},
	})
	if err != nil {
		t.Fatal(err)
	}
	l = l.WithLeafSize(merge.MaxLeafSize)
	for i := range n {
		s := newSlot(l.Bytes())
		bits := math.Float32bits(float32(i + 1))
		for k := range s.b {
			s.b[k] = byte(bits >> (8 * (k % 4)))
		}
		local = append(local, s)
		merged = append(merged, newSlot(l.Bytes()))
	}
	return l, local, merged
}

func mustAll(t testing.TB, out []outcome) {
	t.Helper()
	for i, o := range out {
		if o.err != nil {
			t.Fatalf("participant %d: %v", i, o.err)
		}
	}
}

// blamed returns whom a failure blames, or -2 when err is none.
func blamed(err error) int {
	var f *exchange.Failure
	if !errors.As(err, &f) {
		return -2
	}
	return f.Blamed
}

// heardFrom returns from whom a failure was heard, -1 from nobody, -2 when err is none.
func heardFrom(err error) int {
	var f *exchange.Failure
	if !errors.As(err, &f) {
		return -2
	}
	return f.HeardFrom
}

var _ io.Reader = (*pipe)(nil)
