package exchange

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/leafio"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// newShortDuel is a duel whose leaves travel as differences from a model of ones.
func newShortDuel(tb testing.TB, wire string, owner int) *duel {
	tb.Helper()
	d := newDuel(tb, "mean(wire="+wire+")", owner)
	base := make(memory, 0, d.a.Layout.Bytes())
	for range cap(base) / 4 {
		base = binary.LittleEndian.AppendUint32(base, math.Float32bits(1))
	}
	d.slots.Base = base
	return d
}

// diff is the frame of a leaf all of whose differences have this code.
func (d *duel) diff(leaf int, code uint16) []byte {
	n := d.a.Layout.LeafLen(leaf) / 2
	b := wire.Header{Kind: wire.KindDiff, Arg: uint32(leaf), Length: uint32(n)}.Append(nil)
	return append(b, bytes.Repeat(binary.LittleEndian.AppendUint16(nil, code), n/2)...)
}

func (d *duel) diffs(code uint16) (b []byte) {
	for i := range hostileLeaves {
		b = append(b, d.diff(i, code)...)
	}
	return b
}

// shortCases are bytes that stand for no leaf where differences are due, and what the reason must say.
func (d *duel) shortCases() map[string]struct {
	said []byte
	says string
} {
	long := append(wire.Header{Kind: wire.KindDiff, Arg: 1, Length: merge.MaxLeafSize/2 + 4}.Append(nil), make([]byte, merge.MaxLeafSize/2+4)...)
	short := append(wire.Header{Kind: wire.KindDiff, Arg: 1, Length: merge.MaxLeafSize/2 - 4}.Append(nil), make([]byte, merge.MaxLeafSize/2-4)...)
	return map[string]struct {
		said []byte
		says string
	}{
		"as they are":  {d.leaves(), "no committed model"},
		"as long":      {join(d.diff(0, 0), wire.Header{Kind: wire.KindDiff, Arg: 1, Length: merge.MaxLeafSize}.Append(nil), make([]byte, merge.MaxLeafSize)), "kind 7"},
		"too long":     {join(d.diff(0, 0), long, d.diff(2, 0)), "kind 7"},
		"too short":    {join(d.diff(0, 0), short, d.diff(2, 0)), "kind 7"},
		"huge":         {wire.Header{Kind: wire.KindDiff, Arg: 0, Length: math.MaxUint32}.Append(nil), "kind 7"},
		"cut":          {join(d.diff(0, 0), d.diff(1, 0)[:1000]), "ended"},
		"repeated":     {join(d.diff(0, 0), d.diff(0, 0), d.diffs(0)), "kind 7"},
		"out of order": {join(d.diff(1, 0), d.diff(0, 0)), "kind 7"},
	}
}

func TestBadDifferences(t *testing.T) {
	for owner, wire := range merge.Wires() {
		d := newShortDuel(t, wire, owner)
		for name, c := range d.shortCases() {
			t.Run(wire+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					err := newShortDuel(t, wire, owner).hear(t, c.said)
					var f *Failure
					if !errors.As(err, &f) || f.Blamed != 1 || !strings.Contains(f.Reason, c.says) {
						t.Errorf("owner %d: got %v, want blame of the peer for %q", owner, err, c.says)
					}
				})
			})
		}
		synctest.Test(t, func(t *testing.T) {
			if err := newShortDuel(t, wire, owner).hear(t, join(d.diffs(0x3c00), d.sealOfDiffs(t, 0x3c00))); err != nil {
				t.Errorf("an honest peer: %v", err)
			}
		})
	}
}

// sealOfDiffs is the peer's seal on what diffs of a code give, if it owns the leaves.
func (d *duel) sealOfDiffs(t *testing.T, code uint16) []byte {
	t.Helper()
	if d.a.Participants[1].Shard.Leaves == 0 {
		return nil
	}
	m, err := merge.ParseMethod(d.a.Method)
	if err != nil {
		t.Fatal(err)
	}
	return d.seal(func(i int) []byte {
		b := make([]byte, d.a.Layout.LeafLen(i))
		if err := leafio.Read(d.slots.Base, d.a.Layout, i, b); err != nil {
			t.Fatal(err)
		}
		if err := m.NewCodec(d.a.Layout).Decode(i, b, d.diff(i, code)[wire.HeaderSize:]); err != nil {
			t.Fatal(err)
		}
		return b
	})
}

// hear runs the attempt with a peer that greets as it should and then says these bytes.
func (d *duel) hear(t *testing.T, said []byte) error {
	t.Helper()
	if d.a.Participants[0].Shard.Leaves == 0 {
		return d.visitPeer(t, join(have(), said))
	}
	ran, _ := d.contribute(t, join(d.hello().AppendFrame(nil), have(), said))
	return ran
}

// TestDifferencesWithoutAModel: in the first round who sends differences is wrong; later the node that has nothing to count
// from is, and both say so.
func TestDifferencesWithoutAModel(t *testing.T) {
	for owner := range 2 {
		for round, want := range map[uint64]int{1: 1, 2: 0} {
			synctest.Test(t, func(t *testing.T) {
				d := newShortDuel(t, "bfloat16", owner)
				d.slots.Base, d.a.Round = nil, round
				hi := d.hello()
				hi.Round = round
				said := join(have(), d.diffs(0))
				var err error
				if owner == 0 {
					err, _ = d.contribute(t, join(hi.AppendFrame(nil), said))
				} else {
					err = d.visitPeer(t, said)
				}
				var f *Failure
				if !errors.As(err, &f) || f.Blamed != want || want == 0 && !strings.Contains(f.Reason, "no committed model") {
					t.Fatalf("owner %d, round %d: got %v, want blame of %d", owner, round, err, want)
				}
				if want == 0 && f.HeardFrom != 1 {
					t.Errorf("owner %d, round %d: got heard from %d, want that it accuses itself only for what the peer says", owner, round, f.HeardFrom)
				}
			})
		}
	}
}

// TestInfiniteDifferencesAreBlamed: a code that is not finite is its sender's value.
func TestInfiniteDifferencesAreBlamed(t *testing.T) {
	for wire, codes := range map[string][]uint16{"bfloat16": {0x7f80, 0xff80, 0x7fc1}, "float16": {0x7c00, 0xfc00, 0x7e01}} {
		for _, code := range codes {
			synctest.Test(t, func(t *testing.T) {
				d := newShortDuel(t, wire, 0)
				err := d.hear(t, join(d.diff(0, 0), d.diff(1, code), d.diff(2, 0), d.diff(3, 0), d.diff(4, 0)))
				var nf *merge.NonFinite
				if !errors.As(err, &nf) || nf.Tensor != "w" || nf.Index != merge.MaxLeafSize/4 {
					t.Errorf("%s: code %#x: got %v, want the first element of leaf 1", wire, code, err)
				}
			})
		}
	}
}
