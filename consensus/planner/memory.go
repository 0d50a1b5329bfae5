package planner

import (
	"slices"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
)

// Memory is what Decide remembers of one contract between two calls. The zero value is a new leader's. Each part of the planner has
// its own.
type Memory struct {
	run, round uint64

	times    waitTimes
	recovery recoveryTimes
	adoption adoptionTimes
	tries    attempts
	out      exclusions
	loss     lossHistory
	said     saidReason
}

// paused begins all waits anew: what a pause lasts counts for none of them, nor for how long rounds take.
func (m *Memory) paused() {
	m.times = waitTimes{paces: m.times.paces, pacedRound: m.round}
	m.recovery, m.adoption = recoveryTimes{}, adoptionTimes{inVain: m.adoption.inVain}
	m.tries.failSince = time.Time{}
}

// of returns a copy that fits the contract as it is now: a new run or round forgets what belonged to the old one.
func (m Memory) of(c *state.Contract) Memory {
	if m.run != c.Run {
		m = Memory{run: c.Run, said: m.said}
	}
	if m.round != c.Round()+1 {
		m = Memory{
			run: c.Run, round: c.Round() + 1, times: waitTimes{paces: m.times.paces}, adoption: adoptionTimes{inVain: m.adoption.inVain},
			out: exclusions{sitOut: m.out.sitOut, frozen: m.out.frozen, doubts: m.out.doubts}, loss: m.loss, said: m.said,
		}
	}
	m.times.paces = slices.Clone(m.times.paces)
	m.out = m.out.in(m.round)
	return m
}
