// Package quorum counts how many voters of a raft group answer, and says in words what follows when they are too few.
package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

var (
	// ErrNoLeader is returned when the context ended while no leader could be reached: an election is under way, or there is no
	// quorum.
	ErrNoLeader = errors.New("no leader yet")
	// ErrLost is matched by an [Error] that counts fewer voters than a majority. It is an ErrNoLeader too.
	ErrLost = errors.New("no quorum")
)

// Voter is a voting server.
type Voter struct {
	Name    string
	ID      string // by which it is asked
	Address string // HOST:PORT at which the other servers reach it
}

// String is the voter as users see it.
func (v Voter) String() string { return fmt.Sprintf("%s (%s)", v.Name, v.Address) }

// Count is which voters answer one server, and which do not, each in the order in which they were named.
type Count struct{ Answer, Missing []Voter }

// Voters is how many there are.
func (c Count) Voters() int { return len(c.Answer) + len(c.Missing) }

// Majority reports whether those that answer can elect a leader.
func (c Count) Majority() bool { return len(c.Answer) > c.Voters()/2 }

// Poll asks all voters at once until ctx ends.
func Poll(ctx context.Context, voters []Voter, ask func(context.Context, Voter) error) Count {
	answers := make([]bool, len(voters))
	var asked sync.WaitGroup
	for i, v := range voters {
		asked.Go(func() { answers[i] = ask(ctx, v) == nil })
	}
	asked.Wait()
	var c Count
	for i, v := range voters {
		if answers[i] {
			c.Answer = append(c.Answer, v)
		} else {
			c.Missing = append(c.Missing, v)
		}
	}
	return c
}

// Error says that there is no leader, and how many voters answer the server that says it. It wraps [ErrNoLeader].
type Error struct {
	Count
	LeaderSeen time.Time // when that server last had to do with a leader; zero: not since it started
}

// Error is one line.
func (e *Error) Error() string {
	what := ErrLost
	if e.Majority() {
		what = ErrNoLeader
	}
	return fmt.Sprintf("%v: %d of %d SNs answer", what, len(e.Answer), e.Voters())
}

// Unwrap returns ErrNoLeader, and ErrLost where those that answer are no majority.
func (e *Error) Unwrap() []error {
	if e.Majority() {
		return []error{ErrNoLeader}
	}
	return []error{ErrLost, ErrNoLeader}
}

// Remedy is one line: which voters do not answer, and what to do about it.
func (e *Error) Remedy() string {
	if e.Majority() {
		return "wait for the election; if it lasts see the SNs' logs"
	}
	var names []string
	for _, v := range e.Missing {
		names = append(names, v.String())
	}
	start := "start " + strings.Join(names, " and ")
	if need := e.Voters()/2 + 1 - len(e.Answer); need == 1 && len(names) > 1 {
		start = "start one of " + strings.Join(names, ", ")
	} else if need < len(names) {
		start = fmt.Sprintf("start %d of %s", need, strings.Join(names, ", "))
	}
	return start + ", or mend the network to them; if most SNs are gone for good stop one that is left, and as an operator on its host: " +
		"swarmd recover-sn --state-dir DIR --i-understand-that-the-others-are-gone (docs/operations/lost.md)"
}

// Poller has callers share polls: many may wait while there is no leader. Safe for concurrent use.
type Poller struct {
	poll  func() Count
	fresh time.Duration

	mu      sync.Mutex
	running chan struct{} // closed when the poll that runs has ended; nil: none does
	last    Count
	at      time.Time // when last was taken
}

// NewPoller returns a poller that calls poll, which must end by itself, again when the newest count is older than fresh.
func NewPoller(fresh time.Duration, poll func() Count) *Poller {
	return &Poller{poll: poll, fresh: fresh}
}

// Count returns a count that is no older than the poller's bound. The error is the context's.
func (p *Poller) Count(ctx context.Context) (Count, error) {
	for {
		p.mu.Lock()
		if !p.at.IsZero() && time.Since(p.at) < p.fresh {
			defer p.mu.Unlock()
			return p.last, nil
		}
		if p.running == nil {
			p.running = make(chan struct{})
			go p.run(p.running)
		}
		running := p.running
		p.mu.Unlock()
		select {
		case <-running:
		case <-ctx.Done():
			return Count{}, ctx.Err()
		}
	}
}

func (p *Poller) run(ended chan struct{}) {
	c := p.poll()
	p.mu.Lock()
	p.last, p.at, p.running = c, time.Now(), nil
	p.mu.Unlock()
	close(ended)
}
