package peering

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
)

// Part is what a host of tasks has started this node for. That is a lease, as the host's own right to carry it out: when no leader has said
// for task.LeaseMS that it is wanted, the node ends by itself. So nothing goes on whose host is dead and can't end it. A nil one has no end.
// It is safe for concurrent use.
type Part struct {
	part task.Part
	log  *slog.Logger

	mu       sync.Mutex
	began    time.Time
	wanted   time.Time // when a heartbeat was sent that was answered so; zero: none was answered yet
	finished bool
}

// leaseLook is how often a lease is looked at, which may have become shorter.
const leaseLook = 5 * time.Second

// firstLease is for how long a node may go on before a leader has answered a heartbeat of it: it has to get its identity and to register first.
const firstLease = 5 * time.Minute

// NewPart returns the lease of a part; nil for none.
func NewPart(p task.Part, log *slog.Logger) *Part {
	if p == (task.Part{}) {
		return nil
	}
	return &Part{part: p, log: log}
}

// String is the part as heartbeats have it; empty for none.
func (p *Part) String() string {
	if p == nil {
		return ""
	}
	return p.part.String()
}

// Words say what the node is a part of.
func (p *Part) Words() string {
	return fmt.Sprintf("a part of assignment %s on %s", p.part.Assignment, p.part.Host)
}

// Finish notes that what the node was started for is done.
func (p *Part) Finish() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished = true
}

// stopped is the error of a part that was stopped before it was done: its host would take a node that ended as asked for one that has succeeded.
func (p *Part) stopped() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finished {
		return nil
	}
	return fmt.Errorf("this node is %s, and %s", p.Words(), task.PartStopped)
}

// heard takes what a leader has answered to a heartbeat.
func (p *Part) heard(sent time.Time, wanted bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !wanted {
		sent = p.began // as if it had been wanted then: the first lease is no longer than others
	}
	if sent.After(p.wanted) {
		p.wanted = sent
	}
}

// ends is when the lease is over, unless it is renewed.
func (p *Part) ends() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted.IsZero() {
		return p.began.Add(firstLease)
	}
	return p.wanted.Add(task.LeaseMS * time.Millisecond)
}

// Within runs a node, whose context ends with the lease, and returns what it returns. That the lease has ended it is an error, and so is that it
// was stopped before Finish was called.
func (p *Part) Within(ctx context.Context, run func(ctx context.Context) (int, error)) (int, error) {
	if p == nil {
		return run(ctx)
	}
	p.mu.Lock()
	p.began = time.Now()
	p.mu.Unlock()
	asked := ctx
	ctx, cancel := context.WithCancelCause(asked)
	over := fmt.Errorf("this node is %s, and for %v no leader of the swarm has said that it is to go on", p.Words(), task.LeaseMS*time.Millisecond)
	var watch sync.WaitGroup
	watch.Go(func() {
		for left := time.Until(p.ends()); left > 0; left = time.Until(p.ends()) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(min(left, leaseLook)):
			}
		}
		p.log.Warn("ends, since nobody wants it any more", "assignment", p.part.Assignment, "host", p.part.Host)
		cancel(over)
	})
	code, err := run(ctx)
	cancel(nil)
	watch.Wait()
	switch {
	case context.Cause(ctx) == over: //nolint:errorlint // that very one
		err = over
	case asked.Err() != nil && err == nil:
		err = p.stopped()
	}
	return code, err
}
