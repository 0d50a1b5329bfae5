package state

import "fmt"

// Terms are what all sessions of a contract must agree on.
type Terms struct {
	LayoutDigest string `json:"layout_digest"` // hex BLAKE3 of Layout
	// Layout is the canonical JSON layout. The state holds it once in a contract: in the contract's terms when they are fixed,
	// before that in the first of the open sessions that name its digest. OpenSession leaves it out if the contract holds it.
	Layout []byte `json:"layout,omitempty"`
	// LayoutFrom is the node that brought Layout; empty without one, or where it was not kept yet.
	LayoutFrom string `json:"layout_from,omitempty"`
	Leaves     uint64 `json:"leaves"` // number of leaves that the layout is cut into
	Method     string `json:"method"`
	MinPeers   uint32 `json:"min_peers"`
	// Least is how many participants of weight above 0 Method needs, 0 or 1: any. The proposer knows methods, the state does
	// not.
	Least uint32 `json:"least,omitempty"`
	// Weights is what the sessions' weights are: WeightsSamples, or empty for shares that programs choose, up to MaxWeight.
	Weights string `json:"weights,omitempty"`
}

// WeightsSamples says that a session's weight is how many samples its data has, the n_k of federated averaging (McMahan et al. 2017).
const WeightsSamples = "samples"

// MaxWeight is the largest weight that a session of these terms can have.
func (t Terms) MaxWeight() uint32 {
	if t.Weights == WeightsSamples {
		return MaxSamples
	}
	return MaxWeight
}

// Same reports whether two sessions with these terms can train together.
func (t Terms) Same(o Terms) bool {
	return t.LayoutDigest == o.LayoutDigest && t.Leaves == o.Leaves && t.Method == o.Method && t.MinPeers == o.MinPeers && t.Weights == o.Weights
}

// String is a compact description for messages.
func (t Terms) String() string {
	text := fmt.Sprintf("layout %s (%d leaves), method %s, minPeers %d", clip(t.LayoutDigest, 12), t.Leaves, t.Method, t.MinPeers)
	if t.Weights != "" {
		text += ", weights " + t.Weights
	}
	return text
}

func (t Terms) check() error {
	switch {
	case !validHex(t.LayoutDigest, 64):
		return reject(ReasonBadCommand, "", "bad layout digest %q", clip(t.LayoutDigest, 80))
	case len(t.Layout) > MaxLayoutBytes:
		return reject(ReasonBadCommand, "", "layout of %d bytes, at most %d", len(t.Layout), MaxLayoutBytes)
	case t.Leaves > maxLeaves:
		return reject(ReasonBadCommand, "", "layout of %d leaves", t.Leaves)
	case t.Method == "" || !fits(maxShort, t.Method):
		return reject(ReasonBadCommand, "", "bad merge method %q", clip(t.Method, 80))
	case t.MinPeers < 1 || t.MinPeers > MaxMinPeers:
		return reject(ReasonBadCommand, "give minPeers from 1 to 1024", "minPeers is %d", t.MinPeers)
	case t.Weights != "" && t.Weights != WeightsSamples:
		return reject(ReasonBadCommand, "leave weights out, or give "+WeightsSamples, "bad weights %q", clip(t.Weights, 80))
	case t.MinPeers < t.Least:
		return tooFewFor(t.Method, t.Least, t.MinPeers)
	}
	return nil
}

// under returns the terms with what they leave open filled in from the rules, which may be nil.
func (t Terms) under(r *Rules) Terms {
	if r == nil {
		r = &Rules{}
	}
	switch {
	case t.Method == "" && r.Method != "":
		t.Method, t.Least = r.Method, r.Least
	case t.Method == "":
		t.Method, t.Least = MeanMethod, 0
	}
	if t.MinPeers == 0 {
		t.MinPeers = r.MinPeers
	}
	return t
}

// without returns the terms without the layout's text.
func (t Terms) without() Terms {
	t.Layout, t.LayoutFrom = nil, ""
	return t
}

