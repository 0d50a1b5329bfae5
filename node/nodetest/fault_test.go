package nodetest_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/node/nodetest"
)

// What may take time when something fails, as DESIGN.md §8, §9 and §12 and the packages' defaults say.
const (
	election  = 3 * time.Second        // a second of silence, the vote, and once more if it is split
	heartbeat = 5 * time.Second        // silence after which a node is dead
	stall     = 10 * time.Second       // no byte on a stream that is owed one
	grace     = 60 * time.Second       // how long the same set is tried while all who are blamed live
	backoff   = 5 * time.Second        // longest pause between two attempts
	gather    = 300 * time.Millisecond // for the others' word on a failed attempt
	quorum    = 30 * time.Second       // for peers beyond minPeers, in the first round and every fifth
	beat      = time.Second            // between two heartbeats
	elsewhere = 3 * time.Second        // a heartbeat that gets no answer is tried at the next SN
	think     = time.Second            // a program's step of training
	calm      = 2 * heartbeat          // nobody is found dead so early in a leader's term
	exchange  = time.Second            // an exchange over the slowed links, plan and commit included
)

// fault is one thing that goes wrong during round 4 and what must come of it.
type fault struct {
	name   string
	cfg    nodetest.Config
	before func(s *nodetest.Swarm)      // when the swarm has just begun; nil: links of 50 ms between SLs
	when   func(s *nodetest.Swarm) bool // nil: during the exchange of round 4
	strike func(s *nodetest.Swarm)
	// lasts is how long the fault lasts, then mend ends it; 0: for good.
	lasts time.Duration
	mend  func(s *nodetest.Swarm)
	// blocks: nothing is committed before mend; within counts from there.
	blocks bool
	// within is the longest time from the fault (if it blocks: from its end) to the next commit.
	within time.Duration
	// with are the participants of that commit; nil: not held.
	with []string
	// all are the SLs whose programs must end well; nil: three.
	all []string
	// explain is how long after the fault `swarmctl explain contract` is asked; 0: not at all. The answer is in
	// testdata/explain/NAME.txt.
	explain time.Duration
	// says, if given, is what must be in the answer within explain: it is asked until then, as when that is depends on which of
	// two reports came first.
	says *regexp.Regexp
	// after holds more, when the programs have ended; nil: nothing.
	after func(t *testing.T, s *nodetest.Swarm)
}

// during reports whether an attempt of round 4 runs.
func during(s *nodetest.Swarm) bool { return s.Planned(4) }

// reported reports whether an SL has reported the model of round 4, before it is committed.
func reported(name string) func(s *nodetest.Swarm) bool {
	return func(s *nodetest.Swarm) bool { return s.Planned(4) && s.SLs.Reported(name).GetDone().GetRound() == 4 }
}

// training reports whether all train for this round, and none is ready.
func training(round uint64, names ...string) func(s *nodetest.Swarm) bool {
	return func(s *nodetest.Swarm) bool {
		return s.Round() == round-1 && !slices.ContainsFunc(names, func(n string) bool { return s.SLs.Reported(n).GetReady() != nil })
	}
}

// fellows is a swarm of three SNs and three SLs of which two suffice.
var fellows = nodetest.Config{SNs: 3, SLs: 3, MinPeers: 2, Steps: 8, Think: think, Calm: calm}

// longer gives the programs more to do, so that who was away comes back in time.
func longer(c nodetest.Config) nodetest.Config { return steps(c, 30) }

func steps(c nodetest.Config, n int) nodetest.Config {
	c.Steps = n
	return c
}

// needed is the same where all are needed.
var needed = nodetest.Config{SNs: 3, SLs: 3, MinPeers: 3, Steps: 8, Think: think, Calm: calm}

// four is a swarm with one more SL, of which two suffice.
var four = nodetest.Config{SNs: 3, SLs: 4, MinPeers: 2, Steps: 8, Think: think, Calm: calm}

func (f fault) run(t *testing.T, s *nodetest.Swarm) {
	if f.before == nil {
		slowly(s, 50*time.Millisecond)
	} else {
		f.before(s)
	}
	if f.when == nil {
		f.when = during
	}
	s.Until("the moment", func() bool { return f.when(s) })
	round := s.Round()
	struck := time.Now()
	f.strike(s)
	began := struck
	if f.explain > 0 {
		explained(t, s, f.explanation(t, s, struck.Add(f.explain)))
	}
	if f.blocks {
		sleepUntil(struck.Add(f.lasts))
		if got := s.Round(); got > round {
			t.Errorf("round %d was committed while the fault lasted", got)
		}
		f.mend(s)
		began = time.Now()
	}
	next := f.next(t, s, round, began)
	if f.with != nil && !slices.Equal(next, f.with) {
		t.Errorf("round %d was committed with %v, want %v", round+1, next, f.with)
	}
	if f.mend != nil && !f.blocks {
		sleepUntil(struck.Add(f.lasts))
		f.mend(s)
	}
	if f.all == nil {
		f.all = three
	}
	agree(t, s, f.all...)
	if f.after != nil {
		f.after(t, s)
	}
}

// next waits for the commit after a round, holds it to its time and returns its participants.
func (f fault) next(t *testing.T, s *nodetest.Swarm, round uint64, began time.Time) []string {
	t.Helper()
	s.Until("the next round", func() bool { return s.Round() > round })
	for _, r := range s.Log.Rounds() {
		if r.Round != round+1 {
			continue
		}
		took := r.At.Sub(began).Round(time.Millisecond)
		t.Logf("next commit after %s, bound %s", took, f.within)
		if took > f.within {
			t.Errorf("the next round was committed %s after the fault, want %s at most\n%s", took, f.within, s.Describe())
		}
		return names(r)
	}
	t.Errorf("round %d is not in the log", round+1)
	return nil
}

func names(r nodetest.Round) []string {
	var list []string
	for _, p := range r.Participants {
		list = append(list, p.Node)
	}
	slices.Sort(list)
	return list
}

// enrolled waits until this many SLs have a session: on slow links it takes seconds to get there.
func enrolled(s *nodetest.Swarm, n int) {
	s.Until("sessions", func() bool { c := s.View(nodetest.Contract); return c != nil && len(c.Sessions) == n })
}

// slowly makes exchanges take a while, so that something can happen during one.
func slowly(s *nodetest.Swarm, d time.Duration) {
	s.Network.Slow("sl-0", "sl-1", d)
	s.Network.Slow("sl-0", "sl-2", d)
	s.Network.Slow("sl-1", "sl-2", d)
}

// agree waits for the programs and holds that all ended well; End compares their final models.
func agree(t *testing.T, s *nodetest.Swarm, names ...string) {
	t.Helper()
	s.Wait(names...)
	for _, name := range names {
		if err := s.Run(name).Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func sleepUntil(at time.Time) { time.Sleep(time.Until(at)) }

// slug is a test's name as a file's.
func slug(t *testing.T) string {
	_, name, _ := strings.Cut(t.Name(), "/")
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r == '_', r == '-', r == '/':
			return '-'
		}
		return -1
	}, strings.ToLower(name))
}

func runFaults(t *testing.T, all []fault) {
	t.Helper()
	for _, f := range all {
		t.Run(f.name, func(t *testing.T) { history(t, f.cfg, f.run) })
	}
}
