package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/rpc/nodehealth"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/delta"
	"github.com/swarmd/swarmd/internal/rpc/messages"
	"github.com/swarmd/swarmd/internal/rpc/tasks"
)

const (
	// seeWithin bounds the wait for what was committed to show in this SN's view.
	seeWithin = 2 * time.Second
)

// sessionService is what SLs call for the sessions of their programs.
type sessionService struct {
	*shared

	healths *nodehealth.Memory
	// bringing are contracts and digests of layouts that are being proposed.
	bringing turns
	seals    seals
	feeds    delta.Feeds // of watched contracts
}

// OpenSession enrols a session of the calling node.
func (s *sessionService) OpenSession(ctx context.Context, req *connect.Request[swarmv1.OpenSessionRequest]) (*connect.Response[swarmv1.OpenSessionResponse], error) {
	m := req.Msg
	terms, err := termsFromProto(m.GetTerms())
	if err != nil {
		return nil, err
	}
	if err := s.checkEnough(m.GetContract(), terms); err != nil {
		return nil, err
	}
	isolation, err := isolationFromProto(m.GetIsolation())
	if err != nil {
		return nil, err
	}
	open := state.OpenSession{
		Session: m.GetSession(), Contract: m.GetContract(), Node: speaker(ctx), Terms: terms,
		ExpectedPeers: m.GetExpectedPeers(), SyncFrequency: m.GetSyncFrequency(), Adaptive: m.GetAdaptive(),
		CheckinMode: m.GetCheckinMode(), Weight: m.GetWeight(), TotalEpochs: m.GetTotalEpochs(), Isolation: isolation, Program: state.Clip(spoken(m.GetProgram(), state.MaxProgram), state.MaxProgram),
		NoShard: m.GetNoShard(), QuorumWaitMS: m.GetQuorumWaitMs(), StallGraceMS: m.GetStallGraceMs(), Late: m.GetLate(), KeepKey: true, AtMS: s.nowMS(),
	}
	open.KeepProgram = open.Program != ""
	if open.CheckinMode == "" { // else who would have chosen instead matters to nobody
		open.CheckinDefault, open.KeepChooser = m.GetCheckinDefault(), true
	}
	res, err := s.enrol(ctx, open)
	if err != nil {
		return nil, s.explainTerms(m.GetContract(), terms, err)
	}
	if res.EndReason != "" {
		return nil, s.explainTerms(m.GetContract(), terms, endedAtOnce(m.GetSession(), res.EndReason))
	}
	view, err := s.seen(m.GetContract())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.OpenSessionResponse{Contract: view}), nil
}

// endedAtOnce is the refusal of a session that has ended already, most often because its terms lost.
func endedAtOnce(session, reason string) error {
	out := &state.Error{
		Reason: state.ReasonSessionEnded, Message: fmt.Sprintf("session %s has ended: %s", session, reason), Remedy: "open a new session",
	}
	if text, ok := strings.CutPrefix(reason, "terms: "); ok {
		out.Reason, out.Message = state.ReasonTermsMismatch, "terms differ from those of the contract: "+text
		out.Remedy = "use the same model, method, minPeers and kind of nodeWeightage as the other peers"
	}
	return out
}

// explainTerms puts what differs before a mismatch of terms; other errors pass.
func (s *sessionService) explainTerms(contract string, mine state.Terms, err error) error {
	refusal, ok := errors.AsType[*state.Error](err)
	if !ok || refusal.Reason != state.ReasonTermsMismatch {
		return err
	}
	c := s.cfg.Core.View().Contracts[contract]
	if c == nil || c.Terms == nil {
		return err
	}
	if d := messages.TermsDifference(mine, *c.Terms); d != "" {
		more := *refusal
		more.Message = d + ": " + more.Message
		return &more
	}
	return err
}

// CloseSession commits that a session's training ended.
func (s *sessionService) CloseSession(ctx context.Context, req *connect.Request[swarmv1.CloseSessionRequest]) (*connect.Response[swarmv1.CloseSessionResponse], error) {
	m := req.Msg
	if err := s.ownSession(ctx, m.GetContract(), m.GetSession()); err != nil {
		return nil, err
	}
	_, err := s.proposeFor(ctx, speaker(ctx), state.CloseSession{
		Session: m.GetSession(), Contract: m.GetContract(), Run: m.GetRun(), CheckinMode: m.GetCheckinMode(),
		Seq: m.GetSeq(), Weight: m.Weight, AtMS: s.nowMS(),
	})
	if err != nil {
		return nil, err
	}
	view, err := s.seen(m.GetContract())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.CloseSessionResponse{Contract: view}), nil
}

