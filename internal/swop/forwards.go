package swop

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/forward"
	"github.com/swarmd/swarmd/internal/work"
)

// Forwards connects operators to ports of members of jobs that run here.
type Forwards struct {
	Node    string
	SwarmID func() string
	View    work.Swarm
	Host    Reports
	Types   map[string]work.Type
}

// Reports are what a host says of its members.
type Reports interface {
	Report() []task.MemberReport
	// News returns a channel that is closed at the next change of Report.
	News() <-chan struct{}
}

// reachLimit bounds how long it takes to connect to a member.
const reachLimit = 5 * time.Second

// Dial connects to a port of a member, until that ends or ctx does.
func (f Forwards) Dial(ctx context.Context, to forward.Target) (forward.Half, error) {
	if !f.runs(to) {
		return nil, fmt.Errorf("a member of assignment %s: %w here now; see swarmctl get job status JOB", to.Assignment, forward.ErrGone)
	}
	reacher, is := f.Types[task.RunJob].Executor.(work.Reacher)
	if !is {
		return nil, fmt.Errorf("%s carries out no jobs: see swarmctl get job status JOB for the hosts that do", f.Node)
	}
	reaching, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	c, err := reacher.Connect(reaching, work.Label{Swarm: f.SwarmID(), Node: f.Node, Assignment: to.Assignment, Epoch: to.Epoch, Member: to.Member}, to.Port)
	if err != nil {
		return nil, err
	}
	go func() {
		f.outlive(ctx, to)
		_ = c.Close()
	}()
	return c, nil
}

// outlive waits until a member runs no more, or ctx ends.
func (f Forwards) outlive(ctx context.Context, to forward.Target) {
	for {
		shown, said := f.View.Changed(), f.Host.News()
		if !f.runs(to) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-shown:
		case <-said:
		}
	}
}

// runs reports whether a member of a job runs here and may go on: this host says that it has started, and the swarm has not ended it.
func (f Forwards) runs(to forward.Target) bool {
	all, _ := f.View.Hosted()
	wanted := slices.ContainsFunc(all, func(h task.Hosted) bool {
		return h.ID == to.Assignment && h.Epoch == to.Epoch && slices.ContainsFunc(h.Members, func(m task.HostedMember) bool { return m.Index == to.Member && !m.Stop })
	})
	return wanted && slices.ContainsFunc(f.Host.Report(), func(r task.MemberReport) bool {
		return r.Assignment == to.Assignment && r.Epoch == to.Epoch && r.Member == to.Member && (r.State == task.Started || r.State == task.Ready)
	})
}

// users asks the swarm for the rights of operators to connections.
type users struct {
	check func(ctx context.Context, assignment, by string) error
}

// deny says why the swarm's rights keep an operator from members of an assignment; empty: they do not. An error says that no SN could tell.
func (u users) deny(ctx context.Context, by, assignment string) (denied string, err error) {
	ctx, cancel := context.WithTimeout(ctx, rightsLimit)
	defer cancel()
	err = u.check(ctx, assignment, by)
	if client.Reason(err) == string(state.ReasonNoRight) {
		return err.Error(), nil
	}
	return "", err
}

// forwardTo serves connections of operators to members.
func (f *FileServer) forwardTo(members Forwards, api client.Host, cfg Config) {
	if f.network == nil {
		return
	}
	forward.ServeMembers(f.network, forward.Config{Node: cfg.Name, Allow: cfg.Policy.ForwardsTo, Rights: users{api.CheckForward}.deny, Dial: members.Dial, Log: cfg.Log})
}
