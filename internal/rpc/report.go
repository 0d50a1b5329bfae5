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
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/probe/board"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/round/onwire"
	"github.com/swarmd/swarmd/internal/rpc/messages"
	"github.com/swarmd/swarmd/internal/rpc/proven"
	"github.com/swarmd/swarmd/internal/rpc/tasks"
	"github.com/swarmd/swarmd/internal/session/statement"
	"github.com/swarmd/swarmd/merge"
)

// Bounds of a report. One node has one session per contract.
const (
	maxReported  = 64
	maxShards    = state.MaxMinPeers
	maxReason    = 512
	maxShortText = 128
	maxHeld      = 8 // models of one session
)

// reportTimeout is shorter than a node's timeout of a heartbeat (5 s): it must hear that this SN finds no leader, or it
// would stay with an SN that is cut off until it is declared dead. An election takes less.
const reportTimeout = 3 * time.Second

// Report takes a node's heartbeat on the leader. What another SN has passed on of a session counts only if the session's node signed
// it; what came to this SN itself the node has proven by its connection and token. A Done has a signature of its own, for the
// ledger: a report with a bad one counts but for that.
func (s *sessionService) Report(ctx context.Context, req *connect.Request[swarmv1.ReportRequest]) (*connect.Response[swarmv1.ReportResponse], error) {
	if err := checkReport(req.Msg); err != nil {
		return nil, err
	}
	view := s.cfg.Core.View()
	by, err := s.broughtBy(ctx, view)
	if err != nil {
		return nil, err
	}
	res := &swarmv1.ReportResponse{Leader: s.cfg.Name, Leads: !by.passed, TakesTrained: true}
	if by.passed && unsigned(req.Msg) {
		res.Sign = true
		return connect.NewResponse(res), nil
	}
	node := view.Nodes[speaker(ctx)]
	if node == nil {
		return nil, unknownNode(speaker(ctx)) // forgotten since its token was checked
	}
	if !node.Left() { // A heartbeat that arrives after its LeaveNode is no error, as nobody is there to act on it.
		if res.Asks, err = s.take(ctx, view, node, req.Msg, by); err != nil {
			return nil, err
		}
	}
	tellBans(view, req.Msg.GetBansSeen(), res)
	messages.AddWarnings(view, node, req.Msg, s.cfg.Lead.Warnings, res)
	s.probed(node.Name, req.Msg.GetProbe(), res)
	res.Logs = s.logs.Of(node.Name)
	if d := s.cfg.DialBack.Of(node); d.GetAtUnixMs() != req.Msg.GetDialBackSeenUnixMs() {
		res.DialBack = d
	}
	proven.Behind(view, req.Msg, res)
	res.PartWanted = tasks.Wanted(view, req.Msg.GetPart())
	if node.Role == naming.RoleSL && node.Proof == nil {
		res.Register = true // a state of before proofs were kept
	}
	return connect.NewResponse(res), nil
}

// bringer is the SN that a node has given its report.
type bringer struct {
	sn     string
	passed bool // it is not this one
}

func (s *sessionService) broughtBy(ctx context.Context, view *state.State) (bringer, error) {
	key := via(ctx)
	if key == "" {
		return bringer{sn: s.cfg.Name}, nil
	}
	n := view.NodeOfKey(key)
	if n == nil || n.Role != naming.RoleSN {
		return bringer{}, fmt.Errorf("%w: the report was passed on by %.64q, which is no SN", ErrRoleDenied, key)
	}
	return bringer{n.Name, true}, nil
}

// unsigned reports whether a report says anything that nobody but who hears it from the node itself can believe.
func unsigned(m *swarmv1.ReportRequest) bool {
	return len(m.GetMembers()) > 0 && len(m.GetMembersSignature()) == 0 || slices.ContainsFunc(m.GetSessions(), func(x *swarmv1.SessionReport) bool { return len(x.GetSignature()) == 0 })
}

