package audit

import (
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity"
)

// Recovered is a founding of the group of SNs anew.
type Recovered struct {
	Record    uint64 // number of the record
	Epoch     uint64 // of the new group
	Node      string // the SN that it began with
	PeerID    string
	By        string // SPIFFE ID of the operator
	AtMS      int64
	LastIndex uint64 // of the raft log that the SN had
}

// recovery judges that the group of SNs was founded anew: an operator has signed it for the very ledger before it, and epochs follow on
// each other. All other SNs join as new nodes from then on.
func (a *auditor) recovery(r ledger.Recovery) {
	last := a.lastEpoch()
	if r.SwarmID != a.report.SwarmID {
		a.bad("swarm_id", "the ledger is of swarm %q, not of %q", a.report.SwarmID, r.SwarmID)
	}
	if r.Epoch != last+1 {
		a.bad("epoch", "%d is due, not %d", last+1, r.Epoch)
	}
	if r.Previous != a.recovered {
		a.bad("previous", "the recovery to epoch %d has digest %.12q, not %.12q", last, a.recovered, r.Previous)
	}
	if before := (ledger.Witness{Length: a.past.head.Length, Hash: a.past.head.Hash}); r.Had != before {
		a.bad("had", "it was signed for a ledger of %d records, and %d come before it", r.Had.Length, before.Length)
	} else {
		a.past.witness("had", r.Had)
	}
	if r.AskedMS != a.atMS {
		a.bad("asked_ms", "the operator signed at %d, the record is of %d", r.AskedMS, a.atMS)
	}
	a.proveRecovery(r)
	a.recovered = r.Digest()
	a.report.Recoveries = append(a.report.Recoveries, Recovered{
		Record: a.seq, Epoch: r.Epoch, Node: r.Node, PeerID: r.PeerID, By: r.By, AtMS: a.atMS, LastIndex: r.LastIndex,
	})
	a.members.refounded(r)
}

// lastEpoch is the newest epoch so far.
func (a *auditor) lastEpoch() uint64 {
	if n := len(a.report.Recoveries); n > 0 {
		return a.report.Recoveries[n-1].Epoch
	}
	return 1
}

// proveRecovery holds a recovery to its signature, and that to the authorities of its time.
func (a *auditor) proveRecovery(r ledger.Recovery) {
	if a.opts.Unsigned {
		return
	}
	cert := a.authorities.operator("", r.Chain, r.By)
	if cert != nil && identity.VerifySVIDSignature(cert, identity.RecoveryMessage(r.Statement()), r.Signature) != nil {
		a.bad("signature", "the key of %s did not sign this recovery", r.By)
	}
}
