// Package statement says what a node's key signs of what its sessions report.
package statement

import (
	"cmp"
	"encoding/binary"
	"math"

	"github.com/swarmd/swarmd/internal/round"
)

// Message returns the canonical bytes that a node's key signs of a session's report, so that whoever passes it on can change
// nothing of what the leader acts on, nor take anything out: all but Progress.
func Message(node string, r *round.Report) []byte {
	b := []byte("swarmd session report 2\x00")
	b = appendText(b, node, r.Contract, r.Session)
	b = appendNumbers(b, r.Run, r.Number, uint64(len(r.Held)))
	for _, h := range r.Held {
		b = appendNumbers(b, h.Round)
		b = appendText(b, h.Digest, h.State)
	}
	ready := r.Ready
	if b = appendSet(b, ready != nil); ready != nil {
		b = appendNumbers(b, ready.Seq, ready.BaseRound, uint64(ready.Weight), math.Float64bits(ready.UpdateNorm), uint64(len(ready.Refuses)))
		b = appendText(b, ready.BaseDigest)
		b = appendText(b, ready.Refuses...)
	}
	f := r.Failed
	if b = appendSet(b, f != nil); f != nil {
		b = appendNumbers(b, f.Round, f.Attempt, f.BytesReceived)
		b = appendText(b, f.Blamed, f.Reason, f.HeardFrom, f.Code)
	}
	b = appendNumbers(b, uint64(len(r.Proofs)))
	for _, p := range r.Proofs { // each has a signature of its own
		d := cmp.Or(p.Done, &round.Done{})
		b = appendNumbers(b, d.Round, d.Attempt)
		b = appendBytes(b, d.Signature)
	}
	return appendWays(appendTrained(appendDone(b, r.Done), r.Trained), r)
}

// appendTrained adds nothing if there is nothing, as in reports of before there was such a thing.
func appendTrained(b []byte, t *round.Trained) []byte {
	if t == nil {
		return b
	}
	b = appendSet(appendSet(appendSet(b, true), t.Ended), t.Counted)
	return appendNumbers(b, t.Seq, t.Batches, t.Samples, t.TotalBatches, t.TotalSamples, t.DataSamples, t.Changed, t.Unchanged, t.UnchangedSince)
}

// appendWays adds whom the node can't reach; nothing if it reaches all, as in reports of before it was told.
func appendWays(b []byte, r *round.Report) []byte {
	all := r.Unreached
	failed := r.Failed != nil && r.Failed.Unreached != nil
	if len(all) == 0 && !failed {
		return b
	}
	b = append(b, 2) // where Trained has 1
	if b = appendSet(b, failed); failed {
		all = append([]round.Unreached{*r.Failed.Unreached}, all...)
	}
	b = appendNumbers(b, uint64(len(all)))
	for _, u := range all {
		b = appendText(b, u.Node, u.Address, u.Cause)
		b = appendSet(appendSet(b, u.Linked), u.Before)
	}
	return b
}

func appendDone(b []byte, d *round.Done) []byte {
	if b = appendSet(b, d != nil); d == nil {
		return b
	}
	b = appendNumbers(b, d.Round, d.Attempt, uint64(len(d.ShardDigests)), uint64(len(d.UpdateSquares)))
	b = appendText(b, d.ModelDigest, d.StateDigest, d.ShardsDigest)
	b = appendText(b, d.ShardDigests...)
	for _, v := range d.UpdateSquares {
		b = appendNumbers(b, math.Float64bits(v))
	}
	b = appendBytes(b, d.Signature)
	b = appendNumbers(b, uint64(len(d.Seals)), uint64(len(d.Claims)))
	b = appendBytes(b, d.Seals...)
	for _, c := range d.Claims {
		b = appendNumbers(b, uint64(c.Owner), uint64(len(c.Inputs)))
		b = appendBytes(b, c.Merged[:], sums(c))
		for _, in := range c.Inputs {
			b = appendBytes(b, in.Digest[:], in.Signature)
		}
	}
	return b
}

// sums is what a claim has of them: nothing where the method needs none.
func sums(c round.Claim) []byte {
	if c.Sums.IsZero() {
		return nil
	}
	return c.Sums[:]
}

func appendSet(b []byte, set bool) []byte {
	if set {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendNumbers(b []byte, all ...uint64) []byte {
	for _, n := range all {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

func appendText(b []byte, all ...string) []byte {
	for _, s := range all {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s))) //nolint:gosec // reports are bounded
		b = append(b, s...)
	}
	return b
}

func appendBytes(b []byte, all ...[]byte) []byte {
	for _, s := range all {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s))) //nolint:gosec // reports are bounded
		b = append(b, s...)
	}
	return b
}
