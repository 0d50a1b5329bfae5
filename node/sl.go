package node

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/admission"
	"github.com/swarmd/swarmd/internal/bridge"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/membership"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/peering"
	"github.com/swarmd/swarmd/internal/probe"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/runner"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/internal/trust"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// errProgramEnded stops an SL's tasks when its work is done.
var errProgramEnded = errors.New("the program has ended")

// theirTurn is how long an SL that another's host refuses waits for that one's connection: it begins to dial a second later at most.
const theirTurn = 2 * time.Second

// run runs an SL and its program until the program has ended and no other node needs this one, or ctx ends. It returns the program's
// exit code.
func (cfg SLConfig) run(ctx context.Context, deps Deps) (int, error) {
	ips, err := address.Lookup(deps.Lookup).Resolve(ctx, "host-ip", cfg.Host)
	if err != nil {
		return 1, err
	}
	bind := address.Bindable(ips)
	if err := address.Listen(deps.Listen).CheckFree(ctx, bind, "sl-fs-port", cfg.FSPort); err != nil {
		return 1, err
	}
	if cfg.SpillDir == "" {
		cfg.SpillDir = filepath.Join(cfg.StateDir, "bridge-slots")
	}
	s := &sl{cfg: cfg}
	s.runner, err = runner.New(ctx, runner.Config{
		Spec: cfg.Spec, Node: cfg.Name, StateDir: cfg.StateDir, Log: cfg.Log, Containers: deps.Containers, Start: deps.StartProcess,
	})
	if err != nil {
		return 1, err
	}
	defer s.runner.Close()
	s.runner.Sweep(cfg.modelsDir(), cfg.scratchDir())
	b, err := openBase(ctx, cfg.Common, deps, identity.RoleSL)
	if err != nil {
		if err = quiet(ctx, err); err == nil {
			return 0, nil // stopped as asked while it waited: there was nothing to end
		}
		return 1, err
	}
	defer b.close()
	bans := &admission.Bans{}
	host, err := b.deps.OpenHost(p2p.Config{
		Key: b.key, Source: b.source, Domains: b.domains, SwarmID: b.swarm.Named, Log: cfg.Log, ListenAddrs: []string{address.Join(bind, cfg.FSPort)},
		Refuse: bans.Refuse, TheirTurn: theirTurn,
	})
	if err != nil {
		return 1, err
	}
	defer host.Close()
	bans.Cut = admission.CutFrom(host)
	s.base, s.leaving, s.host, s.bans = b, membership.Leaving{Log: cfg.Log}, host, bans
	err = quiet(ctx, s.run(ctx))
	if ctx.Err() != nil {
		cfg.Log.Info("stopped as asked", "node", cfg.Name, "exit_code", s.code)
	}
	return s.code, err
}

type sl struct {
	cfg     SLConfig
	base    *base
	host    p2p.Network
	bans    *admission.Bans
	runner  *runner.Runner
	code    int
	leaving membership.Leaving
}

// run registers, trains and leaves the swarm.
func (s *sl) run(ctx context.Context) error {
	api, err := s.base.register(ctx, s.cfg.SNs, client.NodeInfo{Role: identity.RoleSL, FSPort: uint32(s.cfg.FSPort), Runtime: s.runner.Runtime()}) //nolint:gosec // checked port
	if err != nil {
		if ctx.Err() != nil {
			s.runner.Abandon(ctx)
		}
		return err
	}
	defer api.Close()
	s.cfg.Log.Debug("means are summed", "kernel", merge.Kernel())
	err = s.train(ctx, api)
	reason := "training is over"
	if err != nil {
		reason = "failed: " + runner.Reason(err)
	}
	s.leaving.Leave(ctx, api, reason)
	return err
}

// train runs the node's parts until the program has ended and nobody needs this node any more, or ctx ends.
func (s *sl) train(ctx context.Context, api *client.Client) error {
	hub := exchange.NewHub(peering.HubConfig(s.base.key))
	defer hub.Close()
	s.runner.Join(ctx, api)
	settled, same := s.runner.Settled(ctx, api)
	if same {
		s.runner.EndOrphans(ctx, api, "", true)
		s.runner.SayFinished(settled)
		s.cfg.Part.Finish()
		return nil
	}
	p, err := s.build(api, hub, settled)
	if err != nil {
		return err
	}
	finished, err := s.runner.Resume(ctx, api, p.engine, p.bridge)
	defer p.bridge.Release() // if it never came to run
	if err != nil {
		return err
	}
	peering.Serve(peering.Links{Host: s.host, Guard: p.guard}, hub, p.engine, &admission.Releases{
		API: api, Key: s.base.key, Node: s.cfg.Name, SwarmID: s.base.swarm.SwarmID,
	}, s.cfg.Log)
	// The parts outlive the wish to stop: the program needs them to end, and the contract is told.
	tasks, work := errgroup.WithContext(context.WithoutCancel(ctx))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(work, cancel)() // without its parts no program goes on
	p.probes.Serve()
	tasks.Go(func() error { return p.engine.Run(work) })
	tasks.Go(func() error { return p.ways.Run(work, p.engine) })
	tasks.Go(func() error { return p.probes.Run(work) })
	tasks.Go(func() error { return p.logs.Run(work) })
	tasks.Go(func() error {
		select { // a program that has waited for this daemon calls at once
		case <-p.engine.Running():
			return p.bridge.Run(work)
		case <-work.Done():
			return nil
		}
	})
	tasks.Go(func() error {
		select { // the program must find the socket
		case <-p.bridge.Ready():
		case <-work.Done():
			return nil
		}
		s.base.health.Ready()
		if finished {
			s.cfg.Part.Finish()
			s.runner.Stay(ctx, p.engine)
			return errProgramEnded
		}
		if err := s.runProgram(ctx, p); err != nil {
			return err
		}
		return errProgramEnded
	})
	if err := tasks.Wait(); !errors.Is(err, errProgramEnded) {
		return err
	}
	return nil
}