func checkReport(m *swarmv1.ReportRequest) error {
	if len(m.GetSessions()) > maxReported {
		return fmt.Errorf("%w: report of %d sessions, at most %d", ErrBadRequest, len(m.GetSessions()), maxReported)
	}
	if h := m.GetHealth(); proto.Size(h) > maxHealth {
		return fmt.Errorf("%w: health of %d bytes, at most %d", ErrBadRequest, proto.Size(h), maxHealth)
	}
	if len(m.GetMembers()) > task.MaxHosted || len(m.GetMembersSignature()) > maxSignatureBytes {
		return fmt.Errorf("%w: report of %d members, at most %d", ErrBadRequest, len(m.GetMembers()), task.MaxHosted)
	}
	if len(m.GetBansSeen()) > maxShortText {
		return fmt.Errorf("%w: bans_seen of %d bytes", ErrBadRequest, len(m.GetBansSeen()))
	}
	if len(m.GetPart()) > maxShortText {
		return fmt.Errorf("%w: part of %d bytes", ErrBadRequest, len(m.GetPart()))
	}
	if len(m.GetWarningsSeen()) > maxShortText {
		return fmt.Errorf("%w: warnings_seen of %d bytes", ErrBadRequest, len(m.GetWarningsSeen()))
	}
	if !board.ReportFits(m.GetProbe()) {
		return fmt.Errorf("%w: what was found in a probe is out of bounds", ErrBadRequest)
	}
	for _, x := range m.GetSessions() {
		switch {
		case len(x.GetSession()) > maxShortText, !naming.ValidContract(x.GetContract()),
			len(x.GetReady().GetBaseDigest()) > maxShortText, x.GetReady().GetWeight() > state.MaxSamples,
			len(x.GetDone().GetModelDigest()) > maxShortText, len(x.GetDone().GetShardDigests()) > maxShards,
			len(x.GetDone().GetUpdateSquares()) > maxShards, len(x.GetDone().GetSeals()) > maxShards,
			slices.ContainsFunc(x.GetDone().GetSeals(), func(b []byte) bool { return len(b) > maxSignatureBytes }),
			!boundedClaims(x.GetDone().GetClaims()), !proven.Bounded(x.GetProofs()), len(x.GetDone().GetShardsDigest()) > maxShortText, len(x.GetDone().GetStateDigest()) > maxShortText,
			len(x.GetDone().GetSignature()) > maxSignatureBytes, len(x.GetFailed().GetBlamed()) > maxShortText,
			len(x.GetFailed().GetHeardFrom()) > maxShortText, len(x.GetFailed().GetCode()) > maxShortText,
			!boundedWays(x), len(x.GetProgress().GetPhase()) > maxShortText, len(x.GetProgress().GetMetricName()) > maxShortText, len(x.GetSignature()) > maxSignatureBytes:
			return fmt.Errorf("%w: report of session %.64q is out of bounds", ErrBadRequest, x.GetSession())
		}
	}
	return nil
}

// maxAddress bounds HOST:PORT.
const maxAddress = 300

// boundedWays reports whether what a session says of others that it can't reach is within bounds.
func boundedWays(x *swarmv1.SessionReport) bool {
	all := append(x.GetUnreached(), x.GetFailed().GetUnreached())
	return len(all) <= round.MaxUnreached+1 && !slices.ContainsFunc(all, func(u *swarmv1.Unreached) bool {
		return len(u.GetNode()) > maxShortText || len(u.GetAddress()) > maxAddress || len(u.GetCause()) > maxShortText
	})
}

// take records a report, and returns the attempts of which all is to be said.
func (s *sessionService) take(ctx context.Context, view *state.State, node *state.Node, m *swarmv1.ReportRequest, by bringer) (asks []*swarmv1.AttemptAsked, bad error) {
	s.cfg.Lead.Touch(node.Name)
	s.healths.Take(view, node, m.GetHealth(), by.sn, s.cfg.Now())
	if bad = s.takeMembers(view, node, m, by); bad != nil {
		s.cfg.Log.WarnContext(ctx, "refused report of members", "node", node.Name, "passed_on_by", by.sn, "err", bad)
	}
	for _, x := range m.GetSessions() {
		c := view.Contracts[x.GetContract()]
		if c == nil || c.Sessions[x.GetSession()] == nil {
			continue // Opened a moment ago, or pruned: the next heartbeat says the same.
		}
		if c.Sessions[x.GetSession()].Node != node.Name {
			bad = fmt.Errorf("%w: session %s is not of node %s", ErrNotYours, x.GetSession(), node.Name)
			continue
		}
		if by.passed && !s.seals.said(node, x) {
			bad = fmt.Errorf("%w: node %s did not sign what is reported of its session of %s", ErrSignature, node.Name, x.GetContract())
			s.cfg.Log.WarnContext(ctx, "refused report of a session", "node", node.Name, "contract", x.GetContract(), "passed_on_by", by.sn, "err", bad)
			continue
		}
		r := reportFromProto(node.Name, x)
		if d := x.GetDone(); d != nil && !stale(c, x) {
			if err := s.seals.takeDone(view, c, node, &r, d); err != nil {
				s.cfg.Log.WarnContext(ctx, "refused report of a merge", "node", node.Name, "contract", x.GetContract(), "err", err)
				bad = err
			}
		}
		var err error
		if r.Proofs, err = proven.Rounds(c, node, x, s.seals.Valid); err != nil {
			bad = fmt.Errorf("%w: proof of rounds: %w", ErrBadRequest, err)
			s.cfg.Log.WarnContext(ctx, "refused proof of rounds", "node", node.Name, "contract", x.GetContract(), "err", err)
		}
		s.cfg.Lead.Record(r)
		if r.Done != nil && s.cfg.Lead.Asks(c.Name, r.Run, r.Done.Round, r.Done.Attempt) {
			asks = append(asks, &swarmv1.AttemptAsked{Session: r.Session, Run: r.Run, Round: r.Done.Round, Attempt: r.Done.Attempt})
		}
	}
	return asks, bad
}

// said reports whether a node has signed what is reported of its session.
func (s *seals) said(node *state.Node, x *swarmv1.SessionReport) bool {
	said, err := onwire.FromReport(x)
	return err == nil && s.Valid(node.PeerID, statement.Message(node.Name, said), said.Signature)
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
