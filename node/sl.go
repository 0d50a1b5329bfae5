package node

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/bridge"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/internal/trust"
	"github.com/swarmd/swarmd/merge/exchange"
)

// errProgramEnded stops an SL's tasks when its work is done.
var errProgramEnded = errors.New("the program has ended")

// RunSL runs a Swarm Learning node and its program until the program has ended and no other node needs this one, or ctx
// ends. It returns the program's exit code.
func RunSL(ctx context.Context, cfg SLConfig) (int, error) {
	ips, err := resolve(ctx, "host-ip", cfg.Host)
	if err != nil {
		return 1, err
	}
	bind := bindHost(ips)
	if err := checkFree(bind, "sl-fs-port", cfg.FSPort); err != nil {
		return 1, err
	}
	s := &sl{cfg: cfg}
	if err := s.prepare(ctx); err != nil {
		return 1, err
	}
	defer s.containers.close()
	s.sweep()
	b, err := openBase(ctx, cfg.Common, identity.RoleSL)
	if err != nil {
		if err = quiet(ctx, err); err == nil {
			return 0, nil // stopped as asked while it waited: there was nothing to end
		}
		return 1, err
	}
	defer b.close()
	bans := &Bans{}
	host, err := p2p.NewHost(p2p.Config{
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
	cfg        SLConfig
	base       *base
	host       *p2p.Host
	bans       *Bans
	program    *program    // nil: one is started by hand
	containers *containers // nil: the program does not run in one
	process    *process    // nil: the program is no child of this daemon
	code       int
	goneBy     time.Time // when the last words must be said, zero before the first
}

// prepare checks everything about the program that can be checked before anything is started.
func (s *sl) prepare(ctx context.Context) error {
	switch {
	case s.cfg.Attach:
	case s.cfg.ML != nil:
		c, err := prepareContainer(ctx, s.cfg)
		if err != nil {
			return err
		}
		named := s.cfg
		if named.Program == "" { // the image's, or a command
			named.Program = c.spec.Image
		}
		s.containers, s.program = c, &program{cfg: named, how: c}
	default:
		p, err := prepareProcess(ctx, s.cfg)
		if err != nil {
			return err
		}
		s.process, s.program = p, &program{cfg: s.cfg, how: p, finished: p.noteFinished}
	}
	return nil
}

// sweep removes the weight files of a life that was killed, unless its program lives on and has them: whatever this life waits for, or
// dies of, before it has a bridge of its own. A model of which there is no copy on disk is copied first: if all SLs were killed at once,
// nobody has it else. What can't be done, Claim will say.
func (s *sl) sweep() {
	if s.containers != nil && s.containers.kept {
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
	if err := bridge.Sweep(s.cfg.BridgeDir, s.cfg.spillDir(), take); err != nil {
		s.cfg.Log.Debug("remove weight files of this node's earlier life", "dir", s.cfg.BridgeDir, "err", err)
	}
}

// run registers, trains and says goodbye.
func (s *sl) run(ctx context.Context) error {
	api, err := s.register(ctx)
	if err != nil {
		if ctx.Err() != nil {
			s.containers.stopEarlier(ctx)
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
	done, same := s.settled(ctx, api)
	if same {
		s.endLeftovers(ctx, api, "", true)
		s.sayFinished(done.Contract)
		return nil
	}
	p, err := s.build(api, hub, done.Contract)
	if err != nil {
		return err
	}
	finished, err := s.takeUp(ctx, api, p)
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
			s.stay(ctx, p)
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
	if s.program == nil {
		s.cfg.Log.Info("waiting for a program that is started by hand", "bridge_dir", s.cfg.BridgeDir)
		<-ctx.Done()
		err = ctx.Err()
	} else {
		s.code, err = s.program.run(ctx, p.engine)
	}
	outcome, _ := p.engine.Outcome()
	if ctx.Err() != nil {
		s.endSession(ctx, p.engine)
	}
	if s.containers != nil {
		s.containers.note(outcome, s.code, ctx.Err() != nil)
	}
	return err
}

// runtime is how this node's program runs.
func (s *sl) runtime() string {
	if s.program == nil {
		return "process"
	}
	return s.program.how.runtime()
}

// parts are what a node consists of beside its host.
type parts struct {
	engine *session.Engine
	bridge *bridge.Server
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
		NewSlots: func(n int64) (session.Slots, error) {
			slots, err := p.bridge.CreateSlots(n)
			if err != nil {
				return nil, err
			}
			return bridgeSlots{slots}, nil
		},
		OpenSlots: func(n int64, local, committed string) (session.Slots, error) {
			slots, err := p.bridge.OpenSlots(n, local, committed)
			if err != nil {
				return nil, err
			}
			return bridgeSlots{slots}, nil
		},
		Isolation: noIsolation, Patience: s.cfg.Patience, Trust: p.guard, Sign: s.base.key.Sign, Compare: api.Compare, Settled: settled,
	}
	files := bridge.Config{Dir: s.cfg.BridgeDir, SpillDir: s.cfg.spillDir(), MaxModel: s.cfg.MaxModel, Log: s.cfg.Log}
	if s.program != nil {
		config.Isolation = s.program.how.isolation()
	}
	if c := s.containers; c != nil {
		c.journal = session.OpenJournal(c.journalPath(), s.cfg.Log)
		config.Journal = c.journal
		files.SpillAs, files.Owner = engine.SpillDir, c.owner()
	}
	p.engine = session.New(config)
	files.Handler, files.Live = BridgeHandler{Engine: p.engine, Peer: s.cfg.Name}, p.engine.Live
	files.Status = func() map[string]any {
		st := p.engine.Status()
		if lost := api.NoQuorum(); lost != "" {
			st["waiting"] = lost
		}
		return st
	}
	var err error
	p.bridge, err = bridge.NewServer(files)
	return p, err
}
