package state

import (
	"fmt"
	"strings"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity/naming"
)

// States of a session.
const (
	SessionOpen   = "open"
	SessionClosed = "closed" // its training ended; it takes part as its check-in mode says until it ends
	SessionEnded  = "ended"
)

// Reasons of ended sessions that other code acts on.
const (
	EndFinished = "finished" // its program has the final model
	EndReset    = "reset"
	EndReplaced = "replaced" // the same node opened another session
	EndLost     = "lost"     // its node was forgotten
	EndBanned   = "banned"   // its node was banned
	// EndRestarted is what an SL says of its session of before it was started again.
	EndRestarted = "failed: the daemon was restarted"
)

// Session is one node's part in one run of a contract.
type Session struct {
	ID            string `json:"id"` // 32 hex digits, chosen by its owner
	Node          string `json:"node"`
	Run           uint64 `json:"run"`
	Order         uint64 `json:"order"` // rank in the order of opening, unique in the contract
	Terms         Terms  `json:"terms"`
	ExpectedPeers uint32 `json:"expected_peers,omitempty"`
	SyncFrequency uint32 `json:"sync_frequency"` // start interval in batches, at least 1
	Adaptive      bool   `json:"adaptive,omitempty"`
	CheckinMode   string `json:"checkin_mode"`
	// CheckinFrom is who chose the mode. Empty: its program, or it is older than this field.
	CheckinFrom string `json:"checkin_from,omitempty"`
	Weight      uint32 `json:"weight"` // up to Terms.MaxWeight; of samples: as of the last round or the close
	TotalEpochs uint32 `json:"total_epochs,omitempty"`
	// Isolation is what keeps its program in, in the words of its SL, which nobody can check: "container, no network" or
	// "container, open: network lan". Empty: the SL says nothing.
	Isolation string `json:"walls,omitempty"`

	// NoShard says that its node wants to own no part of a merge.
	NoShard bool `json:"no_shard,omitempty"`
	// QuorumWaitMS and StallGraceMS are what its node asks for, 0: nothing; see Contract.Waits.
	QuorumWaitMS uint32 `json:"quorum_wait_ms,omitempty"`
	StallGraceMS uint32 `json:"stall_grace_ms,omitempty"`

	State  string `json:"state"`
	Closed bool   `json:"closed,omitempty"` // a close was committed, also when the session has ended since
	// ClosedBy is for whom the close counts: the SPIFFE ID if that is of one node alone (/swarm/sl/NAME), else the node key. Empty: the
	// session has not closed, or had before this was kept.
	ClosedBy  string `json:"closed_by,omitempty"`
	ClosedSeq uint64 `json:"closed_seq,omitempty"` // the last Sync's number at the close
	// ClosedRounds is in how many committed rounds what it left at its close had a weight above 0, as far as it is counted: see tracksClosed.
	ClosedRounds uint64 `json:"closed_rounds,omitempty"`
	// CountedIn is the first of these rounds, of a session whose mode is once. 0: there was none, or its model was lost, or it is older than
	// this field.
	CountedIn uint64 `json:"counted_in,omitempty"`
	LastSeq   uint64 `json:"last_seq,omitempty"`   // Sync number of the last round that it took part in
	LastRound uint64 `json:"last_round,omitempty"` // that round
	// SkippedSeq is the newest Sync number that was answered without a model; see SkipRound.
	SkippedSeq uint64 `json:"skipped_seq,omitempty"`
	EndReason  string `json:"end_reason,omitempty"`
	ExitCode   int32  `json:"exit_code,omitempty"`
	OpenedMS   int64  `json:"opened_ms"`
	// PeerID is of the node key that it was opened with: the name may be another's since. Empty: it is older than this field.
	PeerID string `json:"peer_id,omitempty"`
	// Program is which program runs, in the words of its SL, until the ledger has it. Empty: it has, or the SL says nothing.
	Program string `json:"program,omitempty"`
}

// countsClosed reports whether the session counts towards the end of training.
func (s *Session) countsClosed() bool {
	return s.Closed && s.EndReason != EndReplaced
}

// closer is for whom the close counts. However many sessions close, an identity ends training for one.
func (s *Session) closer() string {
	if s.ClosedBy != "" {
		return s.ClosedBy
	}
	return s.Node
}

// closes returns for whom a close of the node counts.
func (n *Node) closes() string {
	if strings.HasSuffix(n.SPIFFEID, "/swarm/"+n.Role+"/"+n.Name) {
		return n.SPIFFEID
	}
	return n.PeerID
}

