package consensus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/swarmd/swarmd/consensus/admission"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/nonce"
)

// admitter decides which SNs are let in. A server that does not lead passes joins on to the leader.
type admitter struct {
	replica *replica
	peers   *peers
	members *membership
	prover  Prover
	nonces  *nonce.Table // of those who join while this server leads
	asking  *admission.Candidates
	log     *slog.Logger
}

func newAdmitter(r *replica, p *peers, m *membership, prover Prover, log *slog.Logger) *admitter {
	return &admitter{
		replica: r, peers: p, members: m, prover: prover, nonces: nonce.New(time.Now), asking: admission.New(time.Now), log: log,
	}
}

// handle answers a join on the leader, whichever server that is.
func (a *admitter) handle(ctx context.Context, peer Peer, req JoinRequest) JoinResponse {
	_, leader, ok := a.replica.leader()
	if !ok {
		return tryLater(ErrNoLeader)
	}
	if leader == a.replica.address {
		return a.admit(ctx, a.replica.self, joinPassed{Peer: peer, Request: req})
	}
	resp, err := ask[joinPassed, JoinResponse](ctx, a.peers.conns, leader, askJoin, &joinPassed{Peer: peer, Request: req})
	if err != nil {
		return tryLater(err)
	}
	return *resp
}

// admit lets a server in; only the leader can. What via says of the peer can only refuse it, since via may lie.
func (a *admitter) admit(ctx context.Context, via Peer, passed joinPassed) JoinResponse {
	if !a.replica.leads() {
		return tryLater(ErrNotLeader)
	}
	req, swarm := passed.Request, a.replica.view().SwarmID
	if other(req.SwarmID, swarm) {
		return refuse(state.ReasonOtherSwarm, "this is swarm "+swarm, "start with an empty state directory to join it")
	}
	if len(req.Nonce) == 0 {
		return JoinResponse{Nonce: a.nonces.IssueFor(via.PeerID, cmp.Or(passed.Peer.SPIFFEID, passed.Peer.PeerID)), SwarmID: swarm, Servers: a.replica.addresses()}
	}
	if !a.nonces.Redeem(via.PeerID, req.Nonce) {
		return JoinResponse{Refused: &JoinRefusal{Reason: "NONCE_REFUSED", Message: "the leader's nonce is unknown, used up, or too old", Retry: true}}
	}
	if err := a.replica.view().CheckAdmission(req.Name, req.Register.Node.PeerID); err != nil && !a.asking.MayCheck() {
		return JoinResponse{Refused: refusalOf(err)} // it is one of very many
	}
	peer, err := a.prover.Check(swarm, req)
	if err != nil {
		return refuse("SIGNATURE_REFUSED", "the join is not proven: "+err.Error(), "check the SPIFFE ID and the clock of this node")
	}
	if peer.SPIFFEID != "" { // what was proven counts, not what is claimed
		req.Register.Node.SPIFFEID = peer.SPIFFEID
	}
	req.Register.AtMS = time.Now().UnixMilli() // when the proof is checked, by the clock that checks it
	refusal := a.judgeJoin(peer, passed.Peer, req)
	if refusal == nil || !notAdmitted(refusal) {
		a.asking.Forget(peer.PeerID)
	}
	if refusal != nil {
		return JoinResponse{Refused: refusal}
	}
	if _, err := a.peers.fetchStats(ctx, req.Address); err != nil {
		return JoinResponse{Refused: &JoinRefusal{
			Reason: "UNREACHABLE", Message: fmt.Sprintf("the leader can't reach %s: %v", req.Address, err),
			Remedy: "open its port, or advertise another address with --host-ip", Retry: true,
		}}
	}
	data, err := state.EncodeCommand(req.Register)
	if err != nil {
		return refuse(state.ReasonBadCommand, err.Error(), "")
	}
	if err := a.claim(ctx, req); err != nil {
		return rejected(err)
	}
	done, err := a.replica.propose(ctx, data)
	if err != nil {
		return rejected(err)
	}
	voter, err := a.members.addServer(ctx, req)
	if err != nil {
		return tryLater(err)
	}
	return JoinResponse{SwarmID: swarm, Voter: voter, Index: done.index, Servers: a.replica.addresses()}
}

// judgeJoin checks that a request speaks for who signed it, and that it is who sent it.
func (a *admitter) judgeJoin(peer, sender Peer, req JoinRequest) *JoinRefusal {
	id, _, err := ParseAddress(req.Address)
	node := req.Register.Node
	if banned := refusalOf(a.replica.view().CheckBan(peer.PeerID)); banned != nil {
		return banned
	}
	switch {
	case peer.Role != naming.RoleSN || node.Role != naming.RoleSN:
		return &JoinRefusal{Reason: "ROLE_REFUSED", Message: "only SNs join consensus", Remedy: "check the SPIFFE ID"}
	case err != nil:
		return &JoinRefusal{Reason: "BAD_REQUEST", Message: err.Error()}
	case id != peer.PeerID || sender.PeerID != peer.PeerID || node.PeerID != peer.PeerID || node.Name != req.Name:
		return &JoinRefusal{Reason: "BAD_REQUEST", Message: "the request speaks for another node than the one that sent it"}
	case peer.NodeName != "" && peer.NodeName != req.Name:
		return &JoinRefusal{
			Reason: "NAME_REFUSED", Message: fmt.Sprintf("the SVID of this node is for %s, not for %.80q", peer.NodeName, req.Name),
			Remedy: "start it with the --name that its SVID carries, or give it an SVID of its own",
		}
	}
	for _, s := range a.replica.servers() {
		if owner, _, err := ParseAddress(string(s.Address)); string(s.ID) == req.Name && (err != nil || owner != id) {
			if _, _, err := a.replica.view().Apply(req.Register); state.ReasonOf(err) == state.ReasonNameTaken {
				return refusalOf(err)
			}
			return tryLater(fmt.Errorf("the SN that had the name %s is being taken out of the raft group", req.Name)).Refused
		}
	}
	return a.judgeAdmission(req)
}

