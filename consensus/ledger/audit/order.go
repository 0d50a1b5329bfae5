package audit

import (
	"bytes"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/text"
)

// asked judges what an operator asked for, and reads it into request, whose method it must name. It returns false if there is
// nothing to hold the record to. A record without an order is of a time before orders were signed; once one is, all must be.
func (a *auditor) asked(o *ledger.Order, request proto.Message) bool {
	if o == nil {
		if a.ordered > 0 {
			a.bad("order", "no operator signed it, and since record %d all changes by operators are signed", a.ordered)
		}
		a.report.Unsigned++
		return false
	}
	if a.ordered == 0 {
		a.ordered = a.seq
	}
	a.report.Orders++
	if method := strings.TrimSuffix(string(request.ProtoReflect().Descriptor().Name()), "Request"); o.Method != method {
		a.bad("order.method", "%q does not make a record of this kind", o.Method)
		return false
	}
	if before := a.nonces[string(o.Nonce)]; before > 0 || len(o.Nonce) == 0 {
		a.bad("order.nonce", "it was used in record %d: what was asked once was done twice", before)
	}
	a.nonces[string(o.Nonce)] = a.seq
	if o.Witnessed.Length > 0 || o.Witnessed.Hash != "" {
		a.witness("order.witnessed", o.Witnessed)
	}
	a.proveOrder(o)
	if err := protojson.Unmarshal(o.Request, request); err != nil {
		a.bad("order.request", "%v", err)
		return false
	}
	return true
}

// proveOrder holds an order to its signature, and that to the authorities of its time.
func (a *auditor) proveOrder(o *ledger.Order) {
	if a.opts.Unsigned {
		return
	}
	chain, err := identity.ParseChain(o.Chain)
	if err != nil {
		a.bad("order.chain", "%v", err)
		return
	}
	proven, err := a.verifyChain(chain, string(identity.RoleSWCI))
	switch {
	case err != nil:
		a.bad("order.chain", "not an SVID by the authorities of its time (at_ms %d): %v", a.atMS, err)
	case proven != o.By:
		a.bad("order.by", "the SVID is of %s, not of %s", proven, o.By)
	default:
		if id, err := identity.ParseIDString(proven); err != nil || id.Role() != identity.RoleSWCI {
			a.bad("order.by", "%s is no operator", proven)
		}
	}
	message := identity.OrderMessage(identity.Order{
		SwarmID: a.report.SwarmID, Method: o.Method, Request: o.Request, Nonce: o.Nonce, Ledger: o.Witnessed.Hash, Length: o.Witnessed.Length, AskedMS: o.AskedMS,
	})
	if identity.VerifySVIDSignature(chain[0], message, o.Signature) != nil {
		a.bad("order.signature", "the key of %s did not sign this request", o.By)
	}
}

func (a *auditor) forget(f ledger.Forget) {
	if known := a.nodes[f.Node]; known != nil && known.PeerID != f.PeerID {
		a.bad("peer_id", "node %s has node key %s, not %s", f.Node, known.PeerID, f.PeerID)
	}
	delete(a.nodes, f.Node)
	a.admitted.dismiss(f.PeerID)
	if r := (&swarmv1.ForgetNodeRequest{}); a.asked(f.Order, r) && r.GetName() != f.Node {
		a.bad("node", "the operator asked to forget %q", r.GetName())
	}
}

func (a *auditor) ban(b ledger.Ban) {
	if _, banned := a.banned[b.PeerID]; b.PeerID == "" || banned {
		a.bad("peer_id", "%q is banned already", b.PeerID)
	}
	a.banned[b.PeerID] = b.Node
	a.admitted.dismiss(b.PeerID)
	known := a.nodes[b.Node]
	if known != nil && known.PeerID != b.PeerID {
		a.bad("peer_id", "node %s has node key %s, not %s", b.Node, known.PeerID, b.PeerID)
	}
	r := &swarmv1.BanNodeRequest{}
	if !a.asked(b.Order, r) {
		return
	}
	switch {
	case r.GetName() != b.PeerID && r.GetName() != b.Node:
		a.bad("node", "the operator asked to ban %q", r.GetName())
	case text.Printable(r.GetReason(), ' ') != b.Reason:
		a.bad("reason", "the operator gave %q", r.GetReason())
	case b.By != b.Order.By:
		a.bad("by", "%s signed it", b.Order.By)
	}
}

func (a *auditor) unban(u ledger.Unban) {
	name, banned := a.banned[u.PeerID]
	if !banned && !a.report.Late {
		a.bad("peer_id", "%q is not banned", u.PeerID)
	}
	delete(a.banned, u.PeerID)
	r := &swarmv1.UnbanNodeRequest{}
	if !a.asked(u.Order, r) || r.GetName() == u.PeerID || r.GetName() != "" && r.GetName() == name {
		return
	}
	if known := a.nodes[r.GetName()]; known == nil || known.PeerID != u.PeerID {
		a.bad("peer_id", "the operator asked to lift the ban of %q", r.GetName())
	}
}

func (a *auditor) rules(b ledger.Rules) {
	c := a.course(b.Contract, b.Run)
	if b.Run != c.shown.Run {
		a.bad("run", "contract %s is in run %d, not %d", b.Contract, c.shown.Run, b.Run)
	}
	r := &swarmv1.CreateContractRequest{}
	if b.Order == nil {
		a.bad("order", "it is missing")
		return
	}
	if !a.asked(b.Order, r) {
		return
	}
	if r.GetContract() != b.Contract {
		a.bad("contract", "the operator asked for contract %q", r.GetContract())
	}
	c.shown.Rules = append(c.shown.Rules, RuleSet{Record: a.seq, AtMS: a.atMS, Run: b.Run, By: b.Order.By, Rules: r.GetRules(), Asked: bytes.Clone(b.Order.Request)})
}
