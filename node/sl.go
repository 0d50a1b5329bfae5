package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/bridge"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/session"
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
	if err := errors.Join(checkFree(bind, "sl-fs-port", cfg.FSPort), checkPort("sn-api-port", cfg.SNAPIPort)); err != nil {
		return 1, err
	}
	var run *program
	if !cfg.Attach {
		if run, err = prepareProgram(ctx, cfg); err != nil {
			return 1, err
		}
	}
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
		Key: b.key, Source: b.source, Domains: b.domains, SwarmID: b.swarm.get, Log: cfg.Log, ListenAddrs: []string{join(bind, cfg.FSPort)},
		Refuse: bans.refuse,
	})
	if err != nil {
		return 1, err
	}
	defer host.Close()
	bans.Cut = cutFrom(host)
	s := &sl{cfg: cfg, base: b, host: host, bans: bans, program: run}
	err = quiet(ctx, s.run(ctx))
	if ctx.Err() != nil {
		cfg.Log.Info("stopped as asked", "node", cfg.Name, "exit_code", s.code)
	}
	return s.code, err
}

type sl struct {
	cfg     SLConfig
	base    *base
	host    *p2p.Host
	bans    *Bans
	program *program
	code    int
}

func (s *sl) run(ctx context.Context) error {
	api, err := s.register(ctx)
	if err != nil {
		return err
	}
	defer api.Close()
	s.endLeftovers(ctx, api)
	hub := exchange.NewHub(exchange.Config{})
	defer hub.Close()
	engine, server, err := s.parts(api, hub)
	if err != nil {
		return err
	}
	serveSL(s.host, hub, engine, s.cfg.Log)
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return engine.Run(ctx) })
	tasks.Go(func() error { return server.Run(ctx) })
	tasks.Go(func() error {
		select { // the program must find the socket
		case <-server.Ready():
		case <-ctx.Done():
			return nil
		}
		s.base.health.Ready()
		if s.program == nil {
			s.cfg.Log.Info("waiting for a program that is started by hand", "bridge_dir", s.cfg.BridgeDir)
			return nil
		}
		s.code, err = s.program.run(ctx, engine)
		if err != nil {
			return err
		}
		return errProgramEnded
	})
	if err := tasks.Wait(); !errors.Is(err, errProgramEnded) {
		return err
	}
	return nil
}

// register makes this node known to the swarm; it waits for an SN that answers.
func (s *sl) register(ctx context.Context) (*client.Client, error) {
	log := s.cfg.Log
	api, err := client.New(client.Config{
		SNs: []string{join(s.cfg.SNHost, s.cfg.SNAPIPort)}, SwarmID: s.base.swarm.get(), Source: s.base.source, Domains: s.base.domains, Log: log,
		OnWait: func(msg string) { log.Info("waiting for the swarm", "why", msg) },
		OnLearn: func(id string, sns []string) {
			if err := s.base.swarm.set(id); err != nil {
				log.Error("pin the swarm", "err", err)
			}
			log.Info("the swarm is known", "swarm_id", id, "sns", fmt.Sprint(sns))
		},
	})
	if err != nil {
		return nil, err
	}
	err = api.Register(ctx, client.Registration{
		Node: client.NodeInfo{Name: s.cfg.Name, Role: identity.RoleSL, Host: s.cfg.Host, FSPort: uint32(s.cfg.FSPort), Runtime: "process"}, //nolint:gosec // checked port
		Key:  s.base.key,
	})
	if err != nil {
		return nil, errors.Join(err, api.Close())
	}
	s.base.health.Seen() // the leader has committed it
	log.Info("registered with the swarm", "node", s.cfg.Name, "swarm_id", s.base.swarm.get())
	return api, nil
}

// parts builds the bridge and the engine, each of which needs the other.
func (s *sl) parts(api *client.Client, hub *exchange.Hub) (*session.Engine, *bridge.Server, error) {
	var server *bridge.Server
	control := Control{Client: api, Health: s.base.health, Bans: s.bans}
	engine := session.New(session.Config{
		ModelDir: filepath.Join(s.cfg.StateDir, "models"),
		Peer:     s.cfg.Name, Control: control, Explainer: control, Log: s.cfg.Log, ExpectedPeers: uint32(s.cfg.ExpectedPeers), //nolint:gosec // small
		Exchange: &Exchanger{Hub: hub, Network: slNetwork{s.host}, Key: s.base.key, Peer: s.cfg.Name},
		NewSlots: func(n int64) (session.Slots, error) {
			slots, err := server.CreateSlots(n)
			if err != nil {
				return nil, err
			}
			return bridgeSlots{slots}, nil
		},
	})
	server, err := bridge.NewServer(bridge.Config{
		Dir: s.cfg.BridgeDir, SpillDir: filepath.Join(s.cfg.StateDir, "bridge-slots"), Log: s.cfg.Log, Handler: BridgeHandler{Engine: engine, Peer: s.cfg.Name},
		Status: engine.Status, Live: engine.Live,
	})
	return engine, server, err
}

// prepareProgram checks everything about the program that can be checked before anything is started.
func prepareProgram(ctx context.Context, cfg SLConfig) (*program, error) {
	if err := launch.CheckProgram(cfg.ModelDir, cfg.DataDir, cfg.Program); err != nil {
		return nil, err
	}
	if cfg.Python == "" {
		cfg.Log.Info("looking for a Python that imports the platform's framework; --python names one", "platform", cfg.Platform)
	}
	python, err := launch.FindPython(ctx, cfg.Platform, cfg.Python, cfg.Getenv)
	if err != nil {
		return nil, err
	}
	return newProgram(ctx, cfg, python)
}
