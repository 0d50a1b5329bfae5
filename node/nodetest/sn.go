package nodetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/rpc"
)

// Ports of every SN.
const (
	portP2P = 30303
	portAPI = 30304
	portFS  = 30305
)

const serviceAPI = "api"

// exporter stands in for the value that binds a registration to its TLS connection.
const exporter = "nodetest: there is one connection"

// sn is a Swarm Network node. Its stores and key survive restarts; what is below host is one life.
type sn struct {
	swarm  *Swarm
	id     nodeID
	log    *raft.InmemStore
	stores consensus.Stores
	via    *sn // the only SN that it joins through; nil: any

	host   *host
	group  *consensus.Group
	leader *planner.Planner
	cancel context.CancelFunc
	tasks  *sync.WaitGroup
	err    error // what ended the group; guarded by tasks
}

func newSN(s *Swarm, id nodeID) *sn {
	log := raft.NewInmemStore()
	return &sn{
		swarm: s, id: id, log: log,
		stores: consensus.Stores{Log: log, Stable: log, Snapshots: raft.NewInmemSnapshotStore()},
	}
}

func (n *sn) address() string {
	return consensus.FormatAddress(n.id.peerID, fmt.Sprintf("%s:%d", n.id.name, portP2P))
}

// raftNet gives consensus its streams.
type raftNet struct{ host *host }

// raftConn tells who answered.
type raftConn struct{ *conn }

// RemotePeer tells consensus whom the handshake has proven.
func (c raftConn) RemotePeer() consensus.Peer {
	return consensus.Peer{PeerID: c.remote().peerID, Role: c.remote().role, SPIFFEID: c.remote().spiffeID()}
}

// Dial implements consensus.Network.
func (r raftNet) Dial(ctx context.Context, address, protocol string) (net.Conn, error) {
	id, hostport, err := consensus.ParseAddress(address)
	if err != nil {
		return nil, err
	}
	name, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	c, err := r.host.dial(ctx, name, id, protocol)
	if err != nil {
		return nil, err
	}
	return raftConn{c}, nil
}

// Handle implements consensus.Network.
func (r raftNet) Handle(protocol string, fn func(net.Conn, consensus.Peer)) {
	r.host.handle(protocol, func(c *conn) {
		fn(raftConn{c}, raftConn{c}.RemotePeer())
	})
}

// prover says who an SN is, as the network knows it: node's tests are those of signatures.
type prover struct{ *sn }

// Prove implements consensus.Prover.
func (prover) Prove(r consensus.JoinRequest) (consensus.JoinRequest, error) { return r, nil }

// Check implements consensus.Prover.
func (p prover) Check(_ string, r consensus.JoinRequest) (consensus.Peer, error) {
	for _, o := range p.swarm.order {
		if o.id.peerID == r.Register.Node.PeerID {
			return consensus.Peer{PeerID: o.id.peerID, Role: naming.RoleSN, SPIFFEID: o.id.spiffe, SwarmID: r.SwarmID}, nil
		}
	}
	return consensus.Peer{}, errors.New("no such node")
}

// start begins a life: it opens everything and enters the swarm in the background.
func (n *sn) start(found bool) error {
	n.host = n.swarm.Network.attach(n.id, naming.RoleSN)
	log := n.swarm.log.With("on", n.id.name)
	var leader *planner.Planner
	var server *rpc.Server
	group, err := consensus.Open(consensus.Config{
		Name: n.id.name, Address: n.address(), Stores: &n.stores, Network: raftNet{n.host}, Log: log, Prover: prover{n},
		OnHeard: func(names []string) {
			for _, name := range names {
				leader.Touch(name)
			}
		},
		Vet: func(c state.Command) (state.Command, error) { return server.Vet(c) }, // nothing leads before all is made
	})
	if err != nil {
		return err
	}
	n.host.refuse(func(peerID string) error { return group.View().CheckBan(peerID) })
	leader = planner.New(planner.Config{Self: n.id.name, QuorumWait: n.swarm.cfg.QuorumWait, Ledger: group.ReadLedger}, group, log)
	server, err = rpc.New(rpc.Config{Name: n.id.name, Core: group, Lead: leader, Log: log, Caller: n.caller, Source: n.id.source})
	if err != nil {
		return errors.Join(err, group.Close())
	}
	group.ServeAPI(server.Between())
	ctx, cancel := context.WithCancel(context.Background())
	n.group, n.leader, n.cancel, n.tasks, n.err = group, leader, cancel, new(sync.WaitGroup), nil
	tasks := n.tasks
	tasks.Go(func() { n.err = group.Run(ctx) })
	tasks.Go(func() { _ = leader.Run(ctx) })
	tasks.Go(func() {
		if err := n.enter(ctx, group, found); err != nil {
			log.Warn("did not enter the swarm", "err", err)
			return
		}
		n.serve(ctx, server, log)
	})
	return nil
}

