package audit

import (
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity"
)

// Fetched is a model that a node let out to an operator, as the node has signed.
type Fetched struct {
	Record     uint64 // number of the record
	AtMS       int64
	Run, Round uint64
	By, Node   string // SPIFFE ID of the operator, name of the node
}

func (k *contracts) fetch(f ledger.Fetch) {
	c := k.course(f.Contract, f.Run)
	if f.Run != c.shown.Run {
		k.bad("run", "contract %s is in run %d, not %d", f.Contract, c.shown.Run, f.Run)
	} else if made := c.models[f.Round]; made != f.Model && (made != "" || !k.report.Late) {
		k.bad("model", "round %d of contract %s made model %.12s, not %.12s", f.Round, f.Contract, made, f.Model)
	}
	switch known := k.members.nodes[f.Node]; {
	case known == nil:
		k.bad("node", "no registration of a node %q is on record", f.Node)
	case known.PeerID != f.PeerID:
		k.bad("peer_id", "node %s registered with node key %s, not %s", f.Node, known.PeerID, f.PeerID)
	}
	message := identity.FetchMessage(identity.Fetch{
		SwarmID: k.report.SwarmID, Node: f.Node, Contract: f.Contract, Run: f.Run, Round: f.Round, Model: f.Model, By: f.By, AtMS: f.SeenMS,
	})
	if !k.opts.Unsigned && identity.VerifyNodeSignature(f.PeerID, message, f.Signature) != nil {
		k.bad("signature", "node %s did not sign that it let this model out", f.Node)
	}
	c.shown.Fetches = append(c.shown.Fetches, Fetched{Record: k.seq, AtMS: k.atMS, Run: f.Run, Round: f.Round, By: f.By, Node: f.Node})
}
