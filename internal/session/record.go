package session

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/attemptlog"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/internal/session/recipients"
	"github.com/swarmd/swarmd/merge"
)

// Bounds of what is read back.
const (
	maxRecordText  = 4 << 10
	maxRecordPeers = 10_000
)

// Record is what is kept of a program and its session. The file is this node's own, but a disk may hold anything.
type Record struct {
	Version     int    `json:"version"`
	Incarnation string `json:"life,omitempty"`      // of the program, the label of its container; empty: nothing runs
	Program     string `json:"program,omitempty"`   // reports whether a later run would start the same
	Isolation   string `json:"isolation,omitempty"` // what keeps the program in, as the swarm was told
	Ranks       bool   `json:"ranks,omitempty"`     // it is the first of several, which live no longer than their daemon
	Exit        *int   `json:"exit,omitempty"`      // the program's exit code, once it has ended
	Session     *Saved `json:"session,omitempty"`   // nil: the program has opened none
}

// Saved is how a session stands.
type Saved struct {
	ID       string         `json:"id"`
	Contract string         `json:"contract"`
	Run      uint64         `json:"run"`
	Index    uint64         `json:"index"`           // of the newest view of the contract
	Swarm    string         `json:"swarm,omitempty"` // whose index it is, with the epoch; empty: not known
	Open     round.Open     `json:"open"`            // the layout with it
	Progress round.Progress `json:"progress"`        // what the program has reported
	Local    string         `json:"local,omitempty"` // the slots' names as the program knows them
	HeldSlot string         `json:"held_slot,omitempty"`
	Base     round.Model    `json:"base"` // what training started from
	Held     round.Model    `json:"held"` // what HeldSlot holds
	// Method is canonical; empty, as in records of before there was a choice: the mean.
	Method    string             `json:"method,omitempty"`
	StateTurn int                `json:"state_turn,omitempty"` // which file of optimiser state is behind the merging slot
	Offered   *Offer             `json:"offered,omitempty"`
	Sent      *recipients.Record `json:"sent,omitempty"` // which leaves of what is offered may have gone to whom
	Begun     *attemptlog.Record `json:"begun,omitempty"`
	Spoken    uint64             `json:"spoken,omitempty"` // number of the last report that was signed, or of one not long before it
	Trained   *round.Trained     `json:"trained,omitempty"`
	LastSeq   uint64             `json:"last_seq"`
	Last      *wire.SyncResponse `json:"last,omitempty"` // the answer to LastSeq
	Closing   bool               `json:"closing,omitempty"`
	Finished  bool               `json:"finished,omitempty"` // the program was given the final model
	Final     *wire.SyncResponse `json:"final,omitempty"`    // the answer that gave it
	Error     *Error             `json:"error,omitempty"`    // why it ended before

	layout *merge.Layout
	method *merge.Method
}

// checkModel holds that a name is none, or may be one.
func checkModel(m round.Model) error {
	if m.Digest == "" && m.State == "" {
		return nil
	}
	if m.Check() != nil || m.Round == 0 {
		return fmt.Errorf("round %d has no model %.80q", m.Round, m.Digest)
	}
	return nil
}

// Offer is a Sync that the program waits for.
type Offer struct {
	Seq    uint64 `json:"seq"`
	Weight uint32 `json:"weight"`
}

// ParseRecord reads a record and checks all of it.
func ParseRecord(b []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(b, &r); err != nil {
		return Record{}, fmt.Errorf("parse record: %w", err)
	}
	if r.Version != recordVersion {
		return Record{}, fmt.Errorf("it has version %d, this swarmd knows %d", r.Version, recordVersion)
	}
	if len(r.Incarnation) > maxRecordText || len(r.Program) > maxRecordText || len(r.Isolation) > maxRecordText {
		return Record{}, errors.New("it names no program")
	}
	if r.Session == nil {
		return r, nil
	}
	if err := r.Session.check(); err != nil {
		return Record{}, fmt.Errorf("its session: %w", err)
	}
	return r, nil
}

// LayoutDigest is the digest of the model's layout, in hex.
func (r *Saved) LayoutDigest() string { return r.layout.Digest().String() }