// OpenSession enrols a session. It is idempotent by session ID. A session whose terms lose against those of the others
// in this very command is created and ended at once: see Result.EndReason.
type OpenSession struct {
	Session       string `json:"session"`
	Contract      string `json:"contract"`
	Node          string `json:"node"`
	Terms         Terms  `json:"terms"`
	ExpectedPeers uint32 `json:"expected_peers,omitempty"`
	SyncFrequency uint32 `json:"sync_frequency"`
	Adaptive      bool   `json:"adaptive,omitempty"`
	CheckinMode   string `json:"checkin_mode"` // as the program chose; empty: it chose none
	Weight        uint32 `json:"weight"`
	TotalEpochs   uint32 `json:"total_epochs,omitempty"`
	Isolation     string `json:"walls,omitempty"` // at most MaxIsolation bytes of one line
	NoShard       bool   `json:"no_shard,omitempty"`
	QuorumWaitMS  uint32 `json:"quorum_wait_ms,omitempty"` // what its node asks for; 0: nothing
	StallGraceMS  uint32 `json:"stall_grace_ms,omitempty"` // likewise
	// Late asks for the final model if the contract is completed, which a node gets that took part. False in logs of before, which
	// refused it.
	Late bool `json:"late,omitempty"`
	// KeepKey has the node key kept with the session. False in logs of before.
	KeepKey bool `json:"keep_key,omitempty"`
	// CheckinDefault is the mode that its node has for programs that choose none. Empty: none.
	CheckinDefault string `json:"checkin_default,omitempty"`
	// KeepChooser has it kept with the session that its program chose no mode. False in logs of before.
	KeepChooser bool `json:"keep_chooser,omitempty"`
	// Program is which program runs, in the words of its SL: at most MaxProgram bytes of one line. It goes to the ledger.
	Program string `json:"program,omitempty"`
	// KeepProgram has the program recorded with the session's first round. False in logs of before, which recorded it at once: an SL that
	// opened sessions for nothing made the ledger grow.
	KeepProgram bool  `json:"keep_program,omitempty"`
	AtMS        int64 `json:"at_ms"`
}

// Type implements Command.
func (OpenSession) Type() string { return "open_session" }

func (o OpenSession) apply(s *State) (Result, error) {
	if err := o.check(s); err != nil {
		return Result{}, err
	}
	known, err := s.ensureContract(o.Contract, o.AtMS)
	if err != nil {
		return Result{}, err
	}
	c, err := s.contract(o.Contract)
	if err != nil {
		return Result{}, err
	}
	if !known {
		c.MadeBy = o.Node
	}
	o.Terms = o.Terms.under(c.Rules)
	if err := o.Terms.check(); err != nil {
		return Result{}, err
	}
	if had := c.Sessions[o.Session]; had != nil {
		if had.Node != o.Node {
			return Result{}, reject(ReasonSessionTaken, "", "session %s belongs to node %s", had.ID, had.Node)
		}
		return Result{Contract: c.Name, Run: c.Run, Session: had.ID, EndReason: had.EndReason}, nil
	}
	if c.Over && !(o.Late && c.Terms.Same(o.Terms) && c.tookPart(s.Nodes[o.Node])) {
		return Result{}, contractOver(c.Name)
	}
	if n := s.Nodes[o.Node]; !c.Rules.allows(n) {
		return Result{}, notAllowed(c.Name, n, c.Rules)
	}
	if !c.Rules.fit(o.Terms) {
		return Result{}, againstRules(c.Name, o.Terms, c.Rules)
	}
	if o.Terms.Weights != "" && c.Rules != nil && c.Rules.MinWeightSharePPM > 0 {
		return Result{}, fixedShares(c.Name)
	}
	if c.Terms != nil && !c.Terms.Same(o.Terms) {
		return Result{}, termsMismatch(c.Name, o.Terms, *c.Terms)
	}
	if o.Terms.LayoutFrom = ""; len(o.Terms.Layout) > 0 {
		o.Terms.LayoutFrom = o.Node
	} else if !c.HoldsLayout(o.Terms.LayoutDigest) {
		return Result{}, reject(ReasonLayoutAbsent, "open the session with its layout", "contract %s does not hold layout %s", c.Name, clip(o.Terms.LayoutDigest, 12))
	}
	if err := o.within(s, c, known); err != nil {
		return Result{}, err
	}
	if old := c.SessionOf(o.Node); old != nil {
		c.end(old.ID, EndReplaced, 0)
	}
	if len(c.Active()) == 0 && c.Plan == nil && !c.Over {
		c.PendingReason = "" // it ended those who were there before
	}
	session := o.session(c)
	if o.KeepKey {
		session.PeerID = s.Nodes[o.Node].PeerID
	}
	if o.KeepProgram {
		session.Program = o.Program
	}
	c.NextOrder++
	c.UsedMS = max(c.UsedMS, o.AtMS)
	c.Sessions[session.ID] = session
	c.ExpectedPeers = max(c.ExpectedPeers, o.ExpectedPeers)
	c.settle()
	return Result{Changed: true, Contract: c.Name, Run: c.Run, Session: o.Session, EndReason: c.Sessions[o.Session].EndReason}, nil
}

