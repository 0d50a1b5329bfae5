package state

import (
	"fmt"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/identity/pattern"
)

// Rules of a contract. A zero field demands nothing. Shares are in millionths, so that nothing is rounded differently
// anywhere.
type Rules struct {
	Method string `json:"method,omitempty"` // canonical; sessions must ask for the same or for none
	// Least is how many participants of weight above 0 Method needs. The proposer knows methods, the state does not.
	Least             uint32   `json:"least,omitempty"`
	MinPeers          uint32   `json:"min_peers,omitempty"`
	ExpectedPeers     uint32   `json:"expected_peers,omitempty"`
	Required          []string `json:"required,omitempty"` // names of nodes without which no round is planned, sorted
	MinWeightSharePPM uint32   `json:"min_weight_share_ppm,omitempty"`
	WeightCapPPM      uint32   `json:"weight_cap_ppm,omitempty"`
	Export            bool     `json:"export,omitempty"`     // swarmctl may fetch models
	NonFinite         string   `json:"non_finite,omitempty"` // "drop" or "fail"
	QuorumWaitMS      uint32   `json:"quorum_wait_ms,omitempty"`
	StallGraceMS      uint32   `json:"stall_grace_ms,omitempty"`
	MinPeersTimeoutMS uint32   `json:"min_peers_timeout_ms,omitempty"`
	// Allow are patterns of SPIFFE IDs, sorted: only nodes of these may open sessions. None: every SL may.
	Allow []string `json:"allow,omitempty"`
	// Owners are patterns likewise: only nodes of these own parts of the model, also those of weight 0. None: whoever has weight.
	Owners []string `json:"owners,omitempty"`
	// Witnesses is how many nodes of different parties merge each part of the model: its owner and so many less 1. 0: the owner alone.
	Witnesses uint32 `json:"witnesses,omitempty"`
	// CheckinDefault is the check-in mode of sessions whose programs choose none. Empty: as their nodes say.
	CheckinDefault string `json:"checkin_default,omitempty"`
	// Curves are patterns likewise, of any role: only callers of these are shown the loss and the metric of each peer. None: all who may ask.
	Curves []string `json:"curves,omitempty"`
}

// What happens to a contract when a peer's weights are not finite.
const (
	NonFiniteDrop = "drop" // the peer's session ends; the default
	NonFiniteFail = "fail" // all sessions end
)

// EndNonFinite begins the end reason of a session whose weights are not finite.
const EndNonFinite = "failed: not finite: "

// PPM is the whole in the unit of shares: millionths.
const PPM = 1_000_000

// MaxWitnesses bounds how many nodes merge each part of a model.
const MaxWitnesses = 8

// MeanMethod is how models are merged when neither session nor rules say.
const MeanMethod = "mean"

// Equal reports whether both demand the same; nil is not the same as rules that demand nothing.
func (r *Rules) Equal(o *Rules) bool {
	if r == nil || o == nil {
		return r == o
	}
	a, b := *r, *o
	same := slices.Equal(a.Required, b.Required) && slices.Equal(a.Allow, b.Allow) && slices.Equal(a.Owners, b.Owners) && slices.Equal(a.Curves, b.Curves)
	a.Required, b.Required, a.Allow, b.Allow, a.Owners, b.Owners, a.Curves, b.Curves = nil, nil, nil, nil, nil, nil, nil, nil
	return same && a.text() == b.text()
}

// text is all that a rule set without names demands.
func (r *Rules) text() string { return fmt.Sprintf("%+v", *r) }

func (r *Rules) none() bool { return r.Equal(&Rules{}) }

// fit reports whether sessions with these terms obey the rules; nil rules demand nothing.
func (r *Rules) fit(t Terms) bool {
	return r == nil || (r.Method == "" || r.Method == t.Method) && (r.MinPeers == 0 || r.MinPeers == t.MinPeers)
}

// demand says what the rules ask of terms.
func (r *Rules) demand() string {
	var parts []string
	if r.Method != "" {
		parts = append(parts, "method "+r.Method)
	}
	if r.MinPeers > 0 {
		parts = append(parts, fmt.Sprintf("minPeers %d", r.MinPeers))
	}
	return strings.Join(parts, ", ")
}

