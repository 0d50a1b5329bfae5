package rpc

import (
	"errors"
	"fmt"
	"math"
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/merge"
)

// checkMethod refuses a merge method that is unknown or not in its canonical form, and returns how many contributors it
// needs. An empty one is the rules' to fill in; it needs none.
func checkMethod(text string) (least uint32, err error) {
	if text == "" {
		return 0, nil
	}
	m, err := merge.ParseMethod(text)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	if m.String() != text {
		return 0, fmt.Errorf("%w: merge method %.80q is not in its canonical form, which is %q", ErrBadRequest, text, m)
	}
	return uint32(min(m.LeastContributors(), math.MaxInt32)), nil //nolint:gosec // bounded
}

// checkEnough refuses terms with fewer peers than their method needs, with the formula that the number comes from. The state
// holds it too, but knows no formulas.
func (s *sessionService) checkEnough(contract string, t state.Terms) error {
	if c := s.cfg.Core.View().Contracts[contract]; c != nil && c.Rules != nil {
		if t.Method == "" {
			t.Method, t.Least = c.Rules.Method, c.Rules.Least
		}
		if t.MinPeers == 0 {
			t.MinPeers = c.Rules.MinPeers
		}
	}
	if t.MinPeers == 0 {
		return nil // refused for that
	}
	return enough(t.Method, t.Least, t.MinPeers)
}

func enough(method string, least, minPeers uint32) error {
	if minPeers >= least {
		return nil
	}
	m, err := merge.ParseMethod(method)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	return &state.Error{
		Reason:  state.ReasonTooFewPeers,
		Message: fmt.Sprintf("%s needs %d peers%s: minPeers is %d", m, least, formula(m.Name()), minPeers),
		Remedy:  fmt.Sprintf("give minPeers of at least %d, a smaller parameter, or another merge method", least),
	}
}

// formula is where a method's least number of peers comes from, in parentheses; empty when its name says enough.
func formula(name string) string {
	switch name {
	case "krum", "multikrum":
		return " (2f+3)"
	case "bulyan":
		return " (4f+3)"
	}
	return ""
}

// rulesFromProto takes rules as a user gave them; names need not be sorted.
func rulesFromProto(r *swarmv1.Rules) (state.Rules, error) {
	least, err := checkMethod(r.GetMethod())
	if err != nil {
		return state.Rules{}, err
	}
	if n := r.GetMinPeers(); n > 0 {
		if err := enough(r.GetMethod(), least, n); err != nil {
			return state.Rules{}, err
		}
	}
	part, err := partsPerMillion("min_weight_share", r.GetMinWeightShare(), math.Floor)
	if err != nil {
		return state.Rules{}, err
	}
	limit, err := partsPerMillion("weight_cap", r.GetWeightCap(), math.Ceil)
	if err != nil {
		return state.Rules{}, err
	}
	if len(r.GetRequired()) > state.MaxRequired {
		return state.Rules{}, fmt.Errorf("%w: %d nodes are required, at most %d can be", ErrBadRequest, len(r.GetRequired()), state.MaxRequired)
	}
	required := slices.Compact(slices.Sorted(slices.Values(r.GetRequired())))
	if n := max(len(r.GetAllow()), len(r.GetOwners()), len(r.GetCurves())); n > pattern.MaxList {
		return state.Rules{}, fmt.Errorf("%w: %d patterns of who may take part, own or see curves, at most %d can be", ErrBadRequest, n, pattern.MaxList)
	}
	witnesses := r.GetWitnesses()
	if witnesses == 1 {
		witnesses = 0 // the owner alone, either way
	}
	return state.Rules{
		Method: r.GetMethod(), Least: least, MinPeers: r.GetMinPeers(), ExpectedPeers: r.GetExpectedPeers(), Required: required,
		MinWeightSharePPM: part, WeightCapPPM: limit, Export: r.GetExport(), NonFinite: r.GetNonFinite(),
		QuorumWaitMS: r.GetQuorumWaitMs(), StallGraceMS: r.GetStallGraceMs(), MinPeersTimeoutMS: r.GetMinPeersTimeoutMs(),
		Allow:  slices.Compact(slices.Sorted(slices.Values(r.GetAllow()))),
		Owners: slices.Compact(slices.Sorted(slices.Values(r.GetOwners()))), Witnesses: witnesses, CheckinDefault: r.GetCheckinDefault(),
		Curves: slices.Compact(slices.Sorted(slices.Values(r.GetCurves()))),
	}, nil
}

var errShare = errors.New("a share is a number from 0 to 1")

// partsPerMillion rounds a share so that a third, however many digits are given, suits three: a least one down, a cap up.
func partsPerMillion(name string, x float64, round func(float64) float64) (uint32, error) {
	if !(x >= 0 && x <= 1) {
		return 0, fmt.Errorf("%w: %s is %g: %w", ErrBadRequest, name, x, errShare)
	}
	if whole := math.Round(x * state.PPM); math.Abs(whole-x*state.PPM) < 1e-6 {
		return uint32(whole), nil // 0.3 has no exact float64
	}
	return uint32(round(x * state.PPM)), nil
}
