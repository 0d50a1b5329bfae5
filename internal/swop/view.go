package swop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/work"
)

// View is what the swarm has shown of a host last. It is safe for concurrent use.
type View struct {
	mu      sync.Mutex
	all     []task.Hosted
	known   bool
	changed chan struct{}
}

var _ work.Swarm = (*View)(nil)

// NewView returns a view before the first answer.
func NewView() *View { return &View{changed: make(chan struct{})} }

// Hosted implements work.Swarm.
func (v *View) Hosted() (all []task.Hosted, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.all), v.known
}

// Changed implements work.Swarm.
func (v *View) Changed() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed
}

// Take follows what the swarm shows.
func (v *View) Take(all []task.Hosted) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all, v.known = all, true
	close(v.changed)
	v.changed = make(chan struct{})
}

// Tasks gets tasks from the swarm.
type Tasks struct {
	// Get is the API's call.
	Get func(ctx context.Context, name string) (*swarmv1.GetTaskResponse, error)
}

var _ work.Tasks = Tasks{}

// Task implements work.Tasks. Whether it is the task that was meant is for the caller to prove, by its digest.
func (t Tasks) Task(ctx context.Context, name string) (*task.Task, error) {
	res, err := t.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	x := res.GetTask()
	if x == nil {
		return nil, errors.New("the SN answered without a task")
	}
	if n := len(res.GetDefinition()); n > task.MaxDefinition {
		return nil, fmt.Errorf("the SN's task has a definition of %d bytes, at most %d are allowed", n, task.MaxDefinition)
	}
	return &task.Task{
		Name: x.GetName(), Type: x.GetType(), Author: x.GetAuthor(), Prereq: x.GetPrereq(), Outcome: x.GetOutcome(), Definition: res.GetDefinition(),
		PrereqDigest: x.GetPrereqDigest(), Digest: x.GetDigest(), By: x.GetBy(), CreatedMS: x.GetCreatedUnixMs(), FinalisedMS: x.GetFinalisedUnixMs(),
	}, nil
}
