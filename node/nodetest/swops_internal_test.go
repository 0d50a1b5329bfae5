package nodetest

import (
	"context"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/policy"
	hosting "github.com/swarmd/swarmd/internal/swop"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/node"
)

// SWOPs are the hosts of a swarm's tasks: all of them is the product's but for what stands on their machines.
type SWOPs struct {
	swarm *Swarm
	all   []*swop
}

// swop is an operator node. Its machine and its state directory survive its runs; what is below host is one of them.
type swop struct {
	swarm   *Swarm
	id      nodeID
	machine *Machine
	offer   task.Offer
	policy  func(domain string) (*policy.Policy, error)
	state   stateDir
	tasks   sync.WaitGroup

	host   *host
	cancel context.CancelFunc // nil: it does not run
	killed *bool              // guarded by the machine's mu
	since  time.Time          // when it was started after it was killed; zero: it never was
}

// NewSWOPs returns none, in a swarm. Those that are added are stopped when the test ends, before the SNs.
func NewSWOPs(s *Swarm) *SWOPs {
	ns := &SWOPs{swarm: s}
	s.t.Cleanup(ns.end)
	return ns
}

// Add starts one more, swop-0 first, which takes the tasks of a taskrunner as its owner says.
func (ns *SWOPs) Add(taskrunner string, owner func(domain string) (*policy.Policy, error)) (name string) {
	ns.swarm.t.Helper()
	i := len(ns.all)
	n := &swop{swarm: ns.swarm, id: ns.swarm.identity(naming.RoleSWOP, i), machine: newMachine(uint64(i)), offer: task.Offer{Taskrunner: taskrunner, Peers: 1, Jobs: task.JobsInContainers}, policy: owner} //nolint:gosec // small
	ns.all = append(ns.all, n)
	ns.swarm.must(n.start())
	return n.id.name
}

// start begins a run of the process.
func (n *swop) start() error {
	if err := n.state.next(n.id, true); err != nil {
		return err
	}
	n.host, n.killed = n.swarm.Network.attach(n.id), new(bool)
	cfg := node.SWOPConfig{Common: common(n.id, n.swarm.logger.With("on", n.id.name)), Offer: n.offer, Policy: n.policy, Runtime: "docker", Place: hosting.Place{Profile: &taskfile.Profile{}}}
	cfg.StateDir, cfg.SwarmID = n.state.path, SwarmID
	for _, sn := range n.swarm.SNs.all {
		cfg.SNs = append(cfg.SNs, net.JoinHostPort(sn.id.name, strconv.Itoa(portAPI)))
	}
	runs, pulls := hands{n.machine, false, n.killed}, hands{newMachine(uint64(n.id.index)), true, n.killed} //nolint:gosec // small
	cfg.Types = func(hosting.Given) map[string]work.Type {
		return map[string]work.Type{task.RunSwarm: {Executor: runs}, task.RunJob: {Executor: runs}, task.PullImage: {Executor: pulls, Repeats: true}}
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	host, deps := n.host, memoryDeps(n.swarm, n.id, n.host)
	n.tasks.Go(func() {
		_, err := node.New(cfg, deps).Run(ctx)
		cfg.Log.Debug("the SWOP has ended", "err", err)
		host.detach()
		if ctx.Err() == nil {
			n.swarm.t.Errorf("%s gave up: %v", n.id.name, err)
		}
	})
	return nil
}

// Kill ends processes as SIGKILL does: what stands on their machines stays.
func (ns *SWOPs) Kill(names ...string) {
	ns.swarm.t.Helper()
	for _, name := range names {
		ns.swop(name).kill()
	}
}

func (n *swop) kill() {
	if n.cancel == nil {
		return
	}
	n.machine.mu.Lock()
	*n.killed = true
	n.machine.mu.Unlock()
	n.host.detach()
	n.swarm.must(n.state.keep(n.id))
	n.cancel()
	n.cancel = nil
}

// Start begins the next run of one that was killed.
func (ns *SWOPs) Start(name string) {
	ns.swarm.t.Helper()
	n := ns.swop(name)
	n.since = time.Now()
	ns.swarm.must(n.start())
}

// Up reports whether a process runs, and has done so for this long if it was killed before.
func (ns *SWOPs) Up(name string, long time.Duration) bool {
	n := ns.swop(name)
	return n.cancel != nil && time.Since(n.since) >= long
}

// Machine is what stands on a host.
func (ns *SWOPs) Machine(name string) *Machine { return ns.swop(name).machine }

func (ns *SWOPs) swop(name string) *swop {
	for _, n := range ns.all {
		if n.id.name == name {
			return n
		}
	}
	return nil
}

// end stops all in order, and waits for them.
func (ns *SWOPs) end() {
	for _, n := range ns.all {
		if n.cancel != nil {
			n.cancel()
			n.cancel = nil
		}
	}
	for _, n := range ns.all {
		n.tasks.Wait()
		for _, fault := range n.machine.faults {
			ns.swarm.t.Errorf("on %s: %s", n.id.name, fault)
		}
	}
}

// Board is all of tasks and assignments, as the running SN with the newest state sees it.
func (s *Swarm) Board() *task.Board {
	var best *sn
	for _, n := range s.SNs.all {
		if n.up() && (best == nil || n.group.Index() > best.group.Index()) {
			best = n
		}
	}
	if best == nil {
		return (&task.Board{}).Bare()
	}
	return best.group.View().Tasks.Whole()
}
