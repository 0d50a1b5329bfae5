package state

import (
	"fmt"
	"maps"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// Phase is where a contract's run stands.
type Phase string

// Phases, in their order.
const (
	PhaseUninitialised Phase = "uninitialised" // no session was opened in this run
	PhaseEnrolling     Phase = "enrolling"     // sessions are there, the terms are not fixed or minPeers is not met
	PhaseTraining      Phase = "training"
	PhasePaused        Phase = "paused"     // an operator has paused it, whatever it was in before
	PhaseFinalising    Phase = "finalising" // minPeers sessions have closed, the final round is due
	PhaseCompleted     Phase = "completed"  // the committed model is final
)

// Contract is one training contract in its current run.
type Contract struct {
	Name      string `json:"name"`
	Run       uint64 `json:"run"` // from 1, or behind State.RunFloor; RESET begins the next
	CreatedMS int64  `json:"created_ms"`
	// MadeBy is the node whose session made the contract; empty: somebody did by hand, or it is older than this field.
	MadeBy string `json:"made_by,omitempty"`
	// UsedMS is when a session was opened or ended last; 0: never, or not kept yet.
	UsedMS int64  `json:"used_ms,omitempty"`
	Terms  *Terms `json:"terms,omitempty"` // nil until fixed
	// ExpectedPeers is the largest number of peers that a session of this run announced; 0: unknown.
	ExpectedPeers uint32 `json:"expected_peers,omitempty"`
	// Sessions by ID. Ended ones are kept (the newest MaxEnded, and those that count as closed); after a forced reset the
	// ended sessions of the run before stand here too, so that their owners see why.
	Sessions  map[string]*Session `json:"sessions"`
	NextOrder uint64              `json:"next_order"` // order of the next session

	Committed *CommittedRound `json:"committed,omitempty"` // nil before the first
	Plan      *Plan           `json:"plan,omitempty"`      // nil when no attempt is running
	Attempt   uint64          `json:"attempt"`             // highest attempt of round Committed+1 so far
	Due       *Due            `json:"due,omitempty"`       // what earlier attempts of that round leave behind; nil: nothing
	Skips     *Skips          `json:"skips,omitempty"`     // nil: nothing was skipped in this run
	Over      bool            `json:"over,omitempty"`
	// FinalPending is FinalDue of this state, as long as the contract is not over.
	FinalPending bool `json:"final_pending,omitempty"`
	// RecentCommitMS are the times of the last commits, oldest first, and pauseMark for each pause between two; at most 16.
	RecentCommitMS []int64 `json:"recent_commit_ms,omitempty"`
	// PendingReason is why the last attempt was given up or repeated; empty after a commit.
	PendingReason string `json:"pending_reason,omitempty"`
	// Rules were demanded before anybody took part; nil: none were.
	Rules *Rules `json:"rules,omitempty"`
	// Lost is the last committed model of this run that no node held any more; nil: there was none.
	Lost *LostModel `json:"lost,omitempty"`
	// Adopted is the last model of this run that SNs took over which had been restored from a backup; nil: there was none.
	Adopted *AdoptedRound `json:"adopted,omitempty"`
	// Fetches are the newest models of this run that operators fetched; at most maxFetches.
	Fetches []Fetch `json:"fetches,omitempty"`
	// FetchCount is how many fetches of this run the ledger has.
	FetchCount uint32 `json:"fetch_count,omitempty"`
	// Halt is that an operator has paused the training or ends it; nil: neither.
	Halt *Halt `json:"halt,omitempty"`
}

// cloneContract returns a contract that may be changed. What its fields point to is never changed, only replaced, but for Sessions.
func cloneContract(c *Contract) *Contract {
	out := *c
	out.Sessions = maps.Clone(c.Sessions)
	return &out
}

// LostModel says that training went back to an older model.
type LostModel struct {
	Round        uint64 `json:"round"`
	Digest       string `json:"digest"`
	ResumedRound uint64 `json:"resumed_round"` // the newest one that was held; 0: none
	AtMS         int64  `json:"at_ms"`
}

func newContract(name string, atMS int64) *Contract {
	return &Contract{Name: name, Run: 1, CreatedMS: atMS, Sessions: map[string]*Session{}, NextOrder: 1}
}

// Round returns the number of the last committed round, 0 before the first.
func (c *Contract) Round() uint64 {
	if c.Committed == nil {
		return 0
	}
	return c.Committed.Round
}

// Phase tells where the run stands.
func (c *Contract) Phase() Phase {
	if c.Over {
		return PhaseCompleted
	}
	if c.Halt.Pauses() {
		return PhasePaused
	}
	if c.FinalPending {
		return PhaseFinalising
	}
	active := 0
	for _, s := range c.Sessions {
		if s.Run == c.Run && s.State != SessionEnded {
			active++
		}
	}
	switch {
	case c.Committed != nil || c.Plan != nil:
		return PhaseTraining
	case c.Terms != nil && uint64(active) >= uint64(c.Terms.MinPeers):
		return PhaseTraining
	case active > 0:
		return PhaseEnrolling
	default:
		return PhaseUninitialised
	}
}

// FinalDue reports whether the next round is the last: minPeers sessions have closed, or an operator ends the training. A committed close
// counts even if its SL died since.
func (c *Contract) FinalDue() bool {
	if c.Terms == nil || c.Over {
		return false
	}
	if c.Halt.Ending() {
		return true
	}
	closed := map[string]bool{}
	for _, s := range c.Sessions {
		if s.Run == c.Run && s.countsClosed() {
			closed[s.closer()] = true
		}
	}
	return uint64(len(closed)) >= uint64(c.Terms.MinPeers)
}

// Active returns the sessions of this run that have not ended, in the order in which they were opened.
func (c *Contract) Active() []*Session {
	var active []*Session
	for _, s := range sortedSessions(c.Sessions) {
		if s.Run == c.Run && s.State != SessionEnded {
			active = append(active, s)
		}
	}
	return active
}

// SessionOf returns the node's session of this run that has not ended, or nil.
func (c *Contract) SessionOf(node string) *Session {
	for _, s := range c.Sessions {
		if s.Node == node && s.Run == c.Run && s.State != SessionEnded {
			return s
		}
	}
	return nil
}

// pauseMark stands among the times of commits where the contract was paused: the time from one to the other says nothing of how long a round
// takes, neither with the pause, nor without it, as programs trained on to their next Sync.
const pauseMark = -1

// recent adds to the times of the last commits.
func recent(times []int64, atMS int64) []int64 {
	times = append(slices.Clone(times), atMS)
	return times[max(0, len(times)-maxRecent):]
}

// MedianIntervalMS returns the median time between the recent commits that no pause lies between, 0 when there is none.
func (c *Contract) MedianIntervalMS() int64 {
	var gaps []int64
	for i := 1; i < len(c.RecentCommitMS); i++ {
		if from, to := c.RecentCommitMS[i-1], c.RecentCommitMS[i]; from != pauseMark && to != pauseMark {
			gaps = append(gaps, max(0, to-from))
		}
	}
	return median(gaps)
}

// settle brings what follows from the sessions up to date. Every command that changes sessions calls it last.
func (c *Contract) settle() {
	active := c.Active()
	if len(active) == 0 && c.Committed == nil && !c.Over {
		// Nobody is left and there is no model: whoever comes next is not bound by the terms of those who failed.
		c.Terms, c.Plan, c.Due, c.ExpectedPeers, c.PendingReason = nil, nil, nil, 0, ""
		for id, s := range c.Sessions {
			if s.Run == c.Run && s.Closed {
				n := *s
				n.Closed, n.ClosedBy = false, ""
				c.Sessions[id] = &n
			}
		}
	}
	if c.Halt.Ending() && len(active) == 0 && !c.HasModel() {
		c.Halt = nil // there is nothing left to end
	}
	c.fixTerms()
	c.tidyLayouts()
	c.prune()
	c.FinalPending = c.FinalDue()
}

// prune forgets the oldest ended sessions beyond MaxEnded. Those that count as closed stay: they are fewer than minPeers
// plus the number of nodes.
func (c *Contract) prune() {
	var ended []*Session
	for _, s := range sortedSessions(c.Sessions) {
		if s.State == SessionEnded && (s.Run != c.Run || !s.countsClosed()) {
			ended = append(ended, s)
		}
	}
	for len(ended) > MaxEnded {
		delete(c.Sessions, ended[0].ID)
		ended = ended[1:]
	}
}

// ResetContract begins a new run. Sessions of live nodes stand in its way unless Force is set; all sessions that have
// not ended end with the reason "reset", and everything else of the run is forgotten.
type ResetContract struct {
	Contract string        `json:"contract"`
	Run      uint64        `json:"run,omitempty"` // the run to end, so that a retry does no harm; 0: whichever it is
	Force    bool          `json:"force,omitempty"`
	AtMS     int64         `json:"at_ms"`
	Order    *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (ResetContract) Type() string { return "reset_contract" }

func (r ResetContract) apply(s *State) (Result, error) {
	old, err := s.contract(r.Contract)
	if err != nil {
		return Result{}, err
	}
	if r.Run != 0 && old.Run == r.Run+1 {
		return Result{Contract: old.Name, Run: old.Run}, nil
	}
	if r.Run != 0 && old.Run != r.Run {
		return Result{}, reject(ReasonStaleRun, "", "contract %s is in run %d, not %d", old.Name, old.Run, r.Run)
	}
	next := newContract(old.Name, old.CreatedMS)
	next.Run, next.NextOrder, next.Rules = old.Run+1, old.NextOrder, old.Rules // and an operator has it in hand now
	if old.Halt.Pauses() {
		next.Halt = old.Halt
	}
	active := old.Active()
	open := 0
	for _, session := range active {
		if s.live(session.Node) {
			open++
		}
	}
	if open > 0 && !r.Force {
		return Result{}, reject(ReasonOpenSessions, "wait until they end, or add FORCE to end them",
			"contract %s has %d open sessions", old.Name, open)
	}
	for _, session := range active {
		n := *session
		n.State, n.EndReason, n.Terms, n.Program = SessionEnded, EndReset, n.Terms.without(), ""
		next.Sessions[n.ID] = &n
	}
	next.prune()
	s.setContract(next)
	return Result{Changed: true, Contract: next.Name, Run: next.Run}, nil
}

func (r ResetContract) records(_, next *State) (int64, []ledger.Body) {
	return r.AtMS, []ledger.Body{ledger.Reset{Contract: r.Contract, Run: next.Contracts[r.Contract].Run, Order: r.Order}}
}

// FinishContract ends a run with the last committed model, when the final round can't be held.
type FinishContract struct {
	Contract string `json:"contract"`
	Run      uint64 `json:"run"`
	Round    uint64 `json:"round"` // the last committed round
	Reason   string `json:"reason"`
	AtMS     int64  `json:"at_ms"`
}

// Type implements Command.
func (FinishContract) Type() string { return "finish_contract" }

func (f FinishContract) apply(s *State) (Result, error) {
	c, err := s.contractRun(f.Contract, f.Run)
	if err != nil {
		return Result{}, err
	}
	result := Result{Contract: c.Name, Run: c.Run}
	switch {
	case c.Over:
		return result, nil
	case !c.HasModel():
		return Result{}, reject(ReasonNoModel, "", "contract %s has no committed model", c.Name)
	case c.Committed.Round != f.Round:
		return Result{}, reject(ReasonStalePlan, "", "contract %s is at round %d, not %d", c.Name, c.Committed.Round, f.Round)
	case !c.FinalDue():
		return Result{}, reject(ReasonNotFinal, "", "contract %s: fewer than minPeers sessions have closed", c.Name)
	}
	final := *c.Committed
	final.Final = true
	c.Committed, c.Over, c.Plan, c.Halt = &final, true, nil, c.Halt.whenOver()
	c.PendingReason = Clip(fmt.Sprintf("ended without a final round: %s", f.Reason), maxShort)
	c.settle()
	result.Changed = true
	return result, nil
}

func (f FinishContract) records(_, _ *State) (int64, []ledger.Body) { //nolint:unparam // it implements recorder
	return f.AtMS, nil
}
