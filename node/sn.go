package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/assign"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/recovery"
	"github.com/swarmd/swarmd/consensus/restore"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/admission"
	"github.com/swarmd/swarmd/internal/history/keeper"
	"github.com/swarmd/swarmd/internal/membership"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/probe"
	"github.com/swarmd/swarmd/internal/probe/board"
	"github.com/swarmd/swarmd/internal/rpc"
	"github.com/swarmd/swarmd/internal/rpc/dialback"
	"github.com/swarmd/swarmd/internal/rpc/logboard"
)

// run runs an SN until ctx ends (nil) or something fails that no retry can mend.
func (cfg SNConfig) run(ctx context.Context, deps Deps) (int, error) {
	if err := cfg.serve(ctx, deps); err != nil {
		return 1, err
	}
	return 0, nil
}

func (cfg SNConfig) serve(ctx context.Context, deps Deps) error {
	free := address.Listen(deps.Listen).CheckFree
	ips, err := address.Lookup(deps.Lookup).Resolve(ctx, "host-ip", cfg.Host)
	if err != nil {
		return err
	}
	if cfg.SentinelHost != "" || len(cfg.Join) == 0 {
		if err := address.CheckHost("sentinel-ip", cfg.SentinelHost); err != nil {
			return err
		}
	}
	for _, j := range cfg.Join {
		if _, err := address.FileServer(j); err != nil {
			return err
		}
	}
	bind := address.Bindable(ips)
	if err := errors.Join(free(ctx, bind, "sn-p2p-port", cfg.P2PPort), free(ctx, bind, "sn-api-port", cfg.APIPort),
		free(ctx, bind, "sn-fs-port", cfg.FSPort), address.CheckPort("sentinel-fs-port", cfg.SentinelFSPort)); err != nil {
		return err
	}
	b, err := openBase(ctx, cfg.Common, deps, identity.RoleSN)
	if err != nil {
		return quiet(ctx, err)
	}
	defer b.close()
	if err := errors.Join(recovery.Check(cfg.StateDir), restore.Check(cfg.StateDir)); err != nil {
		return err
	}
	s := &sn{cfg: cfg, base: b, bind: bind, probes: board.New(nil), back: dialback.New(cfg.Name, nil), log: &logboard.Own{Node: cfg.Name, Board: logboard.New()}, member: membership.New(membership.Config{
		Options: cfg.Options, Name: cfg.Name, Host: cfg.Host, StateDir: cfg.StateDir, SwarmID: cfg.SwarmID, IPs: ips, Lookup: deps.Lookup, Dial: deps.Dial,
		Source: b.source, Domains: b.domains, Key: b.key, PeerID: b.peerID, Pin: b.swarm, Log: cfg.Log,
	})}
	s.host, err = b.deps.OpenHost(p2p.Config{
		Key: b.key, Source: b.source, Domains: b.domains, SwarmID: b.swarm.Named, Log: cfg.Log,
		ListenAddrs: []string{address.Join(bind, cfg.P2PPort), address.Join(bind, cfg.FSPort)}, Refuse: s.refuse, Missed: s.member.Missed,
	})
	if err != nil {
		return err
	}
	defer s.host.Close()
	s.member.UseHost(s.host)
	err = quiet(ctx, s.run(ctx))
	if ctx.Err() != nil {
		cfg.Log.Info("stopped as asked", "node", cfg.Name)
	}
	return err
}

type sn struct {
	cfg    SNConfig
	base   *base
	host   p2p.Network
	member *membership.Member
	group  atomic.Pointer[consensus.Group] // nil until it is open
	api    atomic.Pointer[API]             // nil until it serves
	bind   string
	probes *board.Board
	back   *dialback.Desk
	log    *logboard.Own
}

// refuse keeps out whom the swarm's state, as far as this SN knows it, has banned.
func (s *sn) refuse(id peer.ID) error {
	if g := s.group.Load(); g != nil {
		return g.View().CheckBan(id.String())
	}
	return nil
}

