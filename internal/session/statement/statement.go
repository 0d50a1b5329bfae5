// Package statement says what a node's key signs of what its sessions report.
package statement

import (
	"encoding/binary"
	"math"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// Message returns the canonical bytes that a node's key signs of a session's report, so that whoever passes it on can change
// nothing of what the leader acts on, nor take anything out: all but Progress.
func Message(node string, r *swarmv1.SessionReport) []byte {
	b := []byte("swarmd session report 2\x00")
	b = appendText(b, node, r.GetContract(), r.GetSession())
	b = appendNumbers(b, r.GetRun(), r.GetNumber(), uint64(len(r.GetHeld())))
	for _, h := range r.GetHeld() {
		b = appendNumbers(b, h.GetRound())
		b = appendText(b, h.GetDigest(), h.GetStateDigest())
	}
	ready := r.GetReady()
	if b = appendSet(b, ready != nil); ready != nil {
		b = appendNumbers(b, ready.GetSeq(), ready.GetBaseRound(), uint64(ready.GetWeight()), math.Float64bits(ready.GetUpdateNorm()), uint64(len(ready.GetRefuses())))
		b = appendText(b, ready.GetBaseDigest())
		b = appendText(b, ready.GetRefuses()...)
	}
	f := r.GetFailed()
	if b = appendSet(b, f != nil); f != nil {
		b = appendNumbers(b, f.GetRound(), f.GetAttempt(), f.GetBytesReceived())
		b = appendText(b, f.GetBlamed(), f.GetReason(), f.GetHeardFrom(), f.GetCode())
	}
	b = appendNumbers(b, uint64(len(r.GetProofs())))
	for _, p := range r.GetProofs() { // each has a signature of its own
		b = appendNumbers(b, p.GetDone().GetRound(), p.GetDone().GetAttempt())
		b = appendBytes(b, p.GetDone().GetSignature())
	}
	return appendDone(b, r.GetDone())
}

func appendDone(b []byte, d *swarmv1.Done) []byte {
	if b = appendSet(b, d != nil); d == nil {
		return b
	}
	b = appendNumbers(b, d.GetRound(), d.GetAttempt(), uint64(len(d.GetShardDigests())), uint64(len(d.GetUpdateSquares())))
	b = appendText(b, d.GetModelDigest(), d.GetStateDigest(), d.GetShardsDigest())
	b = appendText(b, d.GetShardDigests()...)
	for _, v := range d.GetUpdateSquares() {
		b = appendNumbers(b, math.Float64bits(v))
	}
	b = appendBytes(b, d.GetSignature())
	b = appendNumbers(b, uint64(len(d.GetSeals())), uint64(len(d.GetClaims())))
	b = appendBytes(b, d.GetSeals()...)
	for _, c := range d.GetClaims() {
		b = appendNumbers(b, uint64(c.GetOwner()), uint64(len(c.GetInputs())))
		b = appendBytes(b, c.GetMerged(), c.GetSums())
		for _, in := range c.GetInputs() {
			b = appendBytes(b, in.GetDigest(), in.GetSignature())
		}
	}
	return b
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