func (r *Rules) check() error {
	switch {
	case len(r.Method) > maxShort || !oneLine(r.Method) || r.Method == "" && r.Least > 0:
		return reject(ReasonBadCommand, "", "bad merge method %q", clip(r.Method, 80))
	case r.MinPeers > MaxMinPeers || r.ExpectedPeers > MaxMinPeers || r.Least > MaxMinPeers:
		return reject(ReasonBadCommand, fmt.Sprintf("give from 1 to %d", MaxMinPeers), "%d peers at least, %d expected", r.MinPeers, r.ExpectedPeers)
	case r.MinPeers > 0 && r.MinPeers < r.Least:
		return tooFewFor(r.Method, r.Least, r.MinPeers)
	case r.ExpectedPeers > 0 && r.ExpectedPeers < r.MinPeers:
		return reject(ReasonBadCommand, "expect at least as many as minPeers", "%d peers are expected, and minPeers is %d", r.ExpectedPeers, r.MinPeers)
	case r.MinWeightSharePPM > PPM || r.WeightCapPPM > PPM:
		return reject(ReasonBadCommand, "give a share from 0 to 1", "a share of the weight is above 1")
	case r.Witnesses > MaxWitnesses || r.Witnesses == 1:
		return reject(ReasonBadCommand, fmt.Sprintf("give from 2 to %d, or none", MaxWitnesses), "%d nodes are to merge each part of the model", r.Witnesses)
	case r.NonFinite != "" && r.NonFinite != NonFiniteDrop && r.NonFinite != NonFiniteFail:
		return reject(ReasonBadCommand, "use drop or fail", "bad policy %q for weights that are not finite", clip(r.NonFinite, 80))
	case r.CheckinDefault != "" && !ValidCheckin(r.CheckinDefault):
		return badCheckin(r.CheckinDefault)
	case max(r.QuorumWaitMS, r.StallGraceMS, r.MinPeersTimeoutMS) > MaxWaitMS:
		return reject(ReasonBadCommand, "give at most a week", "a wait is longer than a week")
	case r.WeightCapPPM > 0 && r.MinPeers > 0 && !capFits(r.WeightCapPPM, uint64(r.MinPeers)):
		return reject(ReasonBadCommand, "raise the weight cap to 1/minPeers at least, or minPeers",
			"with minPeers %d and a weight cap of %s of the whole the peers' shares would not make up 1", r.MinPeers, share(uint64(r.WeightCapPPM)))
	}
	if err := checkPatterns(r.Allow, "who may take part", naming.RoleSL); err != nil {
		return err
	}
	if err := checkPatterns(r.Owners, "who may own", naming.RoleSL); err != nil {
		return err
	}
	if err := checkPatterns(r.Curves, "who sees the curves of each peer", ""); err != nil {
		return err
	}
	return r.checkRequired()
}

// checkPatterns holds a list of patterns to its form, of SPIFFE IDs of a role or of any.
func checkPatterns(list []string, what, role string) error {
	if len(list) > pattern.MaxList {
		return reject(ReasonBadCommand, "name many nodes by one pattern, with * or **", "%d patterns of %s, at most %d can be", len(list), what, pattern.MaxList)
	}
	for i, text := range list {
		p, err := pattern.Parse(text)
		switch {
		case err != nil && role == "" || err == nil && role == "" && !p.Under("swarm"):
			return reject(ReasonBadCommand, "write spiffe://DOMAIN/swarm/ROLE/NAME, with * for any name", "%.300q is no pattern of SPIFFE IDs of a swarm", text)
		case err != nil:
			return reject(ReasonBadCommand, "write spiffe://DOMAIN/swarm/sl/NAME, with * for any name", "%s", err)
		case role != "" && !p.Under("swarm", role):
			return reject(ReasonBadCommand, "write spiffe://DOMAIN/swarm/sl/NAME, with * for any name", "%s is no pattern of an SL's SPIFFE ID", p)
		case i > 0 && list[i-1] >= text:
			return reject(ReasonBadCommand, "give each pattern once", "pattern %s is not in its place", p)
		}
	}
	return nil
}

// allows reports whether a node may take part; nil rules let every SL.
func (r *Rules) allows(n *Node) bool {
	if r == nil || len(r.Allow) == 0 {
		return true
	}
	list, err := pattern.ParseList(r.Allow)
	return err == nil && list.Match(n.SPIFFEID)
}

// HidesCurves says why the rules do not show the loss and the metric of each peer to a SPIFFE ID; empty: they do.
func (r *Rules) HidesCurves(id string) string {
	if r == nil || len(r.Curves) == 0 {
		return ""
	}
	if list, err := pattern.ParseList(r.Curves); err == nil && list.Match(id) {
		return ""
	}
	return fmt.Sprintf("the contract's rule curves shows the loss and the metric of each peer to %s only: %s is shown the peers' mean", Clip(strings.Join(r.Curves, ", "), 512), Clip(id, 256))
}

// owners are whom the rules let own parts of the model; nil: whoever has weight.
func (r *Rules) owners() pattern.List {
	if r == nil {
		return nil
	}
	list, err := pattern.ParseList(r.Owners)
	if err != nil { // never: they were checked
		return nil
	}
	return list
}

