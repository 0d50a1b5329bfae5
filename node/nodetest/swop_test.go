package nodetest_test

import (
	"context"
	"sync"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/node/nodetest"
)

// part names what a host carries out, as a label does.
type part struct {
	id     string
	epoch  uint32
	member uint32
}

// work is what a host carries out: it prepares, starts and exits, two seconds each.
type work struct {
	state task.State
	since time.Time
}

// swop is a host of tasks, as far as the swarm can tell: it sees what is committed, acts on it, and repeats its report with each heartbeat.
// Nothing of it outlives a crash.
type swop struct {
	guest  nodetest.Guest
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu    sync.Mutex // guards what follows
	seen  []task.Hosted
	has   map[part]*work
	begun map[part]int // how often something was started
	err   error        // why it gave up
}

// listen starts a host of the default taskrunner.
func listen(s *nodetest.Swarm, i int) *swop {
	w := &swop{guest: s.Guest(naming.RoleSWOP, i), has: map[part]*work{}, begun: map[part]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.tasks.Go(func() {
		err := w.guest.Register(ctx, client.Registration{Key: w.guest.Key, Node: client.NodeInfo{
			Name: w.guest.Name, Role: naming.RoleSWOP, Host: w.guest.Name, Offer: &task.Offer{Taskrunner: task.DefaultTaskrunner, Peers: 2},
		}})
		if err != nil {
			w.give(ctx, err)
			return
		}
		w.tasks.Go(func() { w.give(ctx, client.Host{Client: w.guest.Client}.WatchAssignments(ctx, w.see)) })
		w.give(ctx, w.beat(ctx))
	})
	return w
}

func (w *swop) give(ctx context.Context, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() == nil && w.err == nil {
		w.err = err
	}
}

// end ends the host as a crash does.
func (w *swop) end() {
	w.guest.Cut()
	w.cancel()
	w.tasks.Wait()
	clear(w.has)
}

func (w *swop) see(all []task.Hosted) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = all
	return nil
}

// beat reports once a second. What it hasn't been able to report for its lease it drops.
func (w *swop) beat(ctx context.Context) error {
	heard := time.Now()
	for ctx.Err() == nil {
		_, err := client.Host{Client: w.guest.Client}.Report(ctx, &swarmv1.ReportRequest{}, w.reconcile())
		if err != nil {
			return err
		}
		if time.Since(heard) >= task.LeaseMS*time.Millisecond {
			w.mu.Lock()
			clear(w.has)
			w.mu.Unlock()
		}
		heard = time.Now()
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

// reconcile compares what it has seen with what there is, and returns what it says.
func (w *swop) reconcile() (said []task.MemberReport) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wanted := map[part]bool{}
	for _, h := range w.seen {
		for _, m := range h.Members {
			p := part{h.ID, h.Epoch, m.Index}
			r := task.Report{Member: m.Index, Node: w.guest.Name, State: w.goOn(p, m)}
			switch r.State {
			case task.Exited, task.Stopped:
				r.Cleaned = true
				if w.has[p] == nil && r.State == task.Exited {
					r.Code, r.Text = -1, "it is gone: its host was restarted"
				}
			default:
			}
			wanted[p] = true
			said = append(said, task.MemberReport{Assignment: h.ID, Epoch: h.Epoch, Report: r})
		}
	}
	for p := range w.has {
		if !wanted[p] {
			delete(w.has, p)
		}
	}
	return said
}

// goOn has a member do what it may, and returns its state.
func (w *swop) goOn(p part, m task.HostedMember) task.State {
	x := w.has[p]
	switch {
	case x == nil && m.Stop:
		return task.Stopped
	case x == nil && m.State != task.Placed:
		return task.Exited
	case x == nil:
		x = &work{task.Asked, time.Now()}
		w.has[p] = x
	case x.state == task.Exited:
	case m.Stop:
		delete(w.has, p)
		return task.Stopped
	case time.Since(x.since) < 2*time.Second:
	case x.state == task.Asked:
		*x = work{task.Prepared, time.Now()}
	case x.state == task.Prepared && m.Start:
		w.begun[p]++
		*x = work{task.Started, time.Now()}
	case x.state == task.Started:
		*x = work{task.Exited, time.Now()}
	}
	return x.state
}
