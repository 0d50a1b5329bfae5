package planner

import (
	"maps"
	"slices"
)

// exclusions are who takes part in no attempt, and what was seen of whom that may lead to it.
type exclusions struct {
	round        uint64              // that is due
	excluded     []string            // nodes left out of the round's next attempts
	proven       []string            // of excluded, those whom their own word or signature proves
	readmittedIn uint64              // the attempt after which somebody who was left out came back; 0: none
	broken       map[string][]string // node → those to whom its links broke in the round's attempts
	named        []string            // nodes that were named as the cause by two others
	namedIn      uint64              // in this attempt
	sitOut       map[string]uint64   // node → last round that it sits out
	skips        map[string][]uint64 // node → attempts of this round that ended in a skip for it
	frozen       map[string]bool     // closed sessions of the run of whose frozen weights two owners may have leaves
	doubts       map[string][]uint64 // node → the last rounds in which what it said and what another said could not both be so
}

// in returns a copy for a round.
func (e exclusions) in(round uint64) exclusions {
	e.round = round
	e.excluded, e.named, e.sitOut = slices.Clone(e.excluded), slices.Clone(e.named), maps.Clone(e.sitOut)
	e.broken, e.proven = maps.Clone(e.broken), slices.Clone(e.proven)
	e.frozen, e.doubts, e.skips = maps.Clone(e.frozen), maps.Clone(e.doubts), maps.Clone(e.skips)
	if e.sitOut == nil {
		e.sitOut = map[string]uint64{}
	}
	maps.DeleteFunc(e.sitOut, func(_ string, last uint64) bool { return last < e.round })
	return e
}

func (e *exclusions) sitting(node string) bool { return e.sitOut[node] >= e.round }

// exclude leaves a node out of the round's next attempts, and of the rounds after it.
func (e *exclusions) exclude(node string) {
	if !slices.Contains(e.excluded, node) {
		e.excluded = append(e.excluded, node)
	}
	e.sitOut[node] = e.round + sitOutRounds
}

// readmit takes a node's exclusion back.
func (e *exclusions) readmit(node string) {
	e.excluded = slices.DeleteFunc(e.excluded, func(n string) bool { return n == node })
	delete(e.sitOut, node)
}

// breaks notes that a link between two nodes did not carry.
func (e *exclusions) breaks(a, b string) {
	if e.broken == nil {
		e.broken = map[string][]string{}
	}
	for _, end := range [][2]string{{a, b}, {b, a}} {
		if peers := e.broken[end[0]]; !slices.Contains(peers, end[1]) {
			e.broken[end[0]] = append(slices.Clip(peers), end[1])
		}
	}
}

// freeze notes that a closed session's contribution counts 0 from now on.
func (e *exclusions) freeze(session string) {
	if e.frozen == nil {
		e.frozen = map[string]bool{}
	}
	e.frozen[session] = true
}

// Who is unsettled in so many of the last rounds sits out.
const (
	doubtsToSitOut = 3
	doubtRounds    = 10
)

// unsettled notes that the round could not go on with what a node said, though nobody can report whether it was wrong.
func (e *exclusions) unsettled(node string) {
	if e.doubts == nil {
		e.doubts = map[string][]uint64{}
	}
	if rounds := e.doubts[node]; !slices.Contains(rounds, e.round) {
		rounds = append(slices.Clip(rounds), e.round)
		e.doubts[node] = slices.DeleteFunc(rounds, func(r uint64) bool { return r+doubtRounds <= e.round })
	}
}

// doubted returns the participants that were unsettled in most rounds, if these are as many as sitting out takes.
func (e *exclusions) doubted(nodes []string) []string {
	most := doubtsToSitOut
	for _, n := range nodes {
		most = max(most, len(e.doubts[n]))
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return len(e.doubts[n]) < most })
}

// causesSkip notes who gave cause for a skip of an attempt. A skip leaves the round's number, so rounds don't count here: who does
// it twice sits out.
func (e *exclusions) causesSkip(node string, attempt uint64) {
	e.unsettled(node)
	if of := e.skips[node]; !slices.Contains(of, attempt) {
		if e.skips == nil {
			e.skips = map[string][]uint64{}
		}
		e.skips[node] = append(slices.Clip(of), attempt)
	}
	if len(e.skips[node]) > 1 {
		e.exclude(node)
	}
}

// links returns those that have broken in this round.
func (e *exclusions) links() (broken [][2]string) {
	for node, peers := range e.broken {
		for _, peer := range peers {
			broken = append(broken, [2]string{node, peer})
		}
	}
	return broken
}
