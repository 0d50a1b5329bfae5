package nodetest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/swarmd/swarmd/internal/bridge"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/runner"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/node"
	"github.com/swarmd/swarmd/node/nodetest/slots"
)

// sl is a Swarm Learning node. What is below host is one run of its daemon.
type sl struct {
	swarm *Swarm
	id    nodeID

	entry entry // to the daemon that serves
	tasks sync.WaitGroup
	state stateDir

	host   *host
	cancel context.CancelFunc

	mu       sync.Mutex // guards what follows
	program  *program   // in a container; nil: it dies with the daemon
	engine   *session.Engine
	slots    *slots.Slots // of the newest session
	disk     *slots.Disk  // of all runs' slots
	reported *round.Report
	runs     []*Run   // of the program, oldest first
	refused  []string // why merge streams were turned away, oldest first
}

// start begins a run of the daemon.
func (n *sl) start() error {
	if err := n.state.next(n.id, n.swarm.cfg.Containers); err != nil {
		return err
	}
	n.host = n.swarm.Network.attach(n.id)
	host, run := n.host, nextRun(n)
	log := slog.New(refusalLog{n.swarm.logger.With("on", n.id.name).Handler(), n})
	cfg := node.SLConfig{
		Common: common(n.id, log),
		Spec: runner.Spec{
			Program: "program", Platform: "PYT", BridgeDir: filepath.Join(n.id.dir, "bridge"), Linger: 10 * time.Minute, Stdout: io.Discard,
		},
		SNs: []string{ownSN(n.swarm, n.id)}, FSPort: portFS, ExpectedPeers: n.swarm.cfg.ExpectedPeers, AllowPeers: n.swarm.cfg.AllowPeers[n.id.name],
		CheckinDefault: n.swarm.cfg.CheckinDefault,
	}
	cfg.StateDir, cfg.SwarmID = n.state.path, SwarmID
	if n.swarm.cfg.Containers {
		cfg.ML = &container.Spec{Image: "memory"}
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	n.tasks.Go(func() {
		_, err := node.New(cfg, n.deps(ctx, run)).Run(ctx)
		log.Debug("the SL has ended", "err", err)
		if run != nil && n.inContainer() != run { // it was never started, or is no more
			run.finish(cmp.Or(err, errLeft))
		}
		if ctx.Err() == nil {
			host.detach() // it has exited
		}
	})
	return nil
}

// deps are what a run of the daemon gets. run is the program's run that it starts, nil if it is to find one.
func (n *sl) deps(ctx context.Context, run *Run) node.Deps {
	d := memoryDeps(n.swarm, n.id, n.host)
	d.NewEngine = func(cfg session.Config) *session.Engine {
		cfg.Control = control{cfg.Control, n}
		cfg.Exchange = deceiver{cfg.Exchange, n.swarm.Liars, n.id.name, n.id.key}
		e := session.New(cfg)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.engine = e
		return e
	}
	d.OpenBridge = func(cfg bridge.Config) (runner.Bridge, error) {
		return &memoryBridge{sl: n, daemon: &daemon{cfg.Handler, ctx}, ready: make(chan struct{})}, nil
	}
	d.StartProcess = func(ctx context.Context) (runner.Running, error) { return n.startProcess(ctx, run), nil }
	d.Containers = func(context.Context, *slog.Logger) (runner.Containers, error) { return containers{n, run}, nil }
	return d
}

// errLeft is the end of a program whose daemon was ended.
var errLeft = errors.New("the daemon has ended")

// end ends this run of the daemon as a crash does: nothing that it does from now on is seen by anybody, or found on its disk.
func (n *sl) end() {
	if n.cancel == nil {
		return
	}
	n.host.detach()
	if n.swarm.cfg.Containers {
		n.swarm.must(n.state.keep(n.id))
	}
	n.entry.leave(nil)
	n.cancel()
	n.cancel = nil
	n.disk.Hang(false)
}

// nextRun is the run of the program that this run of the daemon will start; nil if it finds its program running, or its end.
func nextRun(n *sl) *Run {
	if p := n.contained(); p != nil && session.OpenJournal(filepath.Join(n.state.path, "session.json"), slog.New(slog.DiscardHandler)).Record().Incarnation == p.incarnation {
		return nil
	}
	run := newRun(n, n.swarm.program(n.id.index))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.runs = append(n.runs, run)
	return run
}

// contained is the program in its container, nil if there is none.
func (n *sl) contained() *program {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.program
}

// inContainer is the run of the program in its container, nil if there is none.
func (n *sl) inContainer() *Run {
	if p := n.contained(); p != nil {
		return p.run
	}
	return nil
}

func (n *sl) contain(p *program) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.program = p
}

// up reports whether the node runs.
func (n *sl) up() bool { return n.cancel != nil && !n.host.isGone() }

func (n *sl) newSlots(size int64) (models.Slots, error) {
	s := slots.New(size, n.disk)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slots = s
	return s, nil
}

// last returns the newest run of the program, nil before the first.
func (n *sl) last() *Run {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.runs) == 0 {
		return nil
	}
	return n.runs[len(n.runs)-1]
}

// engineNow is the engine of the newest run of the daemon, nil before the first.
func (n *sl) engineNow() *session.Engine {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.engine
}

// control notes what the swarm was told.
type control struct {
	session.Control
	sl *sl
}

// Report implements session.Control.
func (c control) Report(ctx context.Context, r *round.Report) (round.Answer, error) {
	r = c.sl.slander(r)
	res, err := c.Control.Report(ctx, r)
	if err == nil && r.Session != "" {
		c.sl.mu.Lock()
		c.sl.reported = r
		c.sl.mu.Unlock()
	}
	return res, err
}

// ownSN is the API that a node begins with, as a user would configure it.
func ownSN(s *Swarm, id nodeID) string {
	return net.JoinHostPort(s.SNs.all[id.index%len(s.SNs.all)].id.name, strconv.Itoa(portAPI))
}

// client makes a client of the API for a host.
func (s *Swarm) client(id nodeID, h *host) (*client.Client, error) {
	domains, err := s.authority.Domains()
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{
		SNs: []string{ownSN(s, id)}, SwarmID: SwarmID, Source: id.source, Domains: domains, Log: s.logger.With("client", id.name), Dial: h.dialAPI,
	})
	if err == nil {
		s.clients = append(s.clients, c)
	}
	return c, err
}