// enter founds the swarm or joins it, as node's SN does.
func (n *sn) enter(ctx context.Context, group *consensus.Group, found bool) error {
	token := sha256.Sum256([]byte(n.id.name))
	register := state.RegisterNode{
		Node: state.Node{
			Name: n.id.name, Role: naming.RoleSN, SPIFFEID: n.id.spiffe, PeerID: n.id.peerID, Host: n.id.name,
			P2PPort: portP2P, APIPort: portAPI, FSPort: portFS, Runtime: "process", Sentinel: n == n.swarm.order[0],
		},
		TokenHash: hex.EncodeToString(token[:]), AtMS: time.Now().UnixMilli(),
	}
	if found && !group.HasState() {
		return group.Bootstrap(ctx, state.InitSwarm{SwarmID: SwarmID, AtMS: time.Now().UnixMilli()}, register)
	}
	var via []string
	for _, other := range n.swarm.order {
		if other != n && (n.via == nil || n.via == other) && !group.HasState() {
			via = append(via, other.address())
		}
	}
	return group.Join(ctx, via, consensus.JoinRequest{Name: n.id.name, Address: n.address(), SwarmID: SwarmID, Register: register})
}

// connKey finds the stream of a request.
type connKey struct{}

// serve answers API calls until ctx ends.
func (n *sn) serve(ctx context.Context, server *rpc.Server, log *slog.Logger) {
	ln := n.host.listen(serviceAPI)
	handler := server.Handler()
	if before := n.swarm.cfg.API[n.id.name]; before != nil {
		handler = before(handler)
	}
	srv := &http.Server{
		Handler: handler, Protocols: new(http.Protocols), ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		HTTP2:       &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second, MaxConcurrentStreams: 1000},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	srv.Protocols.SetUnencryptedHTTP2(true)
	stop := context.AfterFunc(ctx, func() {
		server.Stop()
		_ = srv.Close() // it only says that it was closed
	})
	defer stop()
	_ = srv.Serve(ln) // the same
}

// caller tells the API who calls, as the handshake of the stream has proven.
func (n *sn) caller(r *http.Request) (rpc.Caller, error) {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok {
		return rpc.Caller{}, rpc.ErrNoCertificate
	}
	if c.remote().hasExpired() {
		return rpc.Caller{}, rpc.ErrCertificateExpired
	}
	n.swarm.Network.mu.Lock()
	who := n.swarm.ids[c.remote().name]
	n.swarm.Network.mu.Unlock()
	id, err := identity.ParseIDString(who.spiffe)
	if err != nil {
		return rpc.Caller{}, fmt.Errorf("%w: %w", rpc.ErrNoCertificate, err)
	}
	svid, err := who.source.GetX509SVID()
	if err != nil {
		return rpc.Caller{}, fmt.Errorf("%w: %w", rpc.ErrNoCertificate, err)
	}
	return rpc.Caller{ID: id, Leaf: svid.Certificates[0], Exporter: func() ([]byte, error) { return []byte(exporter), nil }}, nil
}

// end ends this life; a crash says no goodbye.
func (n *sn) end(crash bool) {
	if n.cancel == nil {
		return
	}
	if crash {
		n.host.detach()
	}
	n.cancel()
	n.cancel = nil
	if !crash {
		n.tasks.Wait()
		n.host.detach()
	}
}

// up tells whether the node runs.
func (n *sn) up() bool { return n.cancel != nil }
