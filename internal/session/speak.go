package session

import (
	"bytes"
	"encoding/binary"
	"math"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// spoken is what a session's last report has signed. Heartbeats repeat it: to sign each would cost more than to send it.
type spoken struct {
	number uint64
	said   []byte // ReportMessage without the number
	sig    []byte
}

// livesApart is far more than what a session can say between two entries in its journal: a later life begins so far behind the
// last number that is kept.
const livesApart = 1 << 20

// signLocked numbers and signs a report.
func (s *session) signLocked(r *swarmv1.SessionReport) {
	e := s.engine
	if e.cfg.Sign == nil {
		return
	}
	if said := ReportMessage(e.cfg.Peer, r); s.spoken.sig == nil || !bytes.Equal(said, s.spoken.said) {
		r.Number = s.spoken.number + 1
		sig, err := e.cfg.Sign(ReportMessage(e.cfg.Peer, r))
		if err != nil { // the swarm refuses the report and says why
			e.cfg.Log.Error("sign what is reported", "contract", s.contract, "err", err)
			return
		}
		s.spoken = spoken{number: r.Number, said: said, sig: sig}
	}
	r.Number, r.Signature = s.spoken.number, s.spoken.sig
}

// ReportMessage returns the canonical bytes that a node's key signs of a session's report, so that whoever passes it on can change
// nothing of what the leader acts on, nor take anything out: all but Done, which has signatures of its own, and Progress.
func ReportMessage(node string, r *swarmv1.SessionReport) []byte {
	b := []byte("swarmd session report 1\x00")
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