func other(claimed, swarm string) bool { return claimed != "" && claimed != swarm }

// judgeAdmission remembers an SN that no operator has admitted, in a swarm where operators admit SNs, and that no invitation will. Any other
// reason that keeps it from registering is reported first, since no operator could help it.
func (a *admitter) judgeAdmission(req JoinRequest) *JoinRefusal {
	view, node := a.replica.view(), req.Register.Node
	if view.Admit == "" {
		return nil
	}
	_, _, err := view.Apply(req.Register)
	if c := claimOf(view, req); c != nil && state.ReasonOf(err) == state.ReasonNotAdmitted {
		var claimed *state.State
		if claimed, _, err = view.Apply(*c); err == nil {
			_, _, err = claimed.Apply(req.Register)
		}
	}
	refusal := refusalOf(err)
	waits := admission.Candidate{Name: node.Name, PeerID: node.PeerID, SPIFFEID: node.SPIFFEID, Host: node.Host}
	if refusal != nil && notAdmitted(refusal) && a.asking.Note(waits) {
		attrs := []any{"node", node.Name, "peer_id", node.PeerID, "spiffe_id", node.SPIFFEID, "remedy", admission.Command(node.Name, node.PeerID)}
		if refusal.Reason != state.ReasonNotAdmitted {
			attrs = append(attrs, "invitation", refusal.Message)
		}
		a.log.Warn("an SN waits to be admitted", attrs...)
	}
	return refusal
}

// claimOf is the claim that a join needs, nil if it needs none or brings none.
func claimOf(view *state.State, req JoinRequest) *state.ClaimInvitation {
	node := req.Register.Node
	if req.Claim == nil || view.CheckAdmission(node.Name, node.PeerID) == nil {
		return nil
	}
	return &state.ClaimInvitation{
		Node: node.Name, PeerID: node.PeerID, SPIFFEID: node.SPIFFEID, Key: req.Claim.Key, Signature: req.Claim.Signature, AtMS: req.Register.AtMS,
	}
}

// claim admits an SN that was invited and has not been admitted yet. Of two that claim one invitation at a time the state lets one in.
func (a *admitter) claim(ctx context.Context, req JoinRequest) error {
	c := claimOf(a.replica.view(), req)
	if c == nil {
		return nil
	}
	data, err := state.EncodeCommand(*c)
	if err != nil {
		return err
	}
	done, err := a.replica.propose(ctx, data)
	if x := a.replica.view().Admitted[c.PeerID]; err == nil && done.result.Changed && x != nil {
		a.log.Info("an SN was admitted by its invitation", "node", c.Node, "peer_id", c.PeerID, "spiffe_id", c.SPIFFEID, "invitation", x.Invitation, "by", x.By)
	}
	return err
}

// rejected is the answer to a join whose command was not carried out.
func rejected(err error) JoinResponse {
	if refusal := refusalOf(err); refusal != nil {
		return JoinResponse{Refused: refusal}
	}
	return tryLater(err)
}

// refusalOf turns a rejection by the state into a refusal. It returns nil if err is none.
func refusalOf(err error) *JoinRefusal {
	e, ok := errors.AsType[*state.Error](err)
	if !ok {
		return nil
	}
	return &JoinRefusal{
		Reason: e.Reason, Message: e.Message, Remedy: e.Remedy, Retry: slices.Contains(operatorHelps, e.Reason),
	}
}

// operatorHelps are the reasons for which an SN waits until an operator admits it: nobody has, and no invitation does.
var operatorHelps = []string{
	state.ReasonNotAdmitted, state.ReasonInvitationUnknown, state.ReasonInvitationUsed, state.ReasonInvitationExpired, state.ReasonInvitationOther,
}

// notAdmitted reports whether an SN was refused because no operator has admitted it.
func notAdmitted(err error) bool {
	refusal, ok := errors.AsType[*JoinRefusal](err)
	return ok && slices.Contains(operatorHelps, refusal.Reason)
}

func refuse(reason, message, remedy string) JoinResponse {
	return JoinResponse{Refused: &JoinRefusal{Reason: reason, Message: message, Remedy: remedy}}
}

func tryLater(err error) JoinResponse {
	return JoinResponse{Refused: &JoinRefusal{Reason: "NOT_NOW", Message: err.Error(), Retry: true}}
}
