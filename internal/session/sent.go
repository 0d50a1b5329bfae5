package session

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
)

// maxOwners is how many other nodes may get one leaf of one contribution, whoever plans the attempts.
const maxOwners = 2

// maxSentRuns bounds how finely plans may cut a model before this node refuses to follow them.
const maxSentRuns = 1 << 13

// Sent says which leaves of one contribution went, or may have gone, to which owners. It is kept before an attempt's first
// byte. A closed session's frozen weights are the contribution of its last Sync: nobody can tell whether the program has
// changed them since.
type Sent struct {
	Seq  uint64    `json:"seq"`
	Runs []SentRun `json:"runs"` // ascending
}

// SentRun is some leaves in a row that went to the same owners.
type SentRun struct {
	First  uint64   `json:"first"`
	Leaves uint64   `json:"leaves"`
	To     []string `json:"to"` // peer IDs, at most maxOwners
}

func (r SentRun) end() uint64 { return r.First + r.Leaves }

var errThirdOwner = errors.New("two nodes may have leaves of what this node offers that a third would get")

// after returns what will have gone to whom after an attempt too. It is an error if a leaf would go to a third owner.
func (s *Sent) after(seq uint64, p *swarmv1.Plan, self int) (*Sent, error) {
	out := &Sent{Seq: seq}
	if s != nil && s.Seq == seq {
		out.Runs = slices.Clone(s.Runs)
	}
	var fresh []SentRun
	for i, m := range p.Participants {
		for _, r := range runsOf(m) {
			if i != self && r.Leaves > 0 {
				if r.end() < r.First {
					return nil, errThirdOwner
				}
				fresh = append(fresh, SentRun{First: r.First, Leaves: r.Leaves, To: []string{m.PeerId}})
			}
		}
	}
	if len(fresh) > maxSentRuns {
		return nil, errThirdOwner
	}
	slices.SortFunc(fresh, func(a, b SentRun) int { return cmp.Compare(a.First, b.First) })
	for _, r := range fresh {
		var err error
		if out.Runs, err = add(out.Runs, r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// add returns the runs, which are ascending and the caller's, with one more owner of some leaves.
func add(runs []SentRun, more SentRun) ([]SentRun, error) {
	i, _ := slices.BinarySearchFunc(runs, more.First, func(r SentRun, at uint64) int { return cmp.Compare(r.end(), at+1) })
	if i == len(runs) {
		return append(runs, more), nil
	}
	out := slices.Clone(runs[:i])
	at := more.First
	for ; i < len(runs) && runs[i].First < more.end(); i++ {
		r := runs[i]
		out = append(out, part(r, r.First, at)...)
		out = append(out, part(more, at, r.First)...)
		both := SentRun{First: max(at, r.First), To: r.To}
		both.Leaves = min(r.end(), more.end()) - both.First
		if !slices.Contains(r.To, more.To[0]) {
			if len(r.To) == maxOwners {
				return nil, errThirdOwner
			}
			both.To = append(slices.Clip(r.To), more.To[0])
		}
		out = append(out, both)
		at = both.end()
		out = append(out, part(r, at, r.end())...)
	}
	out = append(append(out, part(more, at, more.end())...), runs[i:]...)
	if len(out) > maxSentRuns {
		return nil, errThirdOwner
	}
	return out, nil
}

// part is what of a run lies from one leaf up to another: nothing or one run.
func part(r SentRun, from, to uint64) []SentRun {
	if from = max(from, r.First); from >= to {
		return nil
	}
	return []SentRun{{First: from, Leaves: to - from, To: r.To}}
}

// check holds that a record may be one of this package.
func (s *Sent) check() error {
	if s == nil {
		return nil
	}
	next := uint64(0)
	for _, r := range s.Runs {
		if r.First < next || r.end() <= r.First || len(r.To) == 0 || len(r.To) > maxOwners || len(s.Runs) > maxSentRuns {
			return fmt.Errorf("bad run of leaves at %d", r.First)
		}
		next = r.end()
	}
	return nil
}

// journalLocked keeps that an attempt is begun, and to whom leaves go in it, before it begins. If it was begun before, or a leaf
// would go to a third owner, the attempt is not begun, and the leader is told so.
func (s *session) journalLocked(job Job) bool {
	p, sent, code := job.Plan, s.sent, ""
	begun, err := s.begun.after(p.Round, p.Attempt)
	if err == nil && p.Participants[job.Self].Weight > 0 && !s.publicLocked() { // Else nothing goes out that the others have not got.
		seq := s.lastSeq
		if !s.closed {
			seq = s.offered.seq
		}
		if sent, err = s.sent.after(seq, p, job.Self); err != nil {
			code = state.ReasonThirdOwner
		}
	}
	if err == nil {
		s.begun, s.sent = begun, sent
		s.recordLocked()
		return true
	}
	s.attempt = attemptState{run: p.Run, round: p.Round, number: p.Attempt, failed: &swarmv1.Failed{
		Round: p.Round, Attempt: p.Attempt, Code: code, Reason: err.Error(),
	}}
	s.engine.cfg.Log.Warn("attempt of a round is not begun", "contract", s.contract, "round", p.Round, "attempt", p.Attempt, "err", err)
	signal(s.engine.beat)
	return false
}

// publicLocked tells whether this node contributes the committed model.
func (s *session) publicLocked() bool {
	return s.closed && s.open.CheckinMode == modeActive && s.held.exists()
}