// holding returns terms whose layout the contract holds, in terms or in a session of its run, with that layout.
func (c *Contract) holding(t Terms) (Terms, bool) {
	has := func(o *Terms) bool { return o.LayoutDigest == t.LayoutDigest && o.Layout != nil }
	if c.Terms != nil && has(c.Terms) {
		t.Layout, t.LayoutFrom = c.Terms.Layout, c.Terms.LayoutFrom
		return t, true
	}
	for _, s := range sortedSessions(c.Sessions) {
		if s.Run == c.Run && has(&s.Terms) {
			t.Layout, t.LayoutFrom = s.Terms.Layout, s.Terms.LayoutFrom
			return t, true
		}
	}
	return t, false
}

// HoldsLayout reports whether the contract holds the layout of this digest, so that a session need not bring it.
func (c *Contract) HoldsLayout(digest string) bool {
	_, ok := c.holding(Terms{LayoutDigest: digest})
	return ok
}

// tidyLayouts leaves each layout where it belongs: see Terms.Layout. What no open session needs goes.
func (c *Contract) tidyLayouts() {
	kept := map[string]bool{}
	var changed []*Session
	if c.Terms != nil && c.Terms.Layout == nil { // its session holds it
		if terms, ok := c.holding(*c.Terms); ok {
			c.Terms = &terms
		}
	}
	for _, s := range sortedSessions(c.Sessions) {
		want := s.Terms.without()
		if c.Terms == nil && s.Run == c.Run && s.State != SessionEnded && !kept[s.Terms.LayoutDigest] {
			want, kept[s.Terms.LayoutDigest] = s.Terms, true
			if want.Layout == nil {
				want, _ = c.holding(want)
			}
		}
		if (want.Layout == nil) != (s.Terms.Layout == nil) {
			n := *s
			n.Terms = want
			changed = append(changed, &n) // later: those that follow may still look for the layout here
		}
	}
	for _, s := range changed {
		c.Sessions[s.ID] = s
	}
}

// fixTerms decides the terms as soon as enough sessions are enrolled: the largest agreeing group wins, of equal ones the
// one with the earliest session. The sessions of the others end.
func (c *Contract) fixTerms() {
	if c.Terms != nil {
		return
	}
	var open []*Session
	for _, s := range sortedSessions(c.Sessions) {
		if s.Run == c.Run && s.State != SessionEnded {
			open = append(open, s)
		}
	}
	least := uint32(MaxMinPeers + 1)
	var best *Session
	bestSize := 0
	for i, s := range open {
		least = min(least, s.Terms.MinPeers)
		size := 0
		for _, o := range open[i:] {
			if o.Terms.Same(s.Terms) {
				size++
			}
		}
		if size > bestSize { // The first of a group sees all of it, and of equal groups the earliest comes first.
			best, bestSize = s, size
		}
	}
	if best == nil || uint64(len(open)) < uint64(least) {
		return
	}
	terms, _ := c.holding(best.Terms)
	c.Terms = &terms
	for _, s := range open {
		if !s.Terms.Same(terms) {
			c.end(s.ID, fmt.Sprintf("terms: this session has %s; the contract has %s", s.Terms, terms), 0)
		}
	}
}

// againstRules refuses terms that the contract's rules forbid.
func againstRules(contract string, mine Terms, rules *Rules) error {
	return reject(ReasonTermsMismatch,
		"ask for what the rules demand, or leave it out; only a contract without sessions can get other rules: swarmctl create contract "+contract,
		"terms differ from the rules of contract %s: this session has method %s, minPeers %d; the rules demand %s", contract, mine.Method, mine.MinPeers, rules.demand())
}

func termsMismatch(contract string, mine, theirs Terms) error {
	return reject(ReasonTermsMismatch,
		"use the same model, method, minPeers and kind of nodeWeightage as the other peers, or begin anew: swarmctl reset contract "+contract,
		"terms differ from those of contract %s: this session has %s; the contract has %s", contract, mine, theirs)
}

// fixedShares refuses weights that follow the data where a rule counts those with which sessions enrolled.
func fixedShares(contract string) error {
	return reject(ReasonTermsMismatch, "give numbers as nodeWeightage, or make the contract without --min-weight-share",
		"contract %s demands a share of the weight with which peers enrol, and weights that are numbers of samples may change later", contract)
}
