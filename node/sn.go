package node

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/recovery"
	"github.com/swarmd/swarmd/consensus/restore"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/rpc"
)

// run runs an SN until ctx ends (nil) or something fails that no retry can mend.
func (cfg SNConfig) run(ctx context.Context, deps Deps) (int, error) {
	if err := cfg.serve(ctx, deps); err != nil {
		return 1, err
	}
	return 0, nil
}

func (cfg SNConfig) serve(ctx context.Context, deps Deps) error {
	free := listen(deps.Listen).checkFree
	ips, err := lookup(deps.Lookup).resolve(ctx, "host-ip", cfg.Host)
	if err != nil {
		return err
	}
	if err := CheckHost("sentinel-ip", cfg.SentinelHost); err != nil {
		return err
	}
	for _, j := range cfg.Join {
		if _, err := JoinAddress(j); err != nil {
			return err
		}
	}
	bind := bindHost(ips)
	if err := errors.Join(free(ctx, bind, "sn-p2p-port", cfg.P2PPort), free(ctx, bind, "sn-api-port", cfg.APIPort),
		free(ctx, bind, "sn-fs-port", cfg.FSPort), checkPort("sentinel-fs-port", cfg.SentinelFSPort)); err != nil {
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
	s := &sn{cfg: cfg, base: b, ips: ips, bind: bind, seekers: make(chan seeker, 1)}
	s.host, err = deps.OpenHost(p2p.Config{
		Key: b.key, Source: b.source, Domains: b.domains, SwarmID: b.swarm.named, Log: cfg.Log,
		ListenAddrs: []string{join(bind, cfg.P2PPort), join(bind, cfg.FSPort)}, Refuse: s.refuse, Missed: s.missed,
	})
	if err != nil {
		return err
	}
	defer s.host.Close()
	err = quiet(ctx, s.run(ctx))
	if ctx.Err() != nil {
		cfg.Log.Info("stopped as asked", "node", cfg.Name)
	}
	return err
}

type sn struct {
	cfg      SNConfig
	base     *base
	host     Host
	group    atomic.Pointer[consensus.Group] // nil until it is open
	api      atomic.Pointer[API]             // nil until it serves
	ips      []net.IP                        // our own
	sentinel bool                            // known once enter has begun
	seekers  chan seeker                     // who has looked for another node at this address
	bind     string
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
	if err := s.supersededAtStart(ctx); err != nil {
		return err
	}
	var leader *planner.Planner
	group, err := s.base.deps.OpenGroup(consensus.Config{
		Name: s.cfg.Name, Address: s.address(), Dir: s.cfg.StateDir, Network: raftNetwork{s.host}, Log: log,
		OnHeard: func(names []string) {
			for _, n := range names {
				leader.Touch(n)
			}
		},
		Prover: joinProver{s},
		Vet:    s.vet,
	})
	if err != nil {
		return err
	}
	s.group.Store(group)
	leader = planner.New(planner.Config{Self: s.cfg.Name, QuorumWait: s.cfg.QuorumWait, StallGrace: s.cfg.StallGrace, Ledger: group.ReadLedger}, group, log)
	s.base.health.Leader(group.LeaderSeen)
	s.base.health.Ledger(group.LedgerComplete)
	serveBundle(s.host, group)
	tasks, ctx := errgroup.WithContext(ctx)
	// The group first: joining and leading need it. The API last: it must not answer before there is a state to show, or before it
	// is known that there can be none.
	life := &lifeOf{run: group.Run, over: make(chan struct{})}
	tasks.Go(func() error { return life.Run(ctx) })
	tasks.Go(func() error { return leader.Run(ctx) })
	tasks.Go(func() error {
		followBans(ctx, group, s.host)
		return nil
	})
	tasks.Go(func() error { return s.watchEpoch(ctx, group) })
	tasks.Go(func() error {
		recordBundles(ctx, group, s.base.source, s.base.domains, log)
		return nil
	})
	entered := make(chan struct{})
	tasks.Go(func() error {
		if err := s.enter(ctx, group); err != nil {
			return life.cause(err)
		}
		close(entered)
		return s.giveWay(ctx, group)
	})
	tasks.Go(func() error {
		if !mayServe(ctx, group, entered) {
			return nil
		}
		return s.serve(ctx, group, leader, entered)
	})
	return tasks.Wait()
}

// askQuorum is how often an SN that has not joined again asks whether it can.
const askQuorum = 5 * time.Second

// mayServe waits until this SN has entered its swarm, or, as one of its members, finds that too few of the others are there: then its API
// says that instead of being silent. False means that ctx has ended.
func mayServe(ctx context.Context, group *consensus.Group, entered <-chan struct{}) bool {
	ticker := time.NewTicker(askQuorum)
	defer ticker.Stop()
	for {
		select {
		case <-entered:
			return true
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
		if group.HasState() && group.Quorum(ctx) != nil {
			return true
		}
	}
}

// lifeOf runs consensus and keeps why that ended.
type lifeOf struct {
	run  func(ctx context.Context) error
	over chan struct{} // closed once err is set
	err  error
}

func (l *lifeOf) Run(ctx context.Context) error {
	l.err = l.run(ctx)
	close(l.over)
	return l.err
}

// cause is why consensus has ended, if err is only that it did: the first error of a node's parts is its last word, and a full disk is
// more than that.
func (l *lifeOf) cause(err error) error {
	if !errors.Is(err, consensus.ErrShutdown) {
		return err
	}
	<-l.over // it has begun to end
	if l.err != nil {
		return l.err
	}
	return err
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

func (s *sn) address() string {
	return consensus.FormatAddress(s.base.peerID, join(s.cfg.Host, s.cfg.P2PPort))
}

// enter founds the swarm or joins it.
func (s *sn) enter(ctx context.Context, group *consensus.Group) error {
	log := s.cfg.Log
	var err error
	if s.sentinel, err = s.isSentinel(ctx, group.HasState(), lookup(s.base.deps.Lookup).resolve); err != nil {
		return err
	}
	servers := s.servers()
	found := s.sentinel && !group.HasState() && len(s.cfg.Join) == 0
	if found {
		if s.cfg.SwarmID != "" && s.cfg.FoundAfter > 0 { // so two swarms would have one ID, and SLs would not tell them apart
			return fmt.Errorf("--swarm-id names swarm %s, and this node, a Sentinel without state, would found another: start it with --join HOST of one of that swarm's SNs, or leave --swarm-id out to found a new swarm", s.cfg.SwarmID)
		}
		if err := s.listen(ctx); err != nil {
			return err
		}
		id := s.cfg.SwarmID
		if id == "" {
			raw := make([]byte, 16)
			_, _ = rand.Read(raw) // never fails
			id = hex.EncodeToString(raw)
		}
		if err := s.base.swarm.set(id); err != nil {
			return fmt.Errorf("%w: a Sentinel without its old state can't found the swarm anew; start it with --join HOST of another SN", err)
		}
		log.Info("founding a swarm", "swarm_id", id, "operators_admit", s.cfg.Admit)
		register, err := s.registration()
		if err != nil {
			return err
		}
		first := []state.Command{s.founding(id)}
		for _, b := range bundles(s.base.source, s.base.domains) { // before what is checked against them
			first = append(first, b)
		}
		return group.Bootstrap(ctx, append(first, register)...)
	}
	var via []string
	if !group.HasState() {
		b, err := fetchBundle(ctx, s.host, s.base.swarm, servers, log)
		if err != nil {
			return err
		}
		log.Info("joining the swarm", "swarm_id", b.SwarmID, "sns", len(b.SNs))
		via = b.SNs
	}
	register, err := s.registration()
	if err != nil {
		return err
	}
	err = group.Join(ctx, via, consensus.JoinRequest{Name: s.cfg.Name, Address: s.address(), SwarmID: s.base.swarm.get(), Register: register})
	if err == nil && s.cfg.Admit && group.View().Admit == "" {
		log.Warn("--admit changes nothing: this swarm was founded without it, and SNs join it without an operator's word")
	}
	return err
}

// founding is the first command of a swarm's log.
func (s *sn) founding(swarmID string) state.InitSwarm {
	c := state.InitSwarm{SwarmID: swarmID, AtMS: nowMS()}
	if s.cfg.Admit {
		c.Founder = &state.Admission{Name: s.cfg.Name, PeerID: s.base.peerID, AtMS: c.AtMS}
	}
	return c
}

// isSentinel tells whether this node is the Sentinel. A name that does not resolve is another's that has not started yet, as
// a container's name is known only while it runs: a node that has no swarm yet waits for it.
func (s *sn) isSentinel(ctx context.Context, hasState bool, resolve func(ctx context.Context, flag, host string) ([]net.IP, error)) (bool, error) {
	host := s.cfg.SentinelHost
	if strings.EqualFold(host, s.cfg.Host) {
		return true, nil
	}
	for said := (time.Time{}); ; {
		ips, err := resolve(ctx, "sentinel-ip", host)
		switch {
		case err == nil:
			return sameHost(s.ips, ips), nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case hasState || len(s.cfg.Join) > 0: // it finds its swarm without it
			return false, nil
		}
		if time.Since(said) > waitNotice {
			said = time.Now()
			s.cfg.Log.Info("cannot reach an SN yet; trying again", "file_server", join(host, s.cfg.SentinelFSPort), "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(contactRetry):
		}
	}
}

// servers are the file servers that may give a bootstrap bundle.
func (s *sn) servers() []string {
	var out []string
	for _, j := range s.cfg.Join {
		if j, err := JoinAddress(j); err == nil { // checked at the start
			out = append(out, j)
		}
	}
	if !s.sentinel {
		out = append(out, join(s.cfg.SentinelHost, s.cfg.SentinelFSPort))
	}
	return out
}

// registration is this node's, with what proves it. The swarm must be known.
func (s *sn) registration() (state.RegisterNode, error) {
	token := make([]byte, 32) // SNs speak for themselves over p2p; nobody ever holds this token
	_, _ = rand.Read(token)   // never fails
	hash := sha256.Sum256(token)
	return prove(s.base.source, s.base.swarm.get(), state.RegisterNode{
		Node: state.Node{
			Name: s.cfg.Name, Role: string(identity.RoleSN), SPIFFEID: s.base.source.ID().String(), PeerID: s.base.peerID, Host: s.cfg.Host,
			P2PPort: uint16(s.cfg.P2PPort), APIPort: uint16(s.cfg.APIPort), FSPort: uint16(s.cfg.FSPort), //nolint:gosec // checked ports
			Runtime: "process", Sentinel: s.sentinel,
		},
		TokenHash: hex.EncodeToString(hash[:]), AtMS: nowMS(),
	})
}

func (s *sn) serve(ctx context.Context, group *consensus.Group, leader *planner.Planner, entered <-chan struct{}) error {
	api, err := s.base.deps.NewAPI(rpc.Config{
		Name: s.cfg.Name, Core: group, Lead: leader, Ledger: group, Origin: s.origin, Caller: rpc.TLSCaller(s.base.source), Source: s.base.source, Log: s.cfg.Log,
		Quorum: group.Quorum,
		Health: func() *swarmv1.NodeHealth { return s.base.health.Report().Proto() }, Stray: s.strayed,
	})
	if err != nil {
		return err
	}
	group.ServeAPI(api.Between())
	s.api.Store(&api)
	ln, err := s.base.deps.Listen(ctx, "tcp", join(s.bind, s.cfg.APIPort))
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
		loggerNamed(s.cfg.Log, "swarm.blCnt").Info(fmt.Sprintf("Starting SWARM-API-SERVER on port: %d", s.cfg.APIPort)) //nolint:sloglint // contractual text
		s.base.health.Ready()
	}()
	return api.Serve(ctx, ln, rpc.TLSConfig(s.base.source, s.base.domains))
}

func nowMS() int64 { return time.Now().UnixMilli() }
