package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// heardWithin is the least pause after an attempt in which somebody could not be dialled: by then its next heartbeat says whether it can dial.
const heardWithin = 1500 * time.Millisecond

// maxApart bounds the pairs that are shown.
const maxApart = 8

// Apart is a node that can't open a connection to another, which can't open one to it either.
type Apart struct {
	Node, Other    string
	Address, Cause string // the Other's HOST:PORT that was dialled, and round.Unreached's cause
}

// apart returns the pairs of these nodes between which there is no way, as both say: each can't open a connection to the other, and none
// stands. One says so before the other, its own first.
func (f *facts) apart(nodes []string, first bool) (pairs [][2]Apart) {
	says := map[[2]string]round.Unreached{}
	for _, s := range f.c.Active() {
		if !slices.Contains(nodes, s.Node) {
			continue
		}
		for _, u := range f.in.Reports[s.ID].Unreached {
			if !u.Linked && u.Node != s.Node && slices.Contains(nodes, u.Node) && !(first && u.Before) {
				says[[2]string{s.Node, u.Node}] = u
			}
		}
	}
	for i, a := range nodes {
		for _, b := range nodes[i+1:] {
			there, ok := says[[2]string{a, b}]
			back, also := says[[2]string{b, a}]
			if ok && also {
				pairs = append(pairs, [2]Apart{{a, b, there.Address, there.Cause}, {b, a, back.Address, back.Cause}})
			}
		}
	}
	return pairs
}

// dialFailed reports whether the running attempt failed as somebody could open no connection to another.
func (f *facts) dialFailed() bool {
	p := f.c.Plan
	return slices.ContainsFunc(p.Participants, func(part state.Participant) bool {
		r := f.in.Reports[part.Session].Failed
		return r != nil && r.Round == p.Round && r.Attempt == p.Attempt && r.Unreached != nil
	})
}

// neverMet are those of them between whom none has ever stood in these sessions. To plan them together would only cost an attempt, and the
// stall grace; a link that carried before may come back, and has that time.
func (f *facts) neverMet(nodes []string) [][2]Apart { return f.apart(nodes, true) }

// unreaching tells who can't reach whom, in one line.
func unreaching(pairs [][2]Apart) string {
	var parts []string
	for _, p := range pairs[:min(len(pairs), maxApart)] {
		parts = append(parts, fmt.Sprintf("%s and %s can't open connections to each other", p[0].Node, p[1].Node))
	}
	if len(pairs) > maxApart {
		parts = append(parts, "…")
	}
	return strings.Join(parts, ", ")
}