// Weights are that of the session, as it was opened or, of samples, told last, and the largest that it can have.
func (r *Saved) Weights() (now, most int) { return int(r.Open.Weight), int(r.Open.Terms.MaxWeight()) }

// check validates the record of a session and unpacks what it holds.
func (r *Saved) check() error {
	if id, err := hex.DecodeString(r.ID); err != nil || len(id) != 16 {
		return fmt.Errorf("%.40q is no session", r.ID)
	}
	var err error
	if r.layout, err = merge.ParseLayout(r.Open.Terms.Layout); err != nil {
		return err
	}
	if r.Open.Session != r.ID || r.Open.Contract != r.Contract || r.Contract == "" {
		return errors.New("its opening belongs to another session")
	}
	if err := errors.Join(checkModel(r.Base), checkModel(r.Held)); err != nil {
		return err
	}
	if r.Method == "" {
		r.Method = "mean"
	}
	if r.method, err = merge.ParseMethod(r.Method); err != nil {
		return err
	}
	if r.Held.Digest != "" && r.HeldSlot == "" || r.Finished && r.Final == nil || r.Offered != nil && r.Offered.Seq != r.LastSeq+1 {
		return errors.New("it contradicts itself")
	}
	return errors.Join(checkAnswer(r.Last), checkAnswer(r.Final), r.Sent.Check(), r.Begun.Check(), checkText(r.Local), checkText(r.Swarm), checkText(r.HeldSlot))
}

// checkAnswer bounds what goes to the program again. What the bridge adds to an answer is in none that was kept.
func checkAnswer(r *wire.SyncResponse) error {
	if r == nil {
		return nil
	}
	if r.Pending || r.Waiting != "" || r.SHA256 != "" || len(r.Warnings) > 0 || r.Interval < 0 || int64(r.Interval) > math.MaxUint32 {
		return errors.New("an answer that no program was given")
	}
	if len(r.Participants) > maxRecordPeers {
		return fmt.Errorf("a round of %d participants", len(r.Participants))
	}
	if _, err := merge.ParseDigest(r.Digest); err != nil && r.Round > 0 && !(r.Skipped && r.Digest == "") {
		return err
	}
	return checkText(r.Slot)
}

func checkText(s string) error {
	if len(s) > maxRecordText {
		return fmt.Errorf("a name of %d bytes", len(s))
	}
	return nil
}

// recordLocked keeps how the session stands now. The program must not learn anything that is not kept.
func (s *session) recordLocked() {
	e := s.engine
	if e.cfg.Journal == nil || e.current != s || e.ctx == nil { // a daemon that stops ends its program too
		return
	}
	r := &Saved{
		ID: s.id, Contract: s.contract, Run: s.run, Index: max(s.view.Index, s.membership.before.index), Open: *s.open, Progress: s.program.progress,
		Base: s.model.base, Held: s.model.held, HeldSlot: s.model.heldSlot, LastSeq: s.program.lastSeq, Last: s.program.last,
		Closing: s.program.closing, Finished: s.program.finished, Final: s.program.final, Local: s.program.localName, Sent: s.attempts.sent, Begun: s.attempts.begun,
		Spoken: s.reports.last.number,
	}
	if r.Swarm = s.membership.before.swarm; !s.membership.before.bound {
		r.Swarm = s.membership.before.named(e.cfg.Swarm)
	}
	if s.model.form.Method != nil {
		r.Method = s.model.form.Method.String()
	}
	if st, ok := s.model.slots.(*models.Stateful); ok {
		r.StateTurn = st.Turn()
	}
	if s.program.training.told != (round.Trained{}) {
		told := s.program.training.told
		r.Trained = &told
	}
	if s.program.offered != nil {
		r.Offered = &Offer{Seq: s.program.offered.seq, Weight: s.program.offered.weight}
	}
	if s.err != nil {
		r.Error = plain(s.err)
	}
	e.cfg.Journal.session(r)
}

// plain is an error as it can be kept.
func plain(err error) *Error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	out := &Error{Code: "SESSION_ENDED", Message: err.Error()}
	var r interface {
		Reason() string
		Remedy() string
	}
	if errors.As(err, &r) {
		out.Code, out.Help = r.Reason(), r.Remedy()
	}
	return out
}
