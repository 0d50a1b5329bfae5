package nodetest

import (
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/state"
)

// Round is one committed round as the log tells it.
type Round struct {
	Contract     string
	Run          uint64
	Round        uint64
	Attempt      uint64
	Digest       string
	Final        bool
	At           time.Time // when the leader committed it
	Participants []state.Participant
	// Sessions are the participants' sessions when the attempt was planned, in the same order.
	Sessions []state.Session
	// Lost says that the round before was a step back to an older model; in that one it says so of itself. Nobody merges such
	// a round.
	Lost *state.LostModel
	// Adopted says likewise that the round before was taken from what the SLs had signed.
	Adopted *state.AdoptedRound
}

// history is what a log says, entry by entry.
type history struct {
	entries  [][]byte // commands only, with their index in front
	commands []state.Command
	rounds   []Round
	end      *state.State
}

// replay applies a log from its beginning up to an index.
func replay(log *raft.InmemStore, last uint64) (history, error) {
	h := history{end: state.New()}
	first, err := log.FirstIndex()
	if err != nil {
		return h, err
	}
	if first > 1 {
		return h, fmt.Errorf("the log begins at %d: it was compacted", first)
	}
	planned := map[string][]state.Session{}
	for i := first; i <= last && i > 0; i++ {
		var entry raft.Log
		if err := log.GetLog(i, &entry); err != nil {
			return h, fmt.Errorf("read entry %d: %w", i, err)
		}
		if entry.Type != raft.LogCommand {
			continue
		}
		h.entries = append(h.entries, fmt.Appendf(nil, "%d %s", i, entry.Data))
		c, err := state.DecodeCommand(entry.Data)
		if err != nil {
			return h, fmt.Errorf("entry %d: %w", i, err)
		}
		h.commands = append(h.commands, c)
		old := h.end
		next, result, err := old.Apply(c)
		if err != nil && state.ReasonOf(err) == "" {
			return h, fmt.Errorf("apply entry %d: %w", i, err)
		}
		h.end = next
		if err == nil && result.Changed {
			h.note(c, old, planned)
		}
	}
	return h, nil
}

func (h *history) note(c state.Command, old *state.State, planned map[string][]state.Session) {
	switch c := c.(type) {
	case state.PlanRound:
		var sessions []state.Session
		for _, p := range c.Participants {
			sessions = append(sessions, *old.Contracts[c.Contract].Sessions[p.Session])
		}
		planned[c.Contract] = sessions
	case state.CommitRound:
		plan := old.Contracts[c.Contract].Plan
		var lost *state.LostModel
		var adopted *state.AdoptedRound
		if done := old.Contracts[c.Contract].Committed; done != nil && done.Attempt == 0 {
			if adopted = old.Contracts[c.Contract].Adopted; adopted == nil || adopted.Round != done.Round {
				lost, adopted = old.Contracts[c.Contract].Lost, nil
			}
		}
		h.rounds = append(h.rounds, Round{
			Lost: lost, Adopted: adopted, Contract: c.Contract, Run: c.Run, Round: c.Round, Attempt: c.Attempt, Digest: c.Digest, Final: plan.Final,
			At: time.UnixMilli(c.AtMS), Participants: plan.Participants, Sessions: planned[c.Contract],
		})
	case state.AdoptRound:
		h.rounds = append(h.rounds, Round{
			Contract: c.Contract, Run: c.Run, Round: c.Round, Digest: c.Proof.Model, At: time.UnixMilli(c.AtMS), Adopted: h.end.Contracts[c.Contract].Adopted,
		})
	case state.LoseModel:
		h.rounds = append(h.rounds, Round{
			Contract: c.Contract, Run: c.Run, Round: c.Round + 1, Digest: c.ResumedDigest, At: time.UnixMilli(c.AtMS),
			Lost: h.end.Contracts[c.Contract].Lost,
		})
	}
}