func (o OpenSession) records(_, next *State) (int64, []ledger.Body) {
	if o.Program == "" || o.KeepProgram {
		return o.AtMS, nil
	}
	c := next.Contracts[o.Contract]
	return o.AtMS, []ledger.Body{ledger.Program{
		Contract: o.Contract, Run: c.Run, Session: o.Session, Node: o.Node, PeerID: next.Nodes[o.Node].PeerID, Program: o.Program,
	}}
}

// tookPart reports whether a node of this very key had a session in this run, on the terms that hold.
func (c *Contract) tookPart(n *Node) bool {
	for _, s := range c.Sessions {
		if s.Node == n.Name && s.PeerID == n.PeerID && s.Run == c.Run && s.Terms.Same(*c.Terms) {
			return true
		}
	}
	return false
}

// forgetCloses lets the earlier closes of a node that closes again not count any more: one node never ends training for
// two, and closes that count are never more than nodes.
func (c *Contract) forgetCloses(node string) {
	for id, s := range c.Sessions {
		if s.Node == node && s.Run == c.Run && s.Closed {
			n := *s
			n.Closed, n.ClosedBy = false, ""
			c.Sessions[id] = &n
		}
	}
}

func (o OpenSession) session(c *Contract) *Session {
	mode, from := o.checkin(c.Rules)
	return &Session{
		ID: o.Session, Node: o.Node, Run: c.Run, Order: c.NextOrder, Terms: o.Terms,
		ExpectedPeers: o.ExpectedPeers, SyncFrequency: o.SyncFrequency, Adaptive: o.Adaptive,
		CheckinMode: mode, CheckinFrom: from, Weight: o.Weight, TotalEpochs: o.TotalEpochs, Isolation: o.Isolation,
		NoShard: o.NoShard, QuorumWaitMS: o.QuorumWaitMS, StallGraceMS: o.StallGraceMS,
		State: SessionOpen, OpenedMS: o.AtMS,
	}
}

func (o OpenSession) check(s *State) error {
	switch {
	case !validHex(o.Session, 32):
		return reject(ReasonBadCommand, "", "bad session ID %q", clip(o.Session, 80))
	case max(o.QuorumWaitMS, o.StallGraceMS) > MaxWaitMS:
		return reject(ReasonBadCommand, "give at most a week", "a wait is longer than a week")
	case o.SyncFrequency < 1 || o.SyncFrequency > maxInterval:
		return reject(ReasonBadCommand, "give a syncFrequency of at least 1", "syncFrequency is %d", o.SyncFrequency)
	case o.Weight > o.Terms.MaxWeight():
		return reject(ReasonBadCommand, fmt.Sprintf("give a nodeWeightage from 0 to %d", o.Terms.MaxWeight()), "nodeWeightage is %d", o.Weight)
	case o.ExpectedPeers > MaxMinPeers:
		return reject(ReasonBadCommand, "", "%d expected peers, at most %d", o.ExpectedPeers, MaxMinPeers)
	case !ValidCheckin(o.CheckinMode) && o.CheckinMode != "":
		return badCheckin(o.CheckinMode)
	case !ValidCheckin(o.CheckinDefault) && o.CheckinDefault != "":
		return badCheckin(o.CheckinDefault)
	case !fits(MaxIsolation, o.Isolation) || !oneLine(o.Isolation):
		return reject(ReasonBadCommand, "", "the words on a program's isolation are %d bytes, at most %d, of one line", encodedLen(o.Isolation), MaxIsolation)
	}
	if !fits(MaxProgram, o.Program) || !oneLine(o.Program) {
		return reject(ReasonBadCommand, "", "the words on a program are %d bytes, at most %d, of one line", encodedLen(o.Program), MaxProgram)
	}
	if err := checkContractName(o.Contract); err != nil {
		return err
	}
	n := s.Nodes[o.Node]
	if n == nil {
		return reject(ReasonNodeUnknown, "register the node first", "no node %q", clip(o.Node, 80))
	}
	if err := s.CheckBan(n.PeerID); err != nil {
		return err
	}
	if n.Left() {
		return nodeLeft(n)
	}
	if n.Role != naming.RoleSL {
		return reject(ReasonNotLearner, "", "node %s is no SL", o.Node)
	}
	return nil
}