func (s *sn) run(ctx context.Context) error {
	log := s.cfg.Log
	if err := s.member.CheckEpoch(ctx); err != nil {
		return err
	}
	var leader *planner.Planner
	var past *keeper.Keeper
	group, err := s.base.deps.OpenGroup(consensus.Config{
		Name: s.cfg.Name, Address: s.member.Address(), Dir: s.cfg.StateDir, Network: membership.Network{Host: s.host}, Log: log,
		OnHeard: func(names []string) {
			for _, n := range names {
				leader.Touch(n)
			}
		},
		Prover: s.member, OnCommitted: s.base.metrics.Committed(), Vet: s.vet, OnContact: func(c consensus.Contact) { past.Contact(c) },
	})
	if err != nil {
		return err
	}
	s.group.Store(group)
	leader = planner.New(planner.Config{Self: s.cfg.Name, QuorumWait: s.cfg.QuorumWait, StallGrace: s.cfg.StallGrace, Ledger: group.ReadLedger}, group, log)
	s.base.health.Leader(group.LeaderSeen)
	s.base.health.Ledger(group.LedgerComplete)
	s.base.metrics.Raft(group, leader.Status)
	s.member.ServeBundle(group)
	own, err := s.base.logHost(s.log.Send)
	if err != nil {
		return err
	}
	past = keeper.Open(s.cfg.Name, s.cfg.StateDir, group, log)
	tasks, ctx := errgroup.WithContext(ctx)
	// The group first: joining and leading need it. The API last: it must not answer before there is a state to show, or before it
	// is known that there can be none.
	running := membership.NewRun(group.Run)
	tasks.Go(func() error { return running.Run(ctx) })
	tasks.Go(func() error { return leader.Run(ctx) })
	hosts := assign.New(group, log)
	tasks.Go(func() error { return hosts.Run(ctx) })
	tasks.Go(func() error { return past.Run(ctx) })
	tasks.Go(func() error { return s.probe(ctx, group) })
	tasks.Go(func() error { return s.back.Run(ctx, s.host) })
	tasks.Go(func() error { return s.log.Run(ctx, own) })
	tasks.Go(func() error { admission.CutBanned(ctx, group, s.host); return nil })
	tasks.Go(func() error { return s.member.WatchEpoch(ctx, group) })
	tasks.Go(func() error { s.member.RecordBundles(ctx, group); return nil })
	entered := make(chan struct{})
	tasks.Go(func() error {
		if err := s.member.Enter(ctx, group); err != nil {
			return running.Cause(err)
		}
		close(entered)
		return s.member.GiveWay(ctx, group)
	})
	tasks.Go(func() error {
		if !membership.AwaitService(ctx, group, entered) {
			return nil
		}
		return s.serve(ctx, group, past, past.Hearing(leader), hosts, entered)
	})
	return tasks.Wait()
}

// probe has SNs probe each other when an operator asks for it.
func (s *sn) probe(ctx context.Context, group *consensus.Group) error {
	agent := s.base.prober(s.host, identity.RoleSN, probe.Config{Known: func(_ context.Context, targets []*swarmv1.ProbeTarget) []bool {
		return board.KnownSNs(group.View(), targets)
	}})
	agent.Serve()
	agent.ServeOrders(func(peerID string) bool { return admission.IsSN(group.View(), peerID) })
	return s.probes.Run(ctx, agent.OrderTo(s.cfg.Name))
}

// vet judges what is to be proposed while this SN leads.
func (s *sn) vet(c state.Command) (state.Command, error) {
	if api := s.api.Load(); api != nil {
		return (*api).Vet(c)
	}
	if _, ordered := c.(state.Ordered); ordered {
		return nil, fmt.Errorf("%w: this SN does not serve yet", consensus.ErrNotLeader)
	}
	return c, nil
}

func (s *sn) serve(ctx context.Context, group *consensus.Group, past *keeper.Keeper, leader rpc.Lead, hosts *assign.Scheduler, entered <-chan struct{}) error {
	api, err := s.base.deps.NewAPI(rpc.Config{
		Name: s.cfg.Name, Core: group, Lead: leader, History: past, Ledger: group, Origin: s.member.Origin, Caller: rpc.TLSCaller(s.base.source), Source: s.base.source, Log: s.cfg.Log,
		Quorum: group.Quorum, Hosts: hosts, Probes: s.probes, DialBack: s.back, OwnLog: s.log,
		Health: func() *swarmv1.NodeHealth {
			h := s.base.health.Report().Proto()
			h.Links = s.member.Links(group.View())
			return h
		},
		Stray: s.member.Strayed,
	})
	if err != nil {
		return err
	}
	group.ServeAPI(past.Beside(api.Between()))
	s.api.Store(&api)
	ln, err := s.base.deps.Listen(ctx, "tcp", address.Join(s.bind, s.cfg.APIPort))
	if err != nil {
		return err
	}
	go func() {
		select {
		case <-entered:
		case <-ctx.Done():
			return
		}
		// The original's readiness marker: scripts wait for this line.
		s.cfg.Log.With("logger", "swarm.blCnt").Info(fmt.Sprintf("Starting SWARM-API-SERVER on port: %d", s.cfg.APIPort)) //nolint:sloglint // contractual text
		s.base.health.Ready()
	}()
	return api.Serve(ctx, s.base.metrics.API(ln), rpc.TLSConfig(s.base.source, s.base.domains))
}
