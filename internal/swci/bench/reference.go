package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/swarmd/swarmd/internal/swci/cluster"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/merge"
)

const (
	againstMean  = "mean in float64"
	againstMerge = "package merge, bit by bit"
)

// reference computes what the swarm must come to and holds to it what each program reads, all of it: the plain mean in float64 with
// arithmetic of its own, other methods with package merge. It goes leaf by leaf, so that it holds one leaf of each peer and,
// for other methods, one model. It is for one goroutine.
type reference struct {
	layout *merge.Layout
	method *merge.Method
	offers *offers
	exact  *exact // nil: the plain mean
}

func newReference(m *merge.Method, l *merge.Layout) *reference {
	r := &reference{layout: l, method: m, offers: newOffers()}
	if m.Name() != "mean" || m.Wire() != 0 {
		r.exact = newExact(m, l)
	}
	return r
}

// against says what models are held to.
func (r *reference) against() string {
	if r.exact != nil {
		return againstMerge
	}
	return againstMean
}

// wrong is the error of a bench whose swarm came to another model than it should.
func wrong(format string, args ...any) error {
	return exit.New(exit.Failed, "swarmd merges wrongly: try another binary with --swarmd, and report this one", format, args...)
}

// check holds to the reference what all peers read after a sync, and to that the digest under which the swarm committed it. Each
// sync is checked once, in order. plan has the contributors' indices in the plan's order, and read the model of each peer.
func (r *reference) check(sync int, plan []int, read [][]byte, digest string) error {
	if all := slices.Compact(slices.Sorted(slices.Values(plan))); len(all) != len(read) || len(plan) != len(read) {
		return wrong("%d peers have offered, the swarm names %d participants", len(read), len(plan))
	}
	for i, model := range read {
		if int64(len(model)) != r.layout.Bytes() {
			return wrong("%s read %d bytes, the model has %d", cluster.SLName(i), len(model), r.layout.Bytes())
		}
	}
	rows := make([][]byte, len(plan))
	for i := range rows {
		rows[i] = make([]byte, r.layout.LeafSize())
	}
	offered := func(leaf int) [][]byte {
		for i, peer := range plan {
			rows[i] = rows[i][:r.layout.LeafLen(leaf)]
			r.offers.write(rows[i], peer, sync, r.layout.LeafOffset(leaf))
		}
		return rows
	}
	want, err := r.leaves(plan, offered)
	if err != nil {
		return err
	}
	digests := make([]merge.Digest, r.layout.Leaves())
	for leaf := range digests {
		part := func(peer int) []byte { return read[peer][r.layout.LeafOffset(leaf):][:r.layout.LeafLen(leaf)] }
		if err := want(leaf, part(0)); err != nil {
			return err
		}
		for i := range read {
			if !bytes.Equal(part(i), part(0)) {
				return wrong("%s read another model than %s", cluster.SLName(i), cluster.SLName(0))
			}
		}
		digests[leaf] = merge.Sum(part(0))
	}
	if got := merge.Combine(digests).String(); got != digest {
		return wrong("the peers read a model of digest %s, the swarm committed %s", got, digest)
	}
	return nil
}

// leaves returns what holds the first peer's leaves to the reference, one after the other.
func (r *reference) leaves(plan []int, offered func(leaf int) [][]byte) (func(leaf int, got []byte) error, error) {
	if r.exact == nil {
		sums := make([]float64, r.layout.LeafSize()/4)
		return func(leaf int, got []byte) error {
			// What a float32 sum of so many products can lose, in whatever order it is taken.
			tolerance := float64(len(plan)+4) * largest * 0x1p-24
			for k, want := range meanOf(sums, plan, offered(leaf)) {
				if x := valueAt(got, k); !(math.Abs(x-want) <= tolerance) { // a NaN is no mean either
					return r.differs(leaf, k, x, want)
				}
			}
			return nil
		}, nil
	}
	if err := r.exact.begin(plan, offered); err != nil {
		return nil, fmt.Errorf("compute the reference: %w", err)
	}
	return func(leaf int, got []byte) error {
		want, err := r.exact.leaf(leaf, offered(leaf))
		if err != nil {
			return fmt.Errorf("compute the reference: %w", err)
		}
		for at := 0; !bytes.Equal(got, want) && at < len(got); at += 4 {
			if !bytes.Equal(got[at:at+4], want[at:at+4]) {
				return r.differs(leaf, at/4, valueAt(got, at/4), valueAt(want, at/4))
			}
		}
		return nil
	}, nil
}

// meanOf writes the weighted mean of rows, those of the peers in plan, to sums, and returns the part it used.
func meanOf(sums []float64, plan []int, rows [][]byte) []float64 {
	sums = sums[:len(rows[0])/4]
	clear(sums)
	total := 0.0
	for i, peer := range plan {
		w := float64(weightOf(peer))
		total += w
		for k := range sums {
			sums[k] += w * valueAt(rows[i], k)
		}
	}
	for k := range sums {
		sums[k] /= total
	}
	return sums
}

// valueAt is element k of float32 values.
func valueAt(b []byte, k int) float64 {
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*k:])))
}

// differs is the error of element k of a leaf.
func (r *reference) differs(leaf, k int, got, want float64) error {
	return wrong("%s read %.9g as element %d of the merged model; %s of what the peers offered is %.9g",
		cluster.SLName(0), got, r.layout.LeafOffset(leaf)/4+int64(k), r.method, want)
}