// runProgram runs the program to its end, or to ctx's, which ends its session too.
func (s *sl) runProgram(ctx context.Context, p *parts) (err error) {
	s.code, err = s.runner.Run(ctx, p.engine)
	if err == nil {
		s.cfg.Part.Finish()
	}
	outcome, _ := p.engine.Outcome()
	if ctx.Err() != nil {
		s.endSession(ctx, p.engine)
	}
	s.runner.Note(outcome, s.code, ctx.Err() != nil)
	return err
}

// endSession ends the session of a node that is stopped, so that nobody waits for it.
func (s *sl) endSession(ctx context.Context, engine *session.Engine) {
	ctx, cancel := s.leaving.Context(ctx)
	defer cancel()
	if err := engine.Leave(ctx, membership.Stopped); err != nil {
		s.cfg.Log.Warn("could not tell the contract that this node was stopped", "err", err)
	}
}

// parts are what a node consists of beside its host.
type parts struct {
	engine *session.Engine
	bridge runner.Bridge
	guard  *trust.Guard
	ways   *peering.Ways
	probes *probe.Agent
	logs   *logs.Host
}

// build makes the bridge and the engine, each of which needs the other. settled is the contract whose last training this node has
// finished with another program.
func (s *sl) build(api *client.Client, hub *exchange.Hub, settled string) (*parts, error) {
	p := &parts{guard: peering.NewGuard(api, s.base.source, s.base.domains, s.cfg.AllowPeers, s.cfg.Log)}
	p.ways = &peering.Ways{Links: peering.Links{Host: s.host, Guard: p.guard}, Self: s.cfg.Name, Log: s.cfg.Log}
	known := peering.Known{SNs: api.SNs, ListNodes: api.ListNodes, View: func() *round.View { return p.engine.View() }, Guard: p.guard}
	p.probes = s.base.prober(s.host, identity.RoleSL, probe.Config{
		Allow: p.guard.Allowed, Known: known.Targets, Busy: func() string { return peering.Merging(p.engine.View()) },
	})
	var err error
	if p.logs, err = s.base.logHost(api.SendLogs); err != nil {
		return nil, err
	}
	control := peering.Control{
		Client: api, Health: s.base.health, Bans: s.bans, Ways: p.ways, Probes: p.probes, Logs: p.logs.Take, Back: &peering.DialledBack{Log: s.cfg.Log}, Part: s.cfg.Part,
	}
	config := session.Config{
		ModelDir: s.cfg.modelsDir(),
		// What has no name lies beside the weight files, in memory if it fits; a program could see the rest there.
		SpoolDir: s.cfg.BridgeDir, ScratchDir: s.cfg.scratchDir(),
		Peer: s.cfg.Name, Control: control, Explainer: control, Log: s.cfg.Log, ExpectedPeers: uint32(s.cfg.ExpectedPeers), //nolint:gosec // small
		CheckinDefault: s.cfg.CheckinDefault,
		Exchange:       s.base.metrics.Exchange(&peering.Exchanger{Hub: hub, Network: peering.Links{Host: s.host, Guard: p.guard}, Key: s.base.key, Peer: s.cfg.Name}),
		NewSlots:       func(n int64) (models.Slots, error) { return p.bridge.CreateSlots(n) },
		OpenSlots: func(n int64, local, committed string) (models.Slots, error) {
			return p.bridge.OpenSlots(n, local, committed)
		},
		Swarm:     func() string { return s.base.swarm.Epoch().String() },
		Isolation: s.runner.Isolation(), Program: s.runner.Program, Journal: s.runner.Journal(), Timeouts: s.cfg.Timeouts, Trust: p.guard, Sign: s.base.key.Sign, Unreached: p.ways.Unreached, Compare: control.Compare, Settled: settled,
	}
	files := bridge.Config{Dir: s.cfg.BridgeDir, SpillDir: s.cfg.SpillDir, MaxModel: s.cfg.MaxModel, Log: s.cfg.Log}
	files.Owner, files.SpillAs = s.runner.Owner()
	p.engine = s.base.deps.NewEngine(config)
	handler := runner.Handler{Engine: p.engine, Peer: s.cfg.Name, Log: s.cfg.Log}
	files.Handler, files.Live, files.Gone = s.base.metrics.Program(handler, p.engine), p.engine.Live, s.runner.Gone(handler)
	files.Status = func() map[string]any {
		st := p.engine.Status()
		if lost := api.NoQuorum(); lost != "" {
			st["waiting"] = lost
		}
		return st
	}
	p.bridge, err = s.base.deps.OpenBridge(files)
	return p, err
}

// modelsDir keeps committed models.
func (cfg SLConfig) modelsDir() string { return filepath.Join(cfg.StateDir, "models") }

// scratchDir keeps what methods need beside the weight files.
func (cfg SLConfig) scratchDir() string { return filepath.Join(cfg.StateDir, "scratch") }
