package consensus

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/admission"
	"github.com/swarmd/swarmd/consensus/raftnet"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/store"
	"github.com/swarmd/swarmd/identity/naming"
)

// JoinRequest is what an SN that wants to be a server sends.
type JoinRequest struct {
	// Name and Address are the server's, as in Config.
	Name    string `json:"name"`
	Address string `json:"address"`
	// SwarmID is the swarm that the SN belongs to already; empty if it is new.
	SwarmID string `json:"swarm_id,omitempty"`
	// Register is committed before the server is added; its node must have the same name, the same peer ID and role sn.
	Register state.RegisterNode `json:"register"`

	// Nonce is the leader's; without one the request asks for it. The signatures of the node key and of the SVID's key, whose
	// chain Register holds, are over it and all of the above. Whoever passes the request on can't change it or make one.
	Nonce         []byte `json:"nonce,omitempty"`
	NodeSignature []byte `json:"node_signature,omitempty"`
	SVIDSignature []byte `json:"svid_signature,omitempty"`
}

// Prover is how this package, which knows no keys, has joins proven. Its methods are safe for concurrent use.
type Prover interface {
	// Prove returns the request of this node with a registration made anew, since what proves one grows old, and signed.
	Prove(JoinRequest) (JoinRequest, error)
	// Check returns who made a request for a swarm, as its signatures prove it.
	Check(swarmID string, r JoinRequest) (Peer, error)
}

// JoinResponse is the answer to a JoinRequest.
type JoinResponse struct {
	// Refused is set instead of everything else.
	Refused *JoinRefusal `json:"refused,omitempty"`
	// Nonce is what the request is to be signed over; SwarmID and Servers come with it.
	Nonce []byte `json:"nonce,omitempty"`
	// SwarmID is the swarm joined.
	SwarmID string `json:"swarm_id,omitempty"`
	// Voter tells whether the server votes already; it may be made a voter later.
	Voter bool `json:"voter,omitempty"`
	// Index is the log index of the registration.
	Index uint64 `json:"index,omitempty"`
	// Servers are the addresses of the configuration.
	Servers []string `json:"servers,omitempty"`
}

// JoinRefusal says why an SN was not let in.
type JoinRefusal struct {
	// Reason is a stable word; state's reasons are used where the state refused.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
	// Retry tells that the same request may succeed later.
	Retry bool `json:"retry,omitempty"`
}

// Error returns the message and the remedy.
func (r *JoinRefusal) Error() string {
	if r.Remedy == "" {
		return r.Message
	}
	return r.Message + ": " + r.Remedy
}

// Unwrap makes a final refusal an ErrRefused.
func (r *JoinRefusal) Unwrap() error {
	if r.Retry {
		return ErrNoLeader
	}
	return ErrRefused
}

// joinPassed is a join on its way from a follower to the leader.
type joinPassed struct {
	Peer    Peer        `json:"peer"`
	Request JoinRequest `json:"request"`
}

// exactly decodes one JSON value without unknown fields.
func exactly(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errFrame
	}
	return nil
}

// EncodeJoin writes a request as the join protocol carries it: its length in four bytes and JSON.
func EncodeJoin(w io.Writer, r JoinRequest) error { return writeJSON(w, maxJoin, r) }

// DecodeJoin reads what EncodeJoin wrote, at most 256 KiB.
func DecodeJoin(r io.Reader) (JoinRequest, error) {
	b, err := readSized(r, maxJoin)
	if err != nil {
		return JoinRequest{}, err
	}
	var j JoinRequest
	if err := exactly(b, &j); err != nil {
		return JoinRequest{}, err
	}
	return j, nil
}