// EndSession commits that a session is gone.
func (s *sessionService) EndSession(ctx context.Context, req *connect.Request[swarmv1.EndSessionRequest]) (*connect.Response[swarmv1.EndSessionResponse], error) {
	m := req.Msg
	if err := s.ownSession(ctx, m.GetContract(), m.GetSession()); err != nil {
		return nil, err
	}
	_, err := s.proposeFor(ctx, speaker(ctx), state.EndSession{
		Session: m.GetSession(), Contract: m.GetContract(), Run: m.GetRun(), Reason: ownReason(m.GetReason()),
		ExitCode: m.GetExitCode(), AtMS: s.nowMS(),
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.EndSessionResponse{}), nil
}

// ownReason is the reason that a node gives for the end of its session. The words by which the swarm itself ends sessions
// are not the node's to use: a round with a "banned" participant, for one, is never committed.
func ownReason(said string) string {
	switch reason := state.Clip(spoken(said, state.MaxEndReason), state.MaxEndReason); reason {
	case state.EndReset, state.EndReplaced, state.EndLost, state.EndBanned:
		return "failed: " + reason
	default:
		return reason
	}
}

// ownSession refuses to speak for another node's session.
func (s *sessionService) ownSession(ctx context.Context, contract, session string) error {
	node, c := speaker(ctx), s.cfg.Core.View().Contracts[contract]
	if c == nil || c.Sessions[session] == nil {
		return &state.Error{
			Reason: state.ReasonSessionUnknown, Remedy: "open a new session",
			Message: fmt.Sprintf("no session %.64q in contract %.128s", session, contract),
		}
	}
	if c.Sessions[session].Node != node {
		return fmt.Errorf("%w: session %s is not of node %s", ErrNotYours, session, node)
	}
	return nil
}

// seen returns a contract's view.
func (s *shared) seen(contract string) (*swarmv1.ContractView, error) {
	view, index := s.viewAt()
	c := view.Contracts[contract]
	if c == nil {
		return nil, unknownContract(contract) // deleted a moment ago
	}
	return messages.View(view, c, index), nil
}

// see waits, not for long, until the view fulfils cond.
func (s *shared) see(ctx context.Context, cond func(view *state.State, index uint64) bool) error {
	ctx, cancel := context.WithTimeout(ctx, seeWithin)
	defer cancel()
	for {
		changed := s.cfg.Core.Changed()
		if cond(s.viewAt()) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// WatchContract streams the view whenever it changes, until the client goes, its SVID expires, its node is banned or this
// SN stops.
func (s *sessionService) WatchContract(ctx context.Context, req *connect.Request[swarmv1.WatchContractRequest], stream *connect.ServerStream[swarmv1.ContractView]) error {
	name := req.Msg.GetContract()
	if !naming.ValidContract(name) {
		return badContractName(name)
	}
	if err := s.see(ctx, func(view *state.State, _ uint64) bool { return view.Contracts[name] != nil }); err != nil {
		if _, _, led := s.cfg.Core.Leader(); !led {
			return s.leaderless(ctx) // What is not known here may well be elsewhere.
		}
		return unknownContract(name)
	}
	feed, leave := s.feeds.Join(name)
	defer leave()
	var last uint64 // revision of what was sent last
	return s.Follow(ctx, func(at tasks.Sight) error {
		c := at.View.Contracts[name]
		if c == nil {
			return unknownContract(name)
		}
		now, err := feed.Take(at.View, at.Index, func() *swarmv1.ContractView { return messages.View(at.View, c, at.Index) })
		if err != nil || !at.Again && now.Revision() == last {
			return err
		}
		err = sendView(stream, now, req.Msg.GetPacked(), last)
		last = now.Revision()
		return err
	})
}

// sendView sends a view to a watcher that has the one of a revision, 0 if it has none.
func sendView(stream *connect.ServerStream[swarmv1.ContractView], now *delta.Snapshot, packed bool, have uint64) error {
	if !packed {
		return stream.Send(now.Plain())
	}
	msg, err := now.Packed(have)
	if err != nil {
		return err
	}
	return stream.Send(msg)
}
