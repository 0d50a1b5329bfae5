package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// maxFaults is how many faults a wave has at most; they overlap.
const maxFaults = 4

// spread is how far apart the faults of one wave begin.
const spread = 3 * time.Second

// Fault is one thing that goes wrong, and for how long.
type Fault struct {
	Kind Kind
	Node string // whom it hits; empty: who it is shows only then (the leader), or all SNs
	Peer string // the other end of a link
	At   time.Duration
	For  time.Duration
	Draw uint64 // what else the kind leaves to chance
}

// String names the fault in one line of the report.
func (f Fault) String() string {
	who := strings.Trim(f.Node+" "+f.Peer, " ")
	if who != "" {
		who = " " + who
	}
	return fmt.Sprintf("%s%s at %s for %s", f.Kind, who, f.At.Round(time.Millisecond), f.For.Round(time.Millisecond))
}

// Shape is what a schedule depends on beside its seed.
type Shape struct {
	SNs, SLs int
	Kinds    []Kind
}

// WaveOf returns the faults of a wave in the order in which they begin: a pure function of its arguments. No two of them hit the
// same node, so that what each one does is what its kind says.
func WaveOf(seed uint64, number int, shape Shape) []Fault {
	rng := rand.New(rand.NewPCG(seed, uint64(number))) //nolint:gosec // chosen faults are no secret
	taken := map[string]bool{}
	var faults []Fault
	for want := 1 + rng.IntN(maxFaults); want > 0 || len(faults) == 0; want-- {
		spec := specs[shape.Kinds[rng.IntN(len(shape.Kinds))]]
		f, hits := draw(rng, spec, shape)
		if spec.rare && rng.IntN(4) > 0 {
			continue
		}
		if slices.ContainsFunc(hits, func(node string) bool { return taken[node] }) || parts(faults, spec) {
			continue // A wave may have fewer.
		}
		for _, node := range hits {
			taken[node] = true
		}
		faults = append(faults, f)
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return int(a.At - b.At) })
	return faults
}

// parts reports whether a fault would leave, with those before it, no majority of SNs to put another one in a lost one's place.
func parts(before []Fault, s *spec) bool {
	return slices.ContainsFunc(before, func(f Fault) bool {
		b := specs[f.Kind]
		long := func(s *spec) bool { return s.wipes || s.rare && s.scope == oneSN }
		return s.wipes && long(b) || b.wipes && long(s)
	})
}

// draw makes one fault and names the nodes that it hits.
func draw(rng *rand.Rand, s *spec, shape Shape) (f Fault, hits []string) {
	f = Fault{Kind: s.kind, At: upTo(rng, spread), For: s.least + upTo(rng, s.most-s.least), Draw: rng.Uint64()}
	sn, sl := rng.Perm(shape.SNs), rng.Perm(shape.SLs)
	switch s.scope {
	case oneSN:
		f.Node = snName(sn[0])
		hits = []string{f.Node}
	case oneSL:
		f.Node = slName(sl[0])
		hits = []string{f.Node}
	case lateSN:
		f.Node = snName(shape.SNs)
		hits = []string{f.Node}
	case lateSL:
		f.Node = slName(shape.SLs)
		hits = []string{f.Node}
	case twoSLs:
		f.Node, f.Peer = slName(sl[0]), slName(sl[1])
		hits = []string{f.Node, f.Peer}
	case twoSNs:
		f.Node, f.Peer = snName(sn[0]), snName(sn[1])
		hits = []string{f.Node, f.Peer}
	case slAndSN:
		f.Node, f.Peer = slName(sl[0]), snName(sn[0])
		hits = []string{f.Node, f.Peer}
	case slAndSNs:
		f.Node = slName(sl[0])
		hits = append(every(snName, shape.SNs), f.Node)
	case allSNs:
		hits = every(snName, shape.SNs)
	case allSLs:
		hits = every(slName, shape.SLs)
	case everybody:
		hits = append(every(snName, shape.SNs), every(slName, shape.SLs)...)
	case nobody:
		hits = []string{"authority"}
	}
	return f, hits
}

func every(name func(int) string, n int) (names []string) {
	for i := range n {
		names = append(names, name(i))
	}
	return names
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d) + 1))
}

func snName(i int) string { return fmt.Sprintf("sn-%d", i+1) }

func slName(i int) string { return fmt.Sprintf("sl-%d", i+1) }