// witnesses is how many merge each part of the model; 0: its owner alone.
func (r *Rules) witnesses() uint32 {
	if r == nil {
		return 0
	}
	return r.Witnesses
}

// notAllowed refuses a session of a node that the rules do not let take part.
func notAllowed(contract string, n *Node, r *Rules) error {
	return reject(ReasonNotAllowed,
		"ask who made the contract to let it in; only a contract without sessions can get other rules: swarmctl create contract "+contract,
		"the rules of contract %s let only %s take part: node %s has the SPIFFE ID %s", contract, Clip(strings.Join(r.Allow, ", "), 512), n.Name, Clip(n.SPIFFEID, 256))
}

func (r *Rules) checkRequired() error {
	if len(r.Required) > MaxRequired {
		return reject(ReasonBadCommand, "", "%d nodes are required, at most %d can be", len(r.Required), MaxRequired)
	}
	for i, name := range r.Required {
		if !naming.ValidNode(name) || i > 0 && r.Required[i-1] >= name {
			return reject(ReasonBadCommand, "give each node's name once", "bad required node %q", clip(name, 80))
		}
	}
	return nil
}

// tooFewFor says that a method can't work with so few peers.
func tooFewFor(method string, least, minPeers uint32) error {
	return reject(ReasonTooFewPeers, fmt.Sprintf("give minPeers of at least %d, or another merge method", least),
		"%s needs %d peers: minPeers is %d", clip(method, 80), least, minPeers)
}

// capFits reports whether n peers can each stay within a share of the whole.
func capFits(ppm uint32, n uint64) bool { return uint64(ppm)*n >= PPM }

