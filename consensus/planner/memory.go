package planner

import (
	"maps"
	"slices"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
)

// Memory is what Decide remembers of one contract between two calls. The zero value is a new leader's.
type Memory struct {
	run, round uint64

	readySince  time.Time // since when minPeers are ready
	finalSince  time.Time // since when the final round lacks minPeers
	ownersSince time.Time // since when nobody is there who may own the leaves
	belowSince  time.Time // since when fewer than minPeers are there, if a rule bounds that
	lostSince   time.Time // since when nobody alive holds the committed model
	lostInVain  time.Time // until when the rules forbade a round of those who are there anyway; lostSince if they never did

	aheadSince time.Time // since when nodes that may be most of them hold newer models than the state knows of
	aheadVain  bool      // they did not prove any in time

	evaluated uint64    // the failed attempt whose reports were judged
	failSince time.Time // the round's first failure
	failures  int
	notBefore time.Time           // earliest time of the next attempt
	excluded  []string            // nodes left out of the round's next attempts
	proven    []string            // of excluded, those whom their own word or signature proves
	recalled  uint64              // the attempt after which somebody who was left out came back; 0: none
	reason    string              // why the attempt failed
	disagreed uint64              // the attempt that ended with different digests; 0: none
	epoch     uint64              // the least that the next attempt may have, as nothing of the last one may be resumed
	broken    map[string][]string // node → those to whom its links broke in the round's attempts
	doneSince time.Time           // since when half have finished the running attempt
	doneIn    uint64              // that attempt
	asked     asked               // what the participants of an attempt were asked
	plans     []*state.Plan       // the round's last attempts, if their parts had witnesses

	named        []string          // nodes that were named as the cause by two others
	namedAttempt uint64            // in this attempt
	sitOut       map[string]uint64 // node → last round that it sits out

	skips  map[string][]uint64 // node → attempts of this round that ended in a skip for it
	frozen map[string]bool     // closed sessions of the run of whose frozen weights two owners may have leaves
	doubts map[string][]uint64 // node → the last rounds in which what it said and what another said could not both be so

	loss lossHistory

	paces      []time.Duration // of the last 16 rounds, as pace counts them
	pacedRound uint64

	waitKey   string
	waitSince time.Time
}

// of returns a copy that fits the contract as it is now: a new run or round forgets what belonged to the old one.
func (m Memory) of(c *state.Contract) Memory {
	if m.run != c.Run {
		m = Memory{run: c.Run, waitKey: m.waitKey, waitSince: m.waitSince}
	}
	if m.round != c.Round()+1 {
		m = Memory{
			run: c.Run, round: c.Round() + 1, sitOut: m.sitOut, loss: m.loss, paces: m.paces,
			frozen: m.frozen, doubts: m.doubts, aheadVain: m.aheadVain, waitKey: m.waitKey, waitSince: m.waitSince,
		}
	}
	m.paces = slices.Clone(m.paces)
	m.excluded, m.named, m.sitOut = slices.Clone(m.excluded), slices.Clone(m.named), maps.Clone(m.sitOut)
	m.broken, m.proven = maps.Clone(m.broken), slices.Clone(m.proven)
	m.frozen, m.doubts, m.skips = maps.Clone(m.frozen), maps.Clone(m.doubts), maps.Clone(m.skips)
	if m.sitOut == nil {
		m.sitOut = map[string]uint64{}
	}
	maps.DeleteFunc(m.sitOut, func(_ string, last uint64) bool { return last < m.round })
	return m
}

func (m *Memory) sitting(node string) bool { return m.sitOut[node] >= m.round }

// exclude leaves a node out of the round's next attempts, and of the rounds after it.
func (m *Memory) exclude(node string) {
	if !slices.Contains(m.excluded, node) {
		m.excluded = append(m.excluded, node)
	}
	m.sitOut[node] = m.round + sitOutRounds
}

// readmit takes a node's exclusion back.
func (m *Memory) readmit(node string) {
	m.excluded = slices.DeleteFunc(m.excluded, func(n string) bool { return n == node })
	delete(m.sitOut, node)
}

// breaks notes that a link between two nodes did not carry.
func (m *Memory) breaks(a, b string) {
	if m.broken == nil {
		m.broken = map[string][]string{}
	}
	for _, end := range [][2]string{{a, b}, {b, a}} {
		if peers := m.broken[end[0]]; !slices.Contains(peers, end[1]) {
			m.broken[end[0]] = append(slices.Clip(peers), end[1])
		}
	}
}

// freeze notes that a closed session's contribution counts 0 from now on.
func (m *Memory) freeze(session string) {
	if m.frozen == nil {
		m.frozen = map[string]bool{}
	}
	m.frozen[session] = true
}

// Who is unsettled in so many of the last rounds sits out.
const (
	doubtsToSitOut = 3
	doubtRounds    = 10
)

// unsettled notes that the round could not go on with what a node said, though nobody can tell whether it was wrong.
func (m *Memory) unsettled(node string) {
	if m.doubts == nil {
		m.doubts = map[string][]uint64{}
	}
	if rounds := m.doubts[node]; !slices.Contains(rounds, m.round) {
		rounds = append(slices.Clip(rounds), m.round)
		m.doubts[node] = slices.DeleteFunc(rounds, func(r uint64) bool { return r+doubtRounds <= m.round })
	}
}

// doubted returns the participants that were unsettled in most rounds, if these are as many as sitting out takes.
func (m *Memory) doubted(nodes []string) []string {
	most := doubtsToSitOut
	for _, n := range nodes {
		most = max(most, len(m.doubts[n]))
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return len(m.doubts[n]) < most })
}

// causesSkip notes who gave cause for a skip of an attempt. A skip leaves the round's number, so rounds don't count here: who does
// it twice sits out.
func (m *Memory) causesSkip(node string, attempt uint64) {
	m.unsettled(node)
	if of := m.skips[node]; !slices.Contains(of, attempt) {
		if m.skips == nil {
			m.skips = map[string][]uint64{}
		}
		m.skips[node] = append(slices.Clip(of), attempt)
	}
	if len(m.skips[node]) > 1 {
		m.exclude(node)
	}
}
