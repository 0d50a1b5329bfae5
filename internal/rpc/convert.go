package rpc

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/explain"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/round/onwire"
	"github.com/swarmd/swarmd/internal/rpc/proven"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/merge"
)

// termsFromProto checks the layout, so that what is committed can be merged.
func termsFromProto(t *swarmv1.Terms) (state.Terms, error) {
	if len(t.GetLayout()) > state.MaxLayoutBytes {
		return state.Terms{}, fmt.Errorf("%w: layout of %d bytes, at most %d", ErrBadRequest, len(t.GetLayout()), state.MaxLayoutBytes)
	}
	layout, err := merge.ParseLayout(t.GetLayout())
	if err != nil {
		return state.Terms{}, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	if got := layout.Digest().String(); got != t.GetLayoutDigest() {
		return state.Terms{}, fmt.Errorf("%w: layout digest is %s, not %.64q", ErrBadRequest, got, t.GetLayoutDigest())
	}
	least, err := checkMethod(t.GetMethod())
	if err != nil {
		return state.Terms{}, err
	}
	return state.Terms{
		LayoutDigest: t.GetLayoutDigest(), Layout: slices.Clone(t.GetLayout()), Leaves: uint64(layout.Leaves()), //nolint:gosec // never negative
		Method: t.GetMethod(), MinPeers: t.GetMinPeers(), Least: least, Weights: t.GetWeights(),
	}, nil
}

func termsToProto(t *state.Terms) *swarmv1.Terms {
	if t == nil {
		return nil
	}
	return &swarmv1.Terms{
		LayoutDigest: t.LayoutDigest, Layout: t.Layout, Method: t.Method, MinPeers: t.MinPeers, Leaves: t.Leaves, Weights: t.Weights,
	}
}

func nodeToProto(n *state.Node) *swarmv1.Node {
	return &swarmv1.Node{
		Name: n.Name, Role: n.Role, SpiffeId: n.SPIFFEID, PeerId: n.PeerID, Host: n.Host,
		P2PPort: uint32(n.P2PPort), ApiPort: uint32(n.APIPort), FsPort: uint32(n.FSPort),
		ApiService: n.APIService, Live: n.Live, LiveSinceUnixMs: n.LiveSinceMS, LeftReason: n.LeftReason, Sentinel: n.Sentinel, Runtime: n.Runtime, Version: n.Version,
	}
}

func useToProto(u state.Use) *swarmv1.Use {
	return &swarmv1.Use{
		OpenSessions: uint32(u.Open), EndedSessions: uint32(u.Ended), Contracts: uint32(u.Contracts), Bytes: uint64(u.Bytes), //nolint:gosec // counts
	}
}

// maxVersion bounds what a node says that it runs, in bytes.
const maxVersion = 64

// nodeFromProto takes what a node tells of itself. Who it is comes from its connection; whether it lives and is the
// Sentinel is not for it to say.
func nodeFromProto(n *swarmv1.Node) (state.Node, error) {
	for _, p := range []uint32{n.GetP2PPort(), n.GetApiPort(), n.GetFsPort()} {
		if p > 65535 {
			return state.Node{}, fmt.Errorf("%w: port %d", ErrBadRequest, p)
		}
	}
	return state.Node{
		Name: n.GetName(), Role: n.GetRole(), SPIFFEID: n.GetSpiffeId(), PeerID: n.GetPeerId(), Host: n.GetHost(),
		P2PPort: uint16(n.GetP2PPort()), APIPort: uint16(n.GetApiPort()), FSPort: uint16(n.GetFsPort()), //nolint:gosec // checked above
		Runtime: n.GetRuntime(), APIService: n.GetApiService(), Version: spoken(n.GetVersion(), maxVersion),
	}, nil
}

// viewToProto shows a contract as SLs follow it. The layout's text is left out: its digest says enough, and it would
// travel with every change.
func viewToProto(s *state.State, c *state.Contract, index uint64) *swarmv1.ContractView {
	out := &swarmv1.ContractView{
		Name: c.Name, Run: c.Run, Terms: termsToProto(c.Terms), Committed: committedToProto(c.Committed),
		Plan: planToProto(s, c.Plan), Over: c.Over, Index: index, Phase: string(c.Phase()),
		ExpectedPeers: c.Expected(), PendingReason: c.PendingReason, Rules: rulesToProto(c.Rules), LostModel: lostToProto(c.Lost), Skips: skipsToProto(c.Skips),
		AdoptedRound: proven.Adopted(c.Adopted), Halt: haltToProto(c.Halt),
	}
	if out.Terms != nil {
		out.Terms.Layout = nil
	}
	sessions := make([]*state.Session, 0, len(c.Sessions))
	for _, x := range c.Sessions {
		sessions = append(sessions, x)
	}
	slices.SortFunc(sessions, func(a, b *state.Session) int {
		if a.Order < b.Order {
			return -1
		}
		return 1
	})
	for _, x := range sessions {
		out.Sessions = append(out.Sessions, sessionToProto(x, s.Nodes[x.Node]))
	}
	return out
}

// sessionToProto shows a session with its node's addresses; the node is nil when it was forgotten.
func sessionToProto(x *state.Session, n *state.Node) *swarmv1.Session {
	out := &swarmv1.Session{
		Id: x.ID, Node: x.Node, Run: x.Run, State: x.State, CheckinMode: x.CheckinMode, CheckinFrom: x.CheckinFrom, ClosedRounds: x.ClosedRounds, Weight: x.Weight,
		Isolation: x.Isolation, NoShard: x.NoShard, LastSeq: x.LastSeq, LastRound: x.LastRound, SkippedSeq: x.SkippedSeq, EndReason: x.EndReason, ExitCode: x.ExitCode,
	}
	if n != nil {
		out.PeerId, out.SpiffeId, out.Host, out.FsPort, out.Live = n.PeerID, n.SPIFFEID, n.Host, uint32(n.FSPort), n.Live
		if n.Proof != nil {
			out.Proof = n.Proof.Digest
		}
	}
	return out
}

// isolationFromProto takes an SL's words on what keeps its program in. They are shown to all peers: what a terminal might obey,
// or what changes the order of characters, is refused rather than mended, as an honest SL sends none.
func isolationFromProto(isolation string) (string, error) {
	if len(isolation) > state.MaxIsolation {
		return "", fmt.Errorf("%w: isolation of %d bytes, at most %d", ErrBadRequest, len(isolation), state.MaxIsolation)
	}
	if spoken(isolation, len(isolation)) != isolation {
		return "", fmt.Errorf("%w: isolation is not one line of printable text: %.80q", ErrBadRequest, isolation)
	}
	return isolation, nil
}

func committedToProto(r *state.CommittedRound) *swarmv1.CommittedRound {
	if r == nil {
		return nil
	}
	return &swarmv1.CommittedRound{
		Round: r.Round, Attempt: r.Attempt, Digest: r.Digest, Participants: r.Participants, NextInterval: r.NextInterval,
		Final: r.Final, CommittedUnixMs: r.CommittedMS, PlannedUnixMs: r.PlannedMS,
		StateDigest: r.StateDigest,
	}
}

func rulesToProto(r *state.Rules) *swarmv1.Rules {
	if r == nil {
		return nil
	}
	return &swarmv1.Rules{
		Method: r.Method, MinPeers: r.MinPeers, ExpectedPeers: r.ExpectedPeers, Required: r.Required,
		MinWeightShare: float64(r.MinWeightSharePPM) / 1e6, WeightCap: float64(r.WeightCapPPM) / 1e6, Export: r.Export,
		NonFinite: r.NonFinite, QuorumWaitMs: r.QuorumWaitMS, StallGraceMs: r.StallGraceMS, MinPeersTimeoutMs: r.MinPeersTimeoutMS, Allow: r.Allow,
		Owners: r.Owners, Witnesses: r.Witnesses, CheckinDefault: r.CheckinDefault,
	}
}

func lostToProto(l *state.LostModel) *swarmv1.LostModel {
	if l == nil {
		return nil
	}
	return &swarmv1.LostModel{Round: l.Round, Digest: l.Digest, ResumedRound: l.ResumedRound, AtUnixMs: l.AtMS}
}

func haltToProto(h *state.Halt) *swarmv1.Halt {
	if h == nil {
		return nil
	}
	return &swarmv1.Halt{Ends: h.Ends, By: h.By, AtUnixMs: h.AtMS}
}

func skipsToProto(k *state.Skips) *swarmv1.Skips {
	if k == nil {
		return nil
	}
	return &swarmv1.Skips{Count: k.Count, Round: k.Round, Reason: k.Reason, AtUnixMs: k.AtMS}
}

func planToProto(s *state.State, p *state.Plan) *swarmv1.Plan {
	if p == nil {
		return nil
	}
	out := &swarmv1.Plan{
		Run: p.Run, Round: p.Round, Attempt: p.Attempt, Method: p.Method, Final: p.Final, PlannedUnixMs: p.PlannedMS,
		LedgerHead: p.LedgerHash, Epoch: p.Epoch, Witnesses: p.Witnesses,
	}
	for _, part := range p.Participants {
		out.Participants = append(out.Participants, participantToProto(part, s.Nodes[part.Node]))
	}
	return out
}

func participantToProto(p state.Participant, n *state.Node) *swarmv1.Participant {
	out := &swarmv1.Participant{
		Session: p.Session, Node: p.Node, Weight: p.Weight, Seq: p.Seq, ShardFirst: p.ShardFirst, ShardLeaves: p.ShardLeaves,
		Factor: math.Float64frombits(p.FactorBits),
	}
	for _, r := range p.MoreShards {
		out.MoreShards = append(out.MoreShards, &swarmv1.LeafRun{First: r.First, Leaves: r.Leaves})
	}
	if n != nil {
		out.PeerId, out.SpiffeId, out.Host, out.FsPort = n.PeerID, n.SPIFFEID, n.Host, uint32(n.FSPort)
	}
	return out
}

func summaryToProto(c *state.Contract) *swarmv1.ContractSummary {
	out := &swarmv1.ContractSummary{
		Name: c.Name, Run: c.Run, Phase: string(c.Phase()), Round: c.Round(), CreatedUnixMs: c.CreatedMS,
	}
	if c.Terms != nil {
		out.MinPeers = c.Terms.MinPeers
	}
	for _, x := range c.Sessions {
		switch {
		case x.Run != c.Run:
		case x.State == state.SessionEnded:
			out.EndedSessions++
		default:
			out.OpenSessions++
		}
	}
	return out
}

// reportFromProto takes what a session of the node reports, but for what came out of an attempt: see takeDone.
func reportFromProto(node string, x *swarmv1.SessionReport) reports.Report {
	out := reports.Report{
		Session: x.GetSession(), Contract: x.GetContract(), Run: x.GetRun(), Node: node, Number: x.GetNumber(),
		Ready: onwire.FromReady(x.GetReady()), Failed: onwire.FromFailed(x.GetFailed()), Progress: onwire.FromProgress(x.GetProgress()),
		Held: onwire.FromHeld(x.GetHeld()[:min(len(x.GetHeld()), maxHeld)]), Trained: onwire.FromTrained(x.GetTrained()), Unreached: onwire.FromUnreached(x.GetUnreached()),
	}
	for i := range out.Unreached {
		speakOf(&out.Unreached[i])
	}
	if out.Failed != nil && out.Failed.Unreached != nil {
		speakOf(out.Failed.Unreached)
	}
	if out.Ready != nil {
		out.Ready.Refuses = refusedFromProto(out.Ready.Refuses)
	}
	for i, h := range out.Held {
		out.Held[i].Digest, out.Held[i].State = text.Cut(h.Digest, maxShortText), text.Cut(h.State, maxShortText)
	}
	if out.Failed != nil {
		out.Failed.Reason = spoken(out.Failed.Reason, maxReason)
	}
	if out.Progress != nil {
		out.Progress.Phase = spoken(out.Progress.Phase, maxShortText)
	}
	return out
}

// speakOf makes what a node says of another that it can't reach fit to be shown.
func speakOf(u *round.Unreached) {
	u.Node, u.Address, u.Cause = spoken(u.Node, maxShortText), spoken(u.Address, maxAddress), spoken(u.Cause, maxShortText)
}

// statusToProto joins what is committed with what the leader knows.
func statusToProto(leader string, view *swarmv1.ContractView, st planner.Status) *swarmv1.GetContractStatusResponse {
	out := &swarmv1.GetContractStatusResponse{Contract: view, Leader: leader}
	if st.Leading {
		out.Explanation = explain.Lines(st.Waiting, time.Now(), st.Warnings...)
	}
	out.TrainingWarnings = warningsToProto(st.Warnings)
	for _, w := range st.Warnings {
		out.Warnings = append(out.Warnings, w.Text)
	}
	for _, x := range view.GetSessions() {
		if p, ok := st.Progress[x.GetId()]; ok {
			x.Progress = onwire.Progress(&p)
		}
	}
	for i := range st.Recent {
		out.Recent = append(out.Recent, committedToProto(&st.Recent[i]))
	}
	// While an attempt runs nothing is waited for but the merge itself.
	if w := st.Waiting; w.Kind != "" && w.Kind != planner.WaitMerging && w.Kind != planner.WaitCompleted {
		out.Waiting = w.String()
		if !w.Since.IsZero() {
			out.WaitingSinceUnixMs = w.Since.UnixMilli()
		}
	}
	return out
}

// spoken makes a peer's words fit for the logs and terminals of others: bounded, one line, nothing that a terminal obeys.
func spoken(s string, limit int) string {
	return text.Printable(text.Cut(s, limit), ' ')
}

// termsDifference says in one line what of a session's terms is not the contract's, or "" when nothing can be told. What a
// session leaves open differs from nothing.
func termsDifference(mine, theirs state.Terms) string {
	var parts []string
	if mine.LayoutDigest != theirs.LayoutDigest {
		if d := layoutDifference(mine.Layout, theirs.Layout); d != "" {
			parts = append(parts, d)
		}
	}
	if mine.Method != "" && mine.Method != theirs.Method {
		parts = append(parts, fmt.Sprintf("the merge method is %s here and %s in the contract", mine.Method, theirs.Method))
	}
	if mine.MinPeers != 0 && mine.MinPeers != theirs.MinPeers {
		parts = append(parts, fmt.Sprintf("minPeers is %d here and %d in the contract", mine.MinPeers, theirs.MinPeers))
	}
	if mine.Weights != theirs.Weights {
		parts = append(parts, fmt.Sprintf("nodeWeightage is %s here and %s in the contract", weightsInWords(mine), weightsInWords(theirs)))
	}
	return strings.Join(parts, "; ")
}

func weightsInWords(t state.Terms) string {
	if t.Weights == state.WeightsSamples {
		return `"samples"`
	}
	return "a number"
}

// layoutDifference says in one line where two layouts part, or "" when one of them can't be read.
func layoutDifference(mine, theirs []byte) string {
	a, err := merge.ParseLayout(mine)
	if err != nil {
		return ""
	}
	b, err := merge.ParseLayout(theirs)
	if err != nil {
		return ""
	}
	return merge.Diff(a, b)
}