func contractOver(name string) error {
	return reject(ReasonContractOver, "swarmctl reset contract "+name, "contract %s is completed", name)
}

// CloseSession records that a session's training ended and how it contributes from now on.
type CloseSession struct {
	Session     string `json:"session"`
	Contract    string `json:"contract"`
	Run         uint64 `json:"run"`
	CheckinMode string `json:"checkin_mode"` // empty: as at the opening
	Seq         uint64 `json:"seq"`          // the last Sync's number
	// Weight is how many samples the session's data has, where weights are that; nil: as before, as logs of older versions have it for 0 too.
	Weight *uint32 `json:"weight,omitempty"`
	AtMS   int64   `json:"at_ms"`
}

// Type implements Command.
func (CloseSession) Type() string { return "close_session" }

func (o CloseSession) apply(s *State) (Result, error) {
	if o.CheckinMode != "" && !ValidCheckin(o.CheckinMode) {
		return Result{}, badCheckin(o.CheckinMode)
	}
	c, old, err := s.session(o.Contract, o.Run, o.Session)
	if err != nil {
		return Result{}, err
	}
	result := Result{Contract: c.Name, Run: c.Run, Session: old.ID, EndReason: old.EndReason}
	if old.Closed {
		return result, nil
	}
	if old.State == SessionEnded {
		return Result{}, sessionEnded(old)
	}
	c.forgetCloses(old.Node)
	n := *old
	n.State, n.Closed, n.ClosedSeq = SessionClosed, true, o.Seq
	if n.Terms.Weights == WeightsSamples && o.Weight != nil {
		n.Weight = min(*o.Weight, MaxSamples)
	}
	if node := s.Nodes[n.Node]; node != nil {
		n.ClosedBy = node.closes()
	}
	n.chooses(o.CheckinMode)
	c.Sessions[n.ID] = &n
	c.settle()
	result.Changed = true
	return result, nil
}

// EndSession records that a session is gone: its program has the final model, or failed.
type EndSession struct {
	Session  string `json:"session"`
	Contract string `json:"contract"`
	Run      uint64 `json:"run"`
	Reason   string `json:"reason"` // "finished" or why it failed; cut at MaxEndReason
	ExitCode int32  `json:"exit_code,omitempty"`
	AtMS     int64  `json:"at_ms"`
}

// Type implements Command.
func (EndSession) Type() string { return "end_session" }

func (o EndSession) apply(s *State) (Result, error) {
	if o.Reason == "" {
		return Result{}, reject(ReasonBadCommand, "", "a session ends for a reason")
	}
	c, old, err := s.session(o.Contract, o.Run, o.Session)
	if err != nil {
		return Result{}, err
	}
	result := Result{Contract: c.Name, Run: c.Run, Session: old.ID, EndReason: old.EndReason}
	if old.State == SessionEnded {
		return result, nil
	}
	c.UsedMS = max(c.UsedMS, o.AtMS)
	c.end(old.ID, o.Reason, o.ExitCode)
	if c.notFinite(o.Reason) {
		c.failNotFinite(old.Node, o.Reason)
	} else {
		c.settle()
	}
	result.Changed, result.EndReason = true, Clip(o.Reason, MaxEndReason)
	return result, nil
}

// session finds the contract, for changing, and its session of a run.
func (s *State) session(contract string, run uint64, id string) (*Contract, *Session, error) {
	c, err := s.contract(contract)
	if err != nil {
		return nil, nil, err
	}
	session := c.Sessions[id]
	if session != nil && session.Run == run {
		return c, session, nil
	}
	if c.Run != run {
		return nil, nil, reject(ReasonStaleRun, "open a new session", "contract %s is in run %d, not %d", contract, c.Run, run)
	}
	return nil, nil, reject(ReasonSessionUnknown, "open a new session", "no session %q in contract %s", clip(id, 80), contract)
}

func sessionEnded(s *Session) error {
	return reject(ReasonSessionEnded, "open a new session", "session %s of %s has ended: %s", s.ID, s.Node, s.EndReason)
}

// end ends a session of a contract that the caller may change. Callers settle the contract afterwards.
func (c *Contract) end(id, reason string, exitCode int32) {
	n := *c.Sessions[id]
	n.State, n.EndReason, n.ExitCode = SessionEnded, Clip(reason, MaxEndReason), exitCode
	if c.Plan == nil || c.Plan.Participant(id) == nil {
		n.Program = "" // no round will have it any more
	}
	c.Sessions[id] = &n
}
