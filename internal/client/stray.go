package client

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
)

const strayRemedy = "check the SNs' addresses; stop an SN that lost its state and founded a swarm of its own; to join another swarm forget the pinned swarm ID (state directory or context)"

// maxStrays bounds the SNs of other swarms that are remembered, so that each is told once.
const maxStrays = 64

// strays is what a client knows of SNs of other swarms.
type strays struct {
	dir  *directory
	on   func(sn, swarmID string) // nil: nobody is told
	wait time.Duration            // see Config.StrayWait

	// mu guards what follows.
	mu    sync.Mutex
	since time.Time       // when one of them answered first, and no SN of ours has since; zero: one of ours has
	known map[string]bool // by address and swarm
}

// astray are the SNs that one call has asked since one of our swarm answered, each with what came of it.
type astray struct {
	by    map[string]*failure
	wrong bool // one of them is of another swarm
}

// onCourse notes that an SN of our swarm has answered.
func (s *strays) onCourse() {
	s.mu.Lock()
	s.since = time.Time{}
	s.mu.Unlock()
}

// note keeps what came of asking an SN, and returns what there is to say of it: while an SN of another swarm is among those that
// were asked, that no SN of ours answers. That one of ours can't be reached says nothing against waiting for it.
func (s *strays) note(a *astray, sn string, f *failure) *failure {
	if f.Reason != ReasonWrongSwarm && f.Reason != ReasonUnreachable {
		*a = astray{}
		s.onCourse()
		return f
	}
	if a.by == nil {
		a.by = map[string]*failure{}
	}
	a.by[sn] = f
	if f.Reason == ReasonWrongSwarm {
		a.wrong = true
		s.found(sn, f.swarm)
	}
	if !a.wrong {
		return f
	}
	out := *f
	out.Error = &Error{Reason: ReasonUnreachable, Code: connect.CodeUnavailable, Message: s.noneOfOurs(a), Remedy: strayRemedy, err: f.Error}
	return &out
}

// found notes that an SN is of another swarm.
func (s *strays) found(sn, swarm string) {
	s.mu.Lock()
	if s.since.IsZero() {
		s.since = time.Now()
	}
	swarm = swarm[:min(len(swarm), 64)]
	is := sn + " " + swarm
	heard := s.known[is] || len(s.known) >= maxStrays
	if !heard {
		if s.known == nil {
			s.known = map[string]bool{}
		}
		s.known[is] = true
	}
	s.mu.Unlock()
	if !heard && s.on != nil {
		s.on(sn, swarm)
	}
}

// lost is the error of a call that has asked all SNs, and found those of other swarms alone, for as long as the client waits for
// ours; else nil.
func (s *strays) lost(a *astray) error {
	if !a.wrong {
		return nil
	}
	s.mu.Lock()
	all, since := true, s.since
	s.mu.Unlock()
	for _, sn := range s.dir.known() {
		all = all && a.by[sn] != nil
	}
	if !all || since.IsZero() || time.Since(since) < s.wait {
		return nil
	}
	return &Error{
		Reason: ReasonWrongSwarm, Code: connect.CodePermissionDenied, Message: s.noneOfOurs(a), Remedy: strayRemedy, err: errors.New("wrong swarm"),
	}
}

// noneOfOurs says which SNs are of which swarm, and which can't be reached.
func (s *strays) noneOfOurs(a *astray) string {
	pin := s.dir.pinned()
	var of, away []string
	for _, sn := range s.dir.known() {
		switch f := a.by[sn]; {
		case f == nil:
		case f.Reason == ReasonWrongSwarm:
			of = append(of, differs(pin, sn, f.swarm))
		default:
			away = append(away, f.Message)
		}
	}
	return fmt.Sprintf("no SN of %s answers: %s", named(pin), strings.Join(append(of, away...), "; "))
}
