package rpc

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/rpc/proven"
	"github.com/swarmd/swarmd/internal/session/statement"
	"github.com/swarmd/swarmd/merge"
)

// Kinds of messages that SNs send to the leader. Register [Server.LeadReport] and [Server.LeadStatus] for them on every
// SN that may lead.
const (
	KindReport = "report" // payload: ForwardedReport; answer: ForwardedReportResponse
	KindStatus = "status" // payload: the contract's name; answer: GetContractStatusResponse
)

// Bounds of a report. One node has one session per contract.
const (
	maxReported  = 64
	maxShards    = state.MaxMinPeers
	maxReason    = 512
	maxShortText = 128
	maxHeld      = 8 // models of one session
)

// reportTimeout is shorter than a node's patience with a heartbeat (5 s): it must hear that this SN finds no leader, or it
// would stay with an SN that is cut off until it is declared dead. An election takes less.
const reportTimeout = 3 * time.Second

// Report passes a node's heartbeat on to the leader. What is not signed it can't pass on.
func (s *Server) Report(ctx context.Context, req *connect.Request[swarmv1.ReportRequest]) (*connect.Response[swarmv1.ReportResponse], error) {
	if err := checkReport(req.Msg); err != nil {
		return nil, err
	}
	if leader, _, _ := s.cfg.Core.Leader(); leader != s.cfg.Name && unsigned(req.Msg) {
		return connect.NewResponse(&swarmv1.ReportResponse{Leader: leader, Sign: true}), nil
	}
	payload, err := proto.Marshal(&swarmv1.ForwardedReport{Node: speaker(ctx), Sn: s.cfg.Name, Report: req.Msg})
	if err != nil {
		return nil, fmt.Errorf("encode report: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	answer := &swarmv1.ForwardedReportResponse{}
	if raw, err := s.cfg.Core.SendToLeader(ctx, KindReport, payload); err != nil {
		return nil, err
	} else if err := proto.Unmarshal(raw, answer); err != nil {
		return nil, fmt.Errorf("decode the leader's answer to a report: %w", err)
	}
	leader, _, _ := s.cfg.Core.Leader()
	res := &swarmv1.ReportResponse{Leader: leader, Leads: leader == s.cfg.Name, Asks: answer.GetAsks()}
	view := s.cfg.Core.View()
	tellBans(view, req.Msg.GetBansSeen(), res)
	proven.Behind(view, req.Msg, res)
	if n := view.Nodes[speaker(ctx)]; n != nil && n.Role == naming.RoleSL && n.Proof == nil {
		res.Register = true // a state of before proofs were kept
	}
	return connect.NewResponse(res), nil
}

// unsigned tells whether a report says anything of a session that nobody but who hears it from the node itself can believe.
func unsigned(m *swarmv1.ReportRequest) bool {
	return slices.ContainsFunc(m.GetSessions(), func(x *swarmv1.SessionReport) bool { return len(x.GetSignature()) == 0 })
}

func checkReport(m *swarmv1.ReportRequest) error {
	if len(m.GetSessions()) > maxReported {
		return fmt.Errorf("%w: report of %d sessions, at most %d", ErrBadRequest, len(m.GetSessions()), maxReported)
	}
	if h := m.GetHealth(); proto.Size(h) > maxHealth {
		return fmt.Errorf("%w: health of %d bytes, at most %d", ErrBadRequest, proto.Size(h), maxHealth)
	}
	if len(m.GetBansSeen()) > maxShortText {
		return fmt.Errorf("%w: bans_seen of %d bytes", ErrBadRequest, len(m.GetBansSeen()))
	}
	for _, x := range m.GetSessions() {
		switch {
		case len(x.GetSession()) > maxShortText, !naming.ValidContract(x.GetContract()),
			len(x.GetReady().GetBaseDigest()) > maxShortText, x.GetReady().GetWeight() > state.MaxWeight,
			len(x.GetDone().GetModelDigest()) > maxShortText, len(x.GetDone().GetShardDigests()) > maxShards,
			len(x.GetDone().GetUpdateSquares()) > maxShards, len(x.GetDone().GetSeals()) > maxShards,
			slices.ContainsFunc(x.GetDone().GetSeals(), func(b []byte) bool { return len(b) > maxSignatureBytes }),
			!boundedClaims(x.GetDone().GetClaims()), !proven.Bounded(x.GetProofs()), len(x.GetDone().GetShardsDigest()) > maxShortText, len(x.GetDone().GetStateDigest()) > maxShortText,
			len(x.GetDone().GetSignature()) > maxSignatureBytes, len(x.GetFailed().GetBlamed()) > maxShortText,
			len(x.GetFailed().GetHeardFrom()) > maxShortText, len(x.GetFailed().GetCode()) > maxShortText,
			len(x.GetProgress().GetPhase()) > maxShortText, len(x.GetSignature()) > maxSignatureBytes:
			return fmt.Errorf("%w: report of session %.64q is out of bounds", ErrBadRequest, x.GetSession())
		}
	}
	return nil
}

// LeadReport takes a heartbeat on the leader; it is the handler of KindReport. What another SN has passed on of a session counts only if
// the session's node signed it; what came to this SN itself the node has proven by its connection and token. A Done has a signature of
// its own, for the ledger: a report with a bad one counts but for that.
func (s *Server) LeadReport(ctx context.Context, from consensus.Peer, payload []byte) ([]byte, error) {
	m := &swarmv1.ForwardedReport{}
	if err := proto.Unmarshal(payload, m); err != nil {
		return nil, refusal(fmt.Errorf("%w: forwarded report: %w", ErrBadRequest, err))
	}
	if err := checkReport(m.GetReport()); err != nil {
		return nil, refusal(err)
	}
	view := s.cfg.Core.View()
	node := view.Nodes[m.GetNode()]
	if node == nil {
		return nil, &state.Error{
			Reason: state.ReasonNodeUnknown, Message: fmt.Sprintf("no node %.64q", m.GetNode()), Remedy: "register the node first",
		}
	}
	if err := view.CheckBan(node.PeerID); err != nil {
		return nil, err
	}
	if err := checkPassedOn(view, m.GetSn(), from.PeerID); err != nil {
		return nil, refusal(err)
	}
	if node.Left() {
		return nil, nil // A heartbeat that its goodbye has overtaken: no error, as nobody is there to act on it.
	}
	s.cfg.Lead.Touch(node.Name)
	s.healths.take(view, node, m.GetReport().GetHealth(), m.GetSn(), s.cfg.Now())
	answer, bad := &swarmv1.ForwardedReportResponse{}, error(nil)
	for _, x := range m.GetReport().GetSessions() {
		c := view.Contracts[x.GetContract()]
		if c == nil || c.Sessions[x.GetSession()] == nil {
			continue // Opened a moment ago, or pruned: the next heartbeat says the same.
		}
		if c.Sessions[x.GetSession()].Node != node.Name {
			bad = fmt.Errorf("%w: session %s is not of node %s", ErrNotYours, x.GetSession(), node.Name)
			continue
		}
		if m.GetSn() != s.cfg.Name && !s.seals.Valid(node.PeerID, statement.Message(node.Name, x), x.GetSignature()) {
			bad = fmt.Errorf("%w: node %s did not sign what is reported of its session of %s", ErrSignature, node.Name, x.GetContract())
			s.cfg.Log.WarnContext(ctx, "refused report of a session", "node", node.Name, "contract", x.GetContract(), "passed_on_by", m.GetSn(), "err", bad)
			continue
		}
		r := reportFromProto(node.Name, x)
		if r.Done != nil && stale(c, x) {
			r.Done = nil
		}
		if r.Done != nil {
			if err := s.seals.checkDone(view, c, node, x, r.Done); err != nil {
				s.cfg.Log.WarnContext(ctx, "refused report of a merge", "node", node.Name, "contract", x.GetContract(), "err", err)
				r.Done, bad = nil, err
			}
		}
		var err error
		if r.Proofs, err = proven.Rounds(c, node, x, s.seals.Valid); err != nil {
			bad = fmt.Errorf("%w: proof of rounds: %w", ErrBadRequest, err)
			s.cfg.Log.WarnContext(ctx, "refused proof of rounds", "node", node.Name, "contract", x.GetContract(), "err", err)
		}
		s.cfg.Lead.Record(r)
		if r.Done != nil && s.cfg.Lead.Asks(c.Name, r.Run, r.Done.Round, r.Done.Attempt) {
			answer.Asks = append(answer.Asks, &swarmv1.AttemptAsked{Session: r.Session, Run: r.Run, Round: r.Done.Round, Attempt: r.Done.Attempt})
		}
	}
	if bad != nil {
		return nil, refusal(bad)
	}
	return proto.Marshal(answer)
}

// LeadStatus tells on the leader what it knows of a contract; it is the handler of KindStatus.
func (s *Server) LeadStatus(_ context.Context, _ consensus.Peer, payload []byte) ([]byte, error) {
	index, view := s.cfg.Core.Index(), s.cfg.Core.View()
	c := view.Contracts[string(payload)]
	if c == nil {
		return nil, unknownContract(string(payload))
	}
	out := statusToProto(s.cfg.Name, viewToProto(view, c, index), s.cfg.Lead.Status(c.Name))
	out.Warnings = append(out.Warnings, s.warnings(view, c)...)
	return proto.Marshal(out)
}

func parseDigest(text string) (merge.Digest, error) {
	var d merge.Digest
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(d) || hex.EncodeToString(raw) != text { // the ledger has one form only
		return d, fmt.Errorf("%w: bad digest %.80q", ErrBadRequest, text)
	}
	copy(d[:], raw)
	return d, nil
}

// refusal makes an error that keeps its reason on the way from the leader to the SN that asked.
func refusal(err error) error {
	if err == nil || state.ReasonOf(err) != "" {
		return err
	}
	r, known := match(err)
	if !known {
		return err
	}
	return &consensus.RemoteError{Reason: r.reason, Message: err.Error()}
}
