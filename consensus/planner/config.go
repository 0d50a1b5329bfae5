package planner

import (
	"time"

	"github.com/swarmd/swarmd/consensus/state"
)

// Config are the leader's times. A zero field takes the default.
type Config struct {
	// Self is the name of the node that runs the leader; it is never declared dead by itself.
	Self string
	// HeartbeatTimeout is the silence after which a node is declared dead. Default 5 s.
	HeartbeatTimeout time.Duration
	// QuorumWait is how long a round waits for the peers beyond minPeers (SL_WAIT_FOR_FULL_QUORUM_SECONDS). Default
	// 30 s; negative: none.
	QuorumWait time.Duration
	// StallGrace is how long the same set is tried again while all who are blamed are alive. Default 60 s.
	StallGrace time.Duration
	// Gather is how long after the first failure of an attempt the others' reports are waited for. Default 300 ms.
	Gather time.Duration
	// BackoffMin and BackoffMax bound the pause between failed attempts, which doubles. Default 200 ms and 5 s.
	BackoffMin, BackoffMax time.Duration
	// Ledger reads this SN's ledger as Group.ReadLedger does. With it a model that training could go back to, when the last one
	// is lost, must be as recorded. Nil: what nodes say they hold is believed unless this leader saw another committed.
	Ledger func(offset uint64) ([]byte, error)
	// Tick is the longest time between two decisions. Default 100 ms.
	Tick time.Duration
	// ProposeTimeout bounds one proposal. Default 5 s.
	ProposeTimeout time.Duration
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.HeartbeatTimeout, 5 * time.Second},
		{&c.QuorumWait, 30 * time.Second},
		{&c.StallGrace, time.Minute},
		{&c.Gather, 300 * time.Millisecond},
		{&c.BackoffMin, 200 * time.Millisecond},
		{&c.BackoffMax, 5 * time.Second},
		{&c.Tick, 100 * time.Millisecond},
		{&c.ProposeTimeout, 5 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	c.QuorumWait = max(0, c.QuorumWait)
	return c
}

// asksCount is how many times the SN's own time, or the peers' usual number, one peer's wish counts for at most: it can slow
// the others, but not stop them.
const asksCount = 10

// under returns the times that hold for one contract: what its rules say, else the longest that its nodes ask for, as far as
// that counts, else the SN's own.
func (c Config) under(contract *state.Contract) Config {
	quorum, stall := contract.Waits()
	rules := contract.Rules
	if rules == nil {
		rules = &state.Rules{}
	}
	c.QuorumWait = held(quorum, rules.QuorumWaitMS, c.QuorumWait)
	c.StallGrace = held(stall, rules.StallGraceMS, c.StallGrace)
	return c
}

// held is the time that holds of what is asked for, or is the rule.
func held(askedMS, ruleMS uint32, own time.Duration) time.Duration {
	asked := time.Duration(askedMS) * time.Millisecond
	switch {
	case asked == 0:
		return own
	case ruleMS > 0:
		return asked
	}
	return min(asked, asksCount*own)
}

// curbed reports whether a session asks for longer waits than count. What holds is the longest that is asked for, or less.
func (c Config) curbed(s *state.Session, rules *state.Rules) bool {
	return (rules == nil || rules.QuorumWaitMS == 0) && time.Duration(s.QuorumWaitMS)*time.Millisecond > c.QuorumWait ||
		(rules == nil || rules.StallGraceMS == 0) && time.Duration(s.StallGraceMS)*time.Millisecond > c.StallGrace
}
