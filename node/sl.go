package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/bridge"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/runner"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/internal/trust"
	"github.com/swarmd/swarmd/merge/exchange"
)

// errProgramEnded stops an SL's tasks when its work is done.
var errProgramEnded = errors.New("the program has ended")

// run runs an SL and its program until the program has ended and no other node needs this one, or ctx ends. It returns the program's
// exit code.
func (cfg SLConfig) run(ctx context.Context, deps Deps) (int, error) {
	ips, err := lookup(deps.Lookup).resolve(ctx, "host-ip", cfg.Host)
	if err != nil {
		return 1, err
	}
	bind := bindHost(ips)
	if err := listen(deps.Listen).checkFree(ctx, bind, "sl-fs-port", cfg.FSPort); err != nil {
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
	s.sweep()
	b, err := openBase(ctx, cfg.Common, deps, identity.RoleSL)
	if err != nil {
		if err = quiet(ctx, err); err == nil {
			return 0, nil // stopped as asked while it waited: there was nothing to end
		}
		return 1, err
	}
	defer b.close()
	bans := &Bans{}
	host, err := deps.OpenHost(p2p.Config{
		Key: b.key, Source: b.source, Domains: b.domains, SwarmID: b.swarm.named, Log: cfg.Log, ListenAddrs: []string{join(bind, cfg.FSPort)},
		Refuse: bans.refuse,
	})
	if err != nil {
		return 1, err
	}
	defer host.Close()
	bans.Cut = cutFrom(host)
	s.base, s.host, s.bans = b, host, bans
	err = quiet(ctx, s.run(ctx))
	if ctx.Err() != nil {
		cfg.Log.Info("stopped as asked", "node", cfg.Name, "exit_code", s.code)
	}
	return s.code, err
}

type sl struct {
	cfg    SLConfig
	base   *base
	host   Host
	bans   *Bans
	runner *runner.Runner
	code   int
	goneBy time.Time // when the last words must be said, zero before the first
}

// sweep removes the weight files of a life that was killed, unless its program lives on and has them: whatever this life waits for, or
// dies of, before it has a bridge of its own. A model of which there is no copy on disk is copied first: if all SLs were killed at once,
// nobody has it else. What can't be done, Claim will say.
func (s *sl) sweep() {
	if s.runner.Keeps() {
		return
	}
	take := func(note string, f *os.File) {
		round, err := session.Salvage(s.cfg.modelsDir(), s.cfg.scratchDir(), note, f)
		if err != nil { // as a rule a round was being merged into it
			s.cfg.Log.Info("a weight file of this node's earlier life holds no whole model", "file", f.Name(), "err", err)
			return
		}
		s.cfg.Log.Info("the weight files of this node's earlier life hold a model; it is kept on disk", "round", round)
	}
	if err := bridge.Sweep(s.cfg.BridgeDir, s.cfg.SpillDir, take); err != nil {
		s.cfg.Log.Debug("remove weight files of this node's earlier life", "dir", s.cfg.BridgeDir, "err", err)
	}
}

// run registers, trains and says goodbye.
func (s *sl) run(ctx context.Context) error {
	api, err := s.register(ctx)
	if err != nil {
		if ctx.Err() != nil {
			s.runner.Abandon(ctx)
		}
		return err
	}
	defer api.Close()
	err = s.train(ctx, api)
	s.goodbye(ctx, api, err)
	return err
}

// train runs the node's parts until the program has ended and nobody needs this node any more, or ctx ends.
func (s *sl) train(ctx context.Context, api *client.Client) error {
	hub := exchange.NewHub(MergeConfig(s.base.key))
	defer hub.Close()
	settled, same := s.runner.Settled(ctx, api)
	if same {
		s.runner.EndOrphans(ctx, api, "", true)
		s.runner.SayFinished(settled)
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
	serveSL(slNetwork{s.host, p.guard}, hub, p.engine, &LetOut{API: api, Key: s.base.key, Node: s.cfg.Name, SwarmID: s.base.swarm.get}, s.cfg.Log)
	// The parts outlive the wish to stop: the program needs them to end, and the contract is told.
	tasks, work := errgroup.WithContext(context.WithoutCancel(ctx))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(work, cancel)() // without its parts no program goes on
	tasks.Go(func() error { return p.engine.Run(work) })
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
	outcome, _ := p.engine.Outcome()
	if ctx.Err() != nil {
		s.endSession(ctx, p.engine)
	}
	s.runner.Note(outcome, s.code, ctx.Err() != nil)
	return err
}

// parts are what a node consists of beside its host.
type parts struct {
	engine *session.Engine
	bridge Bridge
	guard  *trust.Guard
}

// build makes the bridge and the engine, each of which needs the other. settled is the contract whose last training this node has
// finished with another program.
func (s *sl) build(api *client.Client, hub *exchange.Hub, settled string) (*parts, error) {
	p := &parts{guard: NewGuard(api, s.base.source, s.base.domains, s.cfg.AllowPeers, s.cfg.Log)}
	if len(s.cfg.AllowPeers) == 0 {
		s.cfg.Log.Info("any SL that this node accepts may take part in merges with it: name whose may with --allow-peer", "trust_domains", s.base.domains.Names())
	} else {
		s.cfg.Log.Info("only named SLs may take part in merges with this node", "allow_peer", s.cfg.AllowPeers.Strings())
	}
	control := Control{Client: api, Health: s.base.health, Bans: s.bans}
	config := session.Config{
		ModelDir: s.cfg.modelsDir(),
		// What has no name lies beside the weight files, in memory if it fits; a program could see the rest there.
		SpoolDir: s.cfg.BridgeDir, ScratchDir: s.cfg.scratchDir(),
		Peer: s.cfg.Name, Control: control, Explainer: control, Log: s.cfg.Log, ExpectedPeers: uint32(s.cfg.ExpectedPeers), //nolint:gosec // small
		Exchange: &Exchanger{Hub: hub, Network: slNetwork{s.host, p.guard}, Key: s.base.key, Peer: s.cfg.Name},
		NewSlots: func(n int64) (session.Slots, error) { return p.bridge.CreateSlots(n) },
		OpenSlots: func(n int64, local, committed string) (session.Slots, error) {
			return p.bridge.OpenSlots(n, local, committed)
		},
		Isolation: s.runner.Isolation(), Journal: s.runner.Journal(), Patience: s.cfg.Patience, Trust: p.guard, Sign: s.base.key.Sign, Compare: control.Compare, Settled: settled,
	}
	files := bridge.Config{Dir: s.cfg.BridgeDir, SpillDir: s.cfg.SpillDir, MaxModel: s.cfg.MaxModel, Log: s.cfg.Log}
	files.Owner, files.SpillAs = s.runner.Owner()
	p.engine = s.base.deps.NewEngine(config)
	files.Handler, files.Live = BridgeHandler{Engine: p.engine, Peer: s.cfg.Name}, p.engine.Live
	files.Status = func() map[string]any {
		st := p.engine.Status()
		if lost := api.NoQuorum(); lost != "" {
			st["waiting"] = lost
		}
		return st
	}
	var err error
	p.bridge, err = s.base.deps.OpenBridge(files)
	return p, err
}

// modelsDir keeps committed models.
func (cfg SLConfig) modelsDir() string { return filepath.Join(cfg.StateDir, "models") }

// scratchDir keeps what methods need beside the weight files.
func (cfg SLConfig) scratchDir() string { return filepath.Join(cfg.StateDir, "scratch") }