// Join makes this server a member by asking the SNs at via, and those of its own configuration, until one has let it in
// or refused it for good (ErrRefused), or ctx ends. Call it on every start of an SN: a member is let in again at
// once, with its new address if that has changed, and a removed one comes back. It returns when this server has applied
// its own registration. While Run runs, a server that finds itself removed repeats the join by itself, last through via.
func (g *Group) Join(ctx context.Context, via []string, self JoinRequest) error {
	if self.Name != g.cfg.Name || self.Address != g.cfg.Address {
		return errors.New("join: the request must carry this server's name and address")
	}
	pause := minBackoff
	last := ErrNoLeader
	begin, said := time.Now(), ""
	told := false // that an operator is to admit this SN
	for {
		waits := false
		if why := last.Error(); why != said && time.Since(begin) > joinNotice {
			said = why
			g.log.Warn("not let into the swarm yet; asking on", "node", g.cfg.Name, "err", last)
		}
		for _, address := range joinTargets(via, g.addresses()) {
			resp, err := g.askJoin(ctx, address, self)
			if err == nil {
				g.mu.Lock()
				g.rejoin = &rejoin{self, via} // from now on; until then this loop asks
				g.mu.Unlock()
				return g.joined(ctx, address, resp)
			}
			if errors.Is(err, ErrRefused) || told && admission.TellsBan(err, g.self.PeerID) {
				return fmt.Errorf("join: %w", err)
			}
			if ctx.Err() == nil {
				last = err
			}
			if notAdmitted(err) {
				waits, said = true, err.Error()
				told = g.tellWaits(told)
			}
		}
		if waits {
			pause = admission.Pause
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("join: %w: %w", last, ctx.Err())
		case <-g.stopped:
			timer.Stop()
			return ErrShutdown
		}
		pause = min(2*pause, maxBackoff)
	}
}

// rejoin is what Join was called with, for a server that finds itself removed.
type rejoin struct {
	self JoinRequest
	via  []string
}

