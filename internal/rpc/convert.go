package rpc

import (
	"fmt"
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	tasksonwire "github.com/swarmd/swarmd/consensus/task/onwire"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/round/onwire"
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
		Runtime: n.GetRuntime(), APIService: n.GetApiService(), Version: spoken(n.GetVersion(), maxVersion), Offer: tasksonwire.FromOffer(n.GetOffer()),
	}, nil
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
	if p := out.Progress; p != nil {
		p.Phase, p.MetricName = spoken(p.Phase, maxShortText), spoken(p.MetricName, round.MaxMetricName)
	}
	return out
}

// speakOf makes what a node says of another that it can't reach fit to be shown.
func speakOf(u *round.Unreached) {
	u.Node, u.Address, u.Cause = spoken(u.Node, maxShortText), spoken(u.Address, maxAddress), spoken(u.Cause, maxShortText)
}

// spoken makes a peer's words fit for the logs and terminals of others: bounded, one line, nothing that a terminal obeys.
func spoken(s string, limit int) string {
	return text.Printable(text.Cut(s, limit), ' ')
}
