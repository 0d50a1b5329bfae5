package membership

import (
	"context"
	"errors"
	"time"

	"github.com/swarmd/swarmd/consensus"
)

// askQuorum is how often an SN that has not joined again asks whether it can.
const askQuorum = 5 * time.Second

// AwaitService waits until this SN has entered its swarm, or, as one of its members, finds that too few of the others are there: then its API
// says that instead of being silent. False means that ctx has ended.
func AwaitService(ctx context.Context, group *consensus.Group, entered <-chan struct{}) bool {
	ticker := time.NewTicker(askQuorum)
	defer ticker.Stop()
	for {
		select {
		case <-entered:
			return true
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
		if group.HasState() && group.Quorum(ctx) != nil {
			return true
		}
	}
}

// Run runs a raft group and keeps why that ended.
type Run struct {
	run  func(ctx context.Context) error
	over chan struct{} // closed once err is set
	err  error
}

// NewRun returns the run of a group whose Run this is.
func NewRun(run func(ctx context.Context) error) *Run {
	return &Run{run: run, over: make(chan struct{})}
}

// Run runs the group until ctx ends or it fails. It is called once.
func (l *Run) Run(ctx context.Context) error {
	l.err = l.run(ctx)
	close(l.over)
	return l.err
}

// Cause is why consensus has ended, if err is only that it did: the first error of a node's parts is its last word, and a full disk is
// more than that.
func (l *Run) Cause(err error) error {
	if !errors.Is(err, consensus.ErrShutdown) {
		return err
	}
	<-l.over // it has begun to end
	if l.err != nil {
		return l.err
	}
	return err
}