// share writes millionths as a short decimal.
func share(ppm uint64) string {
	text := fmt.Sprintf("%d.%06d", ppm/PPM, ppm%PPM)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

// CreateContract sets all rules of a contract, and makes the contract if there is none. Rules outlive resets. They can't be
// changed while sessions are there, nor to what contradicts the terms of a training that has begun, nor so that models come
// out that nodes made under rules which let none out.
type CreateContract struct {
	Contract string        `json:"contract"`
	Rules    Rules         `json:"rules"`
	AtMS     int64         `json:"at_ms"`
	Order    *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (CreateContract) Type() string { return "create_contract" }

func (o CreateContract) apply(s *State) (Result, error) {
	if err := checkContractName(o.Contract); err != nil {
		return Result{}, err
	}
	if err := o.Rules.check(); err != nil {
		return Result{}, err
	}
	if !fits(maxShort, o.Rules.Method) {
		return Result{}, reject(ReasonBadCommand, "", "bad merge method %q", clip(o.Rules.Method, 80))
	}
	known, err := s.ensureContract(o.Contract, o.AtMS)
	if err != nil {
		return Result{}, err
	}
	c, err := s.contract(o.Contract)
	if err != nil {
		return Result{}, err
	}
	result := Result{Contract: c.Name, Run: c.Run}
	rules := &o.Rules
	if rules.none() {
		rules = nil
	}
	adopted := c.MadeBy != ""
	c.MadeBy = ""
	if known && c.Rules.Equal(rules) {
		result.Changed = adopted
		return result, nil
	}
	if active := c.Active(); len(active) > 0 {
		return Result{}, reject(ReasonOpenSessions, "wait until they end, or end them: swarmctl reset contract "+c.Name+" force",
			"contract %s has %d open sessions: its rules can't be changed while sessions are open", c.Name, len(active))
	}
	if c.Terms != nil && !c.Over && !rules.fit(*c.Terms) {
		return Result{}, reject(ReasonTermsMismatch, "begin anew: swarmctl reset contract "+c.Name,
			"contract %s is trained with %s; the rules demand %s", c.Name, c.Terms, rules.demand())
	}
	if c.Terms != nil && !c.Over && c.Terms.Weights != "" && rules != nil && rules.MinWeightSharePPM > 0 {
		return Result{}, reject(ReasonTermsMismatch, "begin anew: swarmctl reset contract "+c.Name,
			"contract %s is trained with weights that are numbers of samples; a least share of the weight needs weights that stay", c.Name)
	}
	if (c.Committed != nil || c.Lost != nil) && rules.exports() && !c.Rules.exports() {
		return Result{}, reject(ReasonTermsMismatch, "begin anew: swarmctl reset contract "+c.Name,
			"contract %s was begun with rules that let no models out", c.Name)
	}
	c.Rules = rules
	result.Changed = true
	return result, nil
}

func (o CreateContract) records(_, next *State) (int64, []ledger.Body) {
	if o.Order == nil { // logs of before rules were recorded have none
		return o.AtMS, nil
	}
	return o.AtMS, []ledger.Body{ledger.Rules{Contract: o.Contract, Run: next.Contracts[o.Contract].Run, Order: o.Order}}
}

// exports reports whether the rules let models out of the nodes that train; no rules let none.
func (r *Rules) exports() bool { return r != nil && r.Export }

// ensureContract adds a contract unless it is there, and reports whether it was.
func (s *State) ensureContract(name string, atMS int64) (known bool, err error) {
	if s.Contracts[name] != nil {
		return true, nil
	}
	if len(s.Contracts) >= maxContracts {
		return false, reject(ReasonBadCommand, "use one of the existing contracts, or delete one that is no longer used: swarmctl delete contract NAME", "the swarm has %d contracts already", maxContracts)
	}
	c := newContract(name, atMS)
	c.Run = s.RunFloor + 1
	s.setContract(c)
	return false, nil
}

func checkContractName(name string) error {
	if !naming.ValidContract(name) {
		return reject(ReasonBadCommand, "use 1 to 128 of A-Z a-z 0-9 . _ -", "bad contract name %q", clip(name, 160))
	}
	return nil
}

// Expected is how many peers the first round waits for: by rule, else as the sessions announced; 0: not known.
func (c *Contract) Expected() uint32 {
	if c.Rules != nil && c.Rules.ExpectedPeers > 0 {
		return c.Rules.ExpectedPeers
	}
	return c.ExpectedPeers
}

// Waits returns the quorum wait and the stall grace that hold for the contract, in milliseconds: by rule, else the longest
// that a session asks for; 0: nobody says.
func (c *Contract) Waits() (quorumMS, stallMS uint32) {
	for _, s := range c.Sessions {
		if s.Run == c.Run && s.State != SessionEnded {
			quorumMS, stallMS = max(quorumMS, s.QuorumWaitMS), max(stallMS, s.StallGraceMS)
		}
	}
	if r := c.Rules; r != nil && r.QuorumWaitMS > 0 {
		quorumMS = r.QuorumWaitMS
	}
	if r := c.Rules; r != nil && r.StallGraceMS > 0 {
		stallMS = r.StallGraceMS
	}
	return quorumMS, stallMS
}

// CheckPlan returns which rule forbids a round of these participants, or nil: all required nodes are there, they hold the
// least share of the weight, nobody's weight is above the cap, and the method has as many as it needs. The leader asks
// before it proposes, and Apply holds every plan to it.
func (c *Contract) CheckPlan(parts []Participant) error {
	var total, heavy uint64
	there := make(map[string]bool, len(parts))
	for _, p := range parts {
		there[p.Node] = true
		total += uint64(p.Weight)
		if p.Weight > 0 {
			heavy++
		}
	}
	if least := uint64(c.Terms.Least); heavy < least {
		return reject(ReasonTooFewPeers, "start more peers with a nodeWeightage above 0",
			"%s needs %d peers of a weight above 0: there are %d", c.Terms.Method, least, heavy)
	}
	if c.Rules == nil {
		return nil
	}
	var missing []string
	for _, name := range c.Rules.Required {
		if !there[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return reject(ReasonRequired, "start the missing nodes", "required for every round and not ready: %s", strings.Join(missing, ", "))
	}
	if err := c.checkShare(parts); err != nil {
		return err
	}
	return c.checkCap(parts, total, heavy)
}

// checkShare compares the weights of those who take part with those of all who are enrolled, as they enrolled.
func (c *Contract) checkShare(parts []Participant) error {
	ppm := uint64(c.Rules.MinWeightSharePPM)
	if ppm == 0 {
		return nil
	}
	var with, all uint64
	for _, s := range c.Active() {
		all += uint64(s.Weight)
	}
	for _, p := range parts {
		if s := c.Sessions[p.Session]; s != nil && p.Weight > 0 {
			with += uint64(s.Weight)
		}
	}
	if with*PPM < ppm*all {
		return reject(ReasonWeightShare, "wait for the peers that are missing",
			"the peers that are ready hold %d of %d of the weight, a round needs %s of it", with, all, share(ppm))
	}
	return nil
}

func (c *Contract) checkCap(parts []Participant, total, heavy uint64) error {
	ppm := c.Rules.WeightCapPPM
	if ppm == 0 || total == 0 {
		return nil
	}
	if !capFits(ppm, heavy) {
		return reject(ReasonWeightCap, "start more peers",
			"with %d peers somebody's share of the weight would be above the cap of %s", heavy, share(uint64(ppm)))
	}
	for _, p := range parts {
		if uint64(p.Weight)*PPM > uint64(ppm)*total {
			return reject(ReasonWeightCap, "", "weight %d of %s is more than %s of the whole of %d", p.Weight, p.Node, share(uint64(ppm)), total)
		}
	}
	return nil
}
