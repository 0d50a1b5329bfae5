package exchange_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// allMethods has one of each method, and the least contributors that make it interesting.
var allMethods = []string{
	"mean", "coordmedian", "trimmedmean(share=0.2)", "geomedian", "krum(f=1)", "multikrum(f=1)", "bulyan(f=1)",
	"normclip(factor=1.5)", "fedavgm", "fedadam(lr=0.1)", "fedyogi", "diloco",
}

func canonical(t testing.TB, text string) *merge.Method {
	t.Helper()
	m, err := merge.ParseMethod(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// spools are the scratch files of a node. They check how they are used.
type spools struct {
	mu     sync.Mutex
	opened int
	open   int
	bytes  []int64
	last   *spoolFile
	wrong  []string
	watch  func(op string, k int) // called before the k-th "write" or "read" of a file
}

func (s *spools) make(bytes int64) (exchange.Spool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	s.open++
	s.bytes = append(s.bytes, bytes)
	s.last = &spoolFile{of: s, b: make([]byte, bytes), writes: map[int64]int{}}
	return s.last, nil
}

func (s *spools) blame(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

type spoolFile struct {
	of     *spools
	b      []byte
	writes map[int64]int
	reads  int
	closed bool
}

func (f *spoolFile) begin(op string, off int64, n int) {
	s := f.of
	s.mu.Lock()
	if f.closed || off < 0 || off+int64(n) > int64(len(f.b)) {
		s.blame("%s of %d at %d of %d, closed: %v", op, n, off, len(f.b), f.closed)
	}
	k := f.reads
	if op == "read" {
		f.reads++
	} else {
		k = len(f.writes)
		f.writes[off]++
	}
	watch := s.watch
	s.mu.Unlock()
	if watch != nil {
		watch(op, k)
	}
}

func (f *spoolFile) ReadAt(p []byte, off int64) (int, error) {
	f.begin("read", off, len(p))
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	return copy(p, f.b[off:]), nil
}

func (f *spoolFile) WriteAt(p []byte, off int64) (int, error) {
	f.begin("write", off, len(p))
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	return copy(f.b[off:], p), nil
}

func (f *spoolFile) Close() error {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.closed {
		f.of.blame("closed twice")
	}
	f.closed = true
	f.of.open--
	return nil
}

// training is what all nodes of a swarm merge, round after round, by one method.
type training struct {
	t      testing.TB
	method *merge.Method
	layout *merge.Layout
	local  []*slot
	merged []*slot // model and state of the round
	base   []*slot // of the round before; nil: none
	spools []*spools
	spills []*spools // may be empty: none are given
}

// newTraining has n nodes; if based, there is a committed model with a state that some round has left.
func newTraining(t testing.TB, m *merge.Method, l *merge.Layout, n int, based bool, rng *rand.Rand) *training {
	tr := &training{t: t, method: m, layout: l}
	var base *slot
	if based {
		base = tr.slot()
		copy(base.b, randomWeights(l, rng).b)
		clearPadding(l, base.b)
		for at := l.Bytes(); at < int64(len(base.b)); at += 8 { // Small positive numbers of either width.
			copy(base.b[at:], []byte{1, 2, 0x80, 0x3a, 1, 2, 0x80, 0x3a})
		}
	}
	for range n {
		tr.local = append(tr.local, randomWeights(l, rng))
		tr.merged = append(tr.merged, tr.slot())
		tr.base = append(tr.base, base)
		tr.spools = append(tr.spools, new(spools))
		tr.spills = append(tr.spills, new(spools))
	}
	return tr
}

func (tr *training) slot() *slot {
	return newSlot(tr.layout.Bytes() + tr.method.StateBytes(tr.layout))
}

func clearPadding(l *merge.Layout, b []byte) {
	for leaf := range l.Leaves() {
		at, to := l.LeafOffset(leaf), l.LeafOffset(leaf)
		for _, s := range l.AppendSegments(nil, leaf) {
			clear(b[at : to+int64(s.Start)])
			at = to + int64(s.End)
		}
		clear(b[at : to+int64(l.LeafLen(leaf))])
	}
}

// join makes the swarm run attempts of this training.
func (tr *training) join(s *swarm) *swarm {
	s.extend = func(hub int, slots *exchange.Slots) {
		slots.Spool = tr.spools[hub].make
		if len(tr.spills) > 0 {
			slots.Spill = tr.spills[hub].make
		}
		if tr.base[hub] != nil {
			slots.Base = tr.base[hub]
		}
	}
	return s
}

// plan sets the method, and factors as a leader would.
func (tr *training) plan(a exchange.Attempt) exchange.Attempt {
	a.Method = tr.method.String()
	if !tr.method.BoundsNorms() {
		return a
	}
	var weights []uint32
	var norms []float64
	for i, p := range a.Participants {
		if p.Weight > 0 {
			weights = append(weights, p.Weight)
			norms = append(norms, math.Sqrt(tr.squares(i, shard(exchange.Participant{Shard: merge.Shard{Leaves: tr.layout.Leaves()}}))))
		}
	}
	factors := tr.method.Factors(weights, norms)
	for i := range a.Participants {
		if a.Participants[i].Weight > 0 {
			a.Participants[i].Factor, factors = factors[0], factors[1:]
		}
	}
	return a
}

func (tr *training) leaf(s *slot, leaf int) []byte {
	if s == nil {
		return nil
	}
	at := tr.layout.LeafOffset(leaf)
	return s.b[at : at+int64(tr.layout.LeafLen(leaf))]
}

// codec is how leaves travel; nil: as they are.
func (tr *training) codec() *merge.Codec {
	if tr.base[0] == nil {
		return nil
	}
	return tr.method.NewCodec(tr.layout)
}

// travelled is a leaf of a node's model as owners have it.
func (tr *training) travelled(s *slot, leaf int) []byte {
	b := tr.leaf(s, leaf)
	if c := tr.codec(); c != nil {
		b = append([]byte(nil), b...)
		if err := c.RoundTrip(leaf, make([]byte, c.Len(leaf)), b, tr.leaf(tr.base[0], leaf)); err != nil {
			tr.t.Fatal(err)
		}
	}
	return b
}

// travels is how many bytes travel for a leaf.
func (tr *training) travels(leaf int) int {
	if c := tr.codec(); c != nil {
		return c.Len(leaf)
	}
	return tr.layout.LeafLen(leaf)
}

// squares is the square of the norm of a node's update over some leaves.
func (tr *training) squares(i int, leaves []int) float64 {
	var sum float64
	for _, leaf := range leaves {
		sum += merge.UpdateSquares(tr.layout, leaf, tr.travelled(tr.local[i], leaf), tr.leaf(tr.base[i], leaf))
	}
	return sum
}

// want is what every node must hold, computed from all models at once.
func (tr *training) want(a exchange.Attempt) []byte {
	tr.t.Helper()
	in := merge.Contributors{}
	var from []*slot
	for i, p := range a.Participants {
		if p.Weight > 0 {
			in.Weights = append(in.Weights, p.Weight)
			from = append(from, tr.local[i])
			if tr.method.BoundsNorms() {
				in.Factors = append(in.Factors, p.Factor)
			}
		}
	}
	sources := func(leaf int) [][]byte {
		var out [][]byte
		for _, s := range from {
			out = append(out, tr.travelled(s, leaf))
		}
		return out
	}
	if tr.method.Distances() {
		in.Distances = tr.distances(a, len(from), sources)
	}
	m, err := tr.method.NewMerger(tr.layout, in)
	if err != nil {
		tr.t.Fatal(err)
	}
	out := tr.slot()
	stepper := tr.method.NewStepper(tr.layout)
	for leaf := range tr.layout.Leaves() {
		dst, base := tr.leaf(out, leaf), tr.leaf(tr.base[0], leaf)
		if err := m.Leaf(leaf, dst, sources(leaf), base); err != nil {
			tr.t.Fatal(err)
		}
		copy(dst, tr.travelled(out, leaf))
		if stepper == nil {
			continue
		}
		at, n := tr.method.StateSpan(tr.layout, leaf)
		at += tr.layout.Bytes()
		var state []byte
		if base != nil {
			state = tr.base[0].b[at : at+int64(n)]
		}
		if err := stepper.Leaf(leaf, dst, append([]byte(nil), dst...), base, state, out.b[at:at+int64(n)]); err != nil {
			tr.t.Fatal(err)
		}
	}
	return out.b
}

// distances adds the shards' sums in plan order.
func (tr *training) distances(a exchange.Attempt, n int, sources func(int) [][]byte) []float64 {
	total := make([]float64, n*(n-1)/2)
	for _, p := range a.Participants {
		d := merge.NewDistances(tr.layout, n)
		for _, leaf := range shard(p) {
			if err := d.Add(leaf, sources(leaf)); err != nil {
				tr.t.Fatal(err)
			}
		}
		for i, v := range d.Sums() {
			total[i] += v
		}
	}
	return total
}

// verify holds what came out to what must.
func (tr *training) verify(a exchange.Attempt, out []outcome) {
	tr.t.Helper()
	mustAll(tr.t, out)
	want := tr.want(a)
	var leaves, states []merge.Digest
	for leaf := range tr.layout.Leaves() {
		at, n := tr.layout.LeafOffset(leaf), int64(tr.layout.LeafLen(leaf))
		leaves = append(leaves, merge.Sum(want[at:at+n]))
		from, k := tr.method.StateSpan(tr.layout, leaf)
		from += tr.layout.Bytes()
		states = append(states, merge.Sum(want[from:from+int64(k)]))
	}
	state := ""
	if tr.method.StateBytes(tr.layout) > 0 {
		state = merge.Combine(states).String()
	}
	for i, o := range out {
		if string(tr.merged[i].b) != string(want) {
			tr.t.Errorf("%s: participant %d holds other bytes than a direct merge", tr.method, i)
		}
		if o.res.ModelDigest != merge.Combine(leaves).String() || o.res.StateDigest != state {
			tr.t.Errorf("%s: participant %d: digests of model and state are not those of what it holds", tr.method, i)
		}
		for j, p := range a.Participants {
			var own []merge.Digest
			for _, leaf := range shard(p) {
				own = append(own, leaves[leaf])
			}
			want := merge.Combine(own).String()
			if len(own) > 0 && tr.method.Distances() {
				want = out[0].res.ShardDigests[j] // covers the owner's distances too
			}
			if o.res.ShardDigests[j] != want {
				tr.t.Errorf("%s: participant %d: digest of shard %d is wrong", tr.method, i, j)
			}
		}
		tr.verifySquares(a, i, o.res.UpdateSquares)
		if len(tr.spills) > 0 && len(tr.spills[i].wrong) > 0 {
			tr.t.Errorf("participant %d: spill: %v", i, tr.spills[i].wrong)
		}
		if s := tr.spools[i]; len(s.wrong) > 0 {
			tr.t.Errorf("%s: participant %d: scratch file: %v", tr.method, i, s.wrong)
		}
	}
}

func (tr *training) verifySquares(a exchange.Attempt, i int, got []float64) {
	tr.t.Helper()
	own := shard(a.Participants[i])
	if !tr.method.BoundsNorms() || len(own) == 0 {
		if got != nil {
			tr.t.Errorf("%s: participant %d measured updates: %v", tr.method, i, got)
		}
		return
	}
	for j, p := range a.Participants {
		want := 0.0
		if p.Weight > 0 {
			want = tr.squares(j, own)
		}
		if len(got) != len(a.Participants) || got[j] != want {
			tr.t.Errorf("participant %d: squares %v, want %g at %d", i, got, want, j)
		}
	}
}