// joinTargets returns all addresses, each once.
func joinTargets(lists ...[]string) []string {
	var out []string
	for _, t := range slices.Concat(lists...) {
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// askJoin asks one SN.
func (g *Group) askJoin(ctx context.Context, address string, self JoinRequest) (JoinResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	ask := func(r JoinRequest) (JoinResponse, error) { return settleJoin(g.joinRouted(ctx, g.self, r)) }
	if address != g.cfg.Address {
		conn, err := raftnet.DialSN(ctx, g.cfg.Network, address, ProtocolJoin)
		if err != nil {
			return JoinResponse{}, err
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		defer func() {
			stop()
			_ = conn.Close()
		}()
		ask = func(r JoinRequest) (JoinResponse, error) { return askOn(conn, address, r) }
	}
	challenge, err := ask(JoinRequest{Name: self.Name, Address: self.Address, SwarmID: self.SwarmID})
	if err != nil {
		return JoinResponse{}, err
	}
	g.named.Set(address, challenge.Servers) // the leader's messages may come before its answer
	self.Nonce = challenge.Nonce
	if self.SwarmID == "" {
		self.SwarmID = challenge.SwarmID
	}
	if self, err = g.cfg.Prover.Prove(self); err != nil {
		return JoinResponse{}, fmt.Errorf("ask %s: %w", address, err)
	}
	return ask(self)
}

// askOn sends one request on a stream of the join protocol and reads its answer.
func askOn(conn net.Conn, address string, r JoinRequest) (JoinResponse, error) {
	if err := EncodeJoin(conn, r); err != nil {
		return JoinResponse{}, fmt.Errorf("ask %s: %w", address, err)
	}
	b, err := readSized(conn, maxJoin)
	if err != nil {
		return JoinResponse{}, fmt.Errorf("ask %s: %w", address, err)
	}
	var resp JoinResponse
	if err := json.Unmarshal(b, &resp); err != nil {
		return JoinResponse{}, fmt.Errorf("ask %s: %w: %w", address, errFrame, err)
	}
	return settleJoin(resp)
}

// follows reports whether this server's leader is one by its configuration, with its name and its key.
func (g *Group) follows() bool {
	name, address, ok := g.Leader()
	leader, _, err := ParseAddress(address)
	return ok && err == nil && slices.ContainsFunc(g.servers(), func(s raft.Server) bool {
		id, _, err := ParseAddress(string(s.Address))
		return string(s.ID) == name && err == nil && id == leader
	})
}

func settleJoin(resp JoinResponse) (JoinResponse, error) {
	if resp.Refused != nil {
		return resp, resp.Refused
	}
	return resp, nil
}

// joined waits until this server has applied its own registration.
func (g *Group) joined(ctx context.Context, by string, resp JoinResponse) error {
	g.named.Set(by, resp.Servers)
	if err := g.wait(ctx, resp.Index); err != nil {
		return fmt.Errorf("join: %w", err)
	}
	g.named.Clear() // the configuration says from here on who is a server
	return store.MarkMember(g.dir)
}

const (
	joinTimeout = 20 * time.Second
	// busyAfter is how long a join waits for others that change the configuration.
	busyAfter = time.Second
	// joinNotice is how long a join may take before it says why: an election and a moment more.
	joinNotice = 5 * time.Second
	// rejoinNotice is the least time between two complaints about it: what fails may differ each time.
	rejoinNotice = time.Minute
)

// serveJoin answers a join: the request for a nonce, and the one that is signed over it.
func (g *Group) serveJoin(conn net.Conn, peer Peer) {
	defer func() { _ = conn.Close() }()
	if !g.enter(conn, peer) {
		return
	}
	defer g.leave(conn)
	ctx, cancel := raftnet.DoneContext(g.stopped, joinTimeout)
	defer cancel()
	_ = conn.SetDeadline(time.Now().Add(joinTimeout))
	for range 2 {
		var resp JoinResponse
		req, err := DecodeJoin(conn)
		switch {
		case errors.Is(err, io.EOF):
			return
		case peer.Role != naming.RoleSN:
			resp = refuse("ROLE_REFUSED", fmt.Sprintf("role %q may not join consensus", peer.Role), "only SNs join; check the SPIFFE ID")
		case err != nil:
			resp = refuse("BAD_REQUEST", err.Error(), "update this node to the version of the others")
		default:
			resp = g.joinRouted(ctx, peer, req)
		}
		if resp.Refused != nil && !notAdmitted(resp.Refused) { // the leader tells of those, once
			g.log.Warn("join refused", "peer", peer.PeerID, "node", req.Name, "reason", resp.Refused.Reason, "message", resp.Refused.Message)
		}
		if err := writeJSON(conn, maxJoin, resp); err != nil {
			g.log.Debug("join not answered", "peer", peer.PeerID, "err", err)
		}
		if err != nil || resp.Nonce == nil {
			return
		}
	}
}

func refuse(reason, message, remedy string) JoinResponse {
	return JoinResponse{Refused: &JoinRefusal{Reason: reason, Message: message, Remedy: remedy}}
}

func tryLater(err error) JoinResponse {
	return JoinResponse{Refused: &JoinRefusal{Reason: "NOT_NOW", Message: err.Error(), Retry: true}}
}

// joinRouted handles a join on the leader, whichever server that is.
func (g *Group) joinRouted(ctx context.Context, peer Peer, req JoinRequest) JoinResponse {
	_, leader, ok := g.Leader()
	if !ok {
		return tryLater(ErrNoLeader)
	}
	if leader == g.cfg.Address {
		return g.joinLocal(ctx, g.self, joinPassed{Peer: peer, Request: req})
	}
	resp, err := ask[joinPassed, JoinResponse](ctx, g.links, leader, askJoin, &joinPassed{Peer: peer, Request: req})
	if err != nil {
		return tryLater(err)
	}
	return *resp
}

// joinLocal lets a server in; only the leader can. What via says of the peer counts for nothing but refusals: via may lie.
func (g *Group) joinLocal(ctx context.Context, via Peer, passed joinPassed) JoinResponse {
	if !g.IsLeader() {
		return tryLater(ErrNotLeader)
	}
	req, swarm := passed.Request, g.View().SwarmID
	if other(req.SwarmID, swarm) {
		return refuse(state.ReasonOtherSwarm, "this is swarm "+swarm, "start with an empty state directory to join it")
	}
	if len(req.Nonce) == 0 {
		return JoinResponse{Nonce: g.nonces.IssueFor(via.PeerID, cmp.Or(passed.Peer.SPIFFEID, passed.Peer.PeerID)), SwarmID: swarm, Servers: g.addresses()}
	}
	if !g.nonces.Redeem(via.PeerID, req.Nonce) {
		return JoinResponse{Refused: &JoinRefusal{Reason: "NONCE_REFUSED", Message: "the leader's nonce is unknown, used up, or too old", Retry: true}}
	}
	if err := g.View().CheckAdmission(req.Name, req.Register.Node.PeerID); err != nil && !g.asking.MayCheck() {
		return JoinResponse{Refused: refusalOf(err)} // it is one of very many
	}
	peer, err := g.cfg.Prover.Check(swarm, req)
	if err != nil {
		return refuse("SIGNATURE_REFUSED", "the join is not proven: "+err.Error(), "check the SPIFFE ID and the clock of this node")
	}
	if peer.SPIFFEID != "" { // what was proven counts, not what is claimed
		req.Register.Node.SPIFFEID = peer.SPIFFEID
	}
	req.Register.AtMS = time.Now().UnixMilli() // when the proof is checked, by the clock that checks it
	refusal := g.judgeJoin(peer, passed.Peer, req)
	if refusal == nil || !notAdmitted(refusal) {
		g.asking.Forget(peer.PeerID)
	}
	if refusal != nil {
		return JoinResponse{Refused: refusal}
	}
	if _, err := g.fetchStats(ctx, req.Address); err != nil {
		return JoinResponse{Refused: &JoinRefusal{
			Reason: "UNREACHABLE", Message: fmt.Sprintf("the leader can't reach %s: %v", req.Address, err),
			Remedy: "open its port, or advertise another address with --host-ip", Retry: true,
		}}
	}
	data, err := state.EncodeCommand(req.Register)
	if err != nil {
		return refuse(state.ReasonBadCommand, err.Error(), "")
	}
	a, err := g.proposeLocal(ctx, data)
	if refusal := refusalOf(err); refusal != nil {
		return JoinResponse{Refused: refusal}
	}
	if err != nil {
		return tryLater(err)
	}
	voter, err := g.addServer(ctx, req)
	if err != nil {
		return tryLater(err)
	}
	return JoinResponse{SwarmID: swarm, Voter: voter, Index: a.index, Servers: g.addresses()}
}

func (g *Group) addresses() []string {
	var out []string
	for _, s := range g.servers() {
		out = append(out, string(s.Address))
	}
	return out
}

// judgeJoin checks that a request speaks for who signed it, and that it is who sent it.
func (g *Group) judgeJoin(peer, sender Peer, req JoinRequest) *JoinRefusal {
	id, _, err := ParseAddress(req.Address)
	node := req.Register.Node
	if banned := refusalOf(g.View().CheckBan(peer.PeerID)); banned != nil {
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
	for _, s := range g.servers() {
		if owner, _, err := ParseAddress(string(s.Address)); string(s.ID) == req.Name && (err != nil || owner != id) {
			if _, _, err := g.View().Apply(req.Register); state.ReasonOf(err) == state.ReasonNameTaken {
				return refusalOf(err)
			}
			return tryLater(fmt.Errorf("the SN that had the name %s is being taken out of the raft group", req.Name)).Refused
		}
	}
	return g.judgeAdmission(req)
}

func other(claimed, swarm string) bool { return claimed != "" && claimed != swarm }

// rejoinLoop asks to be let in again when this server has heard from no leader for long: it may have been removed, and
// nobody tells a removed server so.
func (g *Group) rejoinLoop(ctx context.Context) {
	period := 5 * g.cfg.Timing.Election
	said, saidAt := "", time.Time{}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		g.mu.Lock()
		again := g.rejoin
		g.mu.Unlock()
		if again == nil || g.raft.State() == raft.Leader || time.Since(g.raft.LastContact()) < period {
			if g.follows() {
				g.named.Clear()
			}
			continue
		}
		var failed []error
		for _, address := range joinTargets(g.addresses(), again.via) {
			if address == g.cfg.Address {
				continue
			}
			resp, err := g.askJoin(ctx, address, again.self)
			if err == nil {
				waitCtx, cancel := context.WithTimeout(ctx, joinTimeout)
				err = g.joined(waitCtx, address, resp)
				cancel()
			}
			if err == nil {
				g.log.Info("rejoined the swarm", "node", g.cfg.Name)
				failed, said = nil, ""
				break
			}
			failed = append(failed, fmt.Errorf("%s: %w", address, err))
		}
		// A ban is told by the connection or by the join, so neither kind of refusal is waited for.
		if len(failed) > 0 && ctx.Err() == nil {
			if why := errors.Join(failed...).Error(); why != said && time.Since(saidAt) > rejoinNotice {
				said, saidAt = why, time.Now()
				g.log.Warn("no leader is heard of, and no SN lets this node in again; asking on", "node", g.cfg.Name, "err", strings.ReplaceAll(why, "\n", "; "))
			}
		}
	}
}
