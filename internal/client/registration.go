package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	p2pcrypto "github.com/libp2p/go-libp2p/core/crypto"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/consensus/task/onwire"
	"github.com/swarmd/swarmd/identity"
)

// Binding of a registration to its TLS connection, as internal/rpc has it; a test holds them equal.
const (
	exporterLabel = "EXPORTER-swarmd-registration-1"
	exporterBytes = 32
)

// NodeInfo is what a node tells about itself when it registers.
type NodeInfo struct {
	Name    string
	Role    identity.Role // SL or SWOP; SNs join instead
	Host    string        // advertised address or host name
	FSPort  uint32        // 0 for a node without file server
	Runtime string        // "process" or "docker"
	Version string        // of the program
	Offer   *task.Offer   // of a SWOP: what it takes tasks for; nil: for nothing
}

// Registration is what it takes to register a node, now and again when the swarm refuses the token.
type Registration struct {
	Node NodeInfo
	Key  p2pcrypto.PrivKey // the node key
}

// errLeaving is why a node is not registered any more.
var errLeaving = errors.New("the node is leaving")

// registrar registers our node, and knows what it takes to speak for it. Safe for concurrent use.
type registrar struct {
	client *Client

	// registering holds one value while somebody registers, so that many refused calls register once. It is no mutex: registering takes as long
	// as SNs are away, and who waits for it may have less time.
	registering chan struct{}

	// mu guards what follows.
	mu      sync.Mutex
	token   string
	speaker *Registration  // what Register was given, nil before
	leaving bool           // LeaveNode was called: nothing registers again
	bearing *x509svid.SVID // that the last registration was signed with
	wanted  bool           // the swarm asks for another registration
	renewed time.Time      // when Renew registered last
}

// Register makes this client speak for a node: it proves the node key and the SVID on one connection and keeps the
// token. It retries until ctx ends or the swarm refuses. Later calls that are refused for their token register again by
// themselves. The client keeps the key.
func (c *Client) Register(ctx context.Context, reg Registration) error {
	release, err := c.registrar.alone(ctx)
	if err != nil {
		return fmt.Errorf("register node %q: %w", reg.Node.Name, err)
	}
	defer release()
	c.registrar.setLeaving(false)
	return c.registrar.register(ctx, reg)
}

// Renew registers the node again if its SVID is a newer one than it registered with, or if the swarm has no proof of its
// registration: other nodes hold it to what an SVID has signed that is good now. Else it does nothing, at no cost. It retries until
// ctx ends.
func (c *Client) Renew(ctx context.Context) error { return c.registrar.renew(ctx) }

// alone waits until nobody else registers, or ctx ends. Until release is called nobody else does.
func (r *registrar) alone(ctx context.Context) (release func(), err error) {
	select {
	case r.registering <- struct{}{}:
		return func() { <-r.registering }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// register does it; the caller is alone.
func (r *registrar) register(ctx context.Context, reg Registration) error {
	if err := r.client.ready(ctx); err != nil {
		return err
	}
	err := r.client.try(ctx, callOptions{anySwarm: true}, func(ctx context.Context, sn string) error {
		ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		if r.isLeaving() { // who leaves may have had no time to wait for this to end
			return &Error{Message: errLeaving.Error(), err: errLeaving}
		}
		return r.registerAt(ctx, sn, reg)
	})
	if err != nil {
		return fmt.Errorf("register node %q: %w", reg.Node.Name, err)
	}
	return nil
}

func (r *registrar) isLeaving() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leaving
}

func (r *registrar) setLeaving(leaving bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaving = leaving
}

// setWanted notes whether the swarm asks for another registration.
func (r *registrar) setWanted(wanted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = wanted
}

// setHeaders puts on what a call for our node carries.
func (r *registrar) setHeaders(h http.Header) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.speaker != nil {
		h.Set(headerNode, r.speaker.Node.Name)
		h.Set(headerToken, r.token)
	}
}

func (r *registrar) currentToken() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.token
}

// canRegister reports whether there is a node to register again.
func (r *registrar) canRegister() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.speaker != nil && !r.leaving
}

// again registers unless another call has done so since the refused token was read.
func (r *registrar) again(ctx context.Context, refused string) error {
	release, err := r.alone(ctx)
	if err != nil {
		return err
	}
	defer release()
	r.mu.Lock()
	reg, token, leaving := r.speaker, r.token, r.leaving
	r.mu.Unlock()
	if leaving {
		return errLeaving
	}
	if token != refused {
		return nil
	}
	return r.register(ctx, *reg)
}

// renewAgain is the least time between two registrations that the swarm asks for.
const renewAgain = 30 * time.Second

// renew is Client.Renew.
func (r *registrar) renew(ctx context.Context) error {
	release, err := r.alone(ctx)
	if err != nil {
		return err
	}
	defer release()
	source := r.client.cfg.Source
	r.mu.Lock()
	reg, bearing, asked := r.speaker, r.bearing, r.wanted && time.Since(r.renewed) >= renewAgain
	none := reg == nil || r.leaving || source == nil
	r.mu.Unlock()
	if none {
		return nil
	}
	svid, err := source.GetX509SVID()
	if err != nil {
		return fmt.Errorf("get own SVID: %w", err)
	}
	if !asked && (bearing == nil || svid.Certificates[0].Equal(bearing.Certificates[0])) {
		return nil
	}
	r.mu.Lock()
	r.renewed = time.Now()
	r.mu.Unlock()
	return r.register(ctx, *reg)
}

// registerAt is one attempt on one SN.
func (r *registrar) registerAt(ctx context.Context, sn string, reg Registration) error {
	p, err := r.openProof(ctx, sn)
	if err != nil {
		return err
	}
	defer p.close()
	chal := connect.NewRequest(&swarmv1.ChallengeRequest{})
	r.client.setHeaders(chal.Header(), callOptions{})
	challenge, err := service[swarmv1connect.NodeServiceClient](p.stubs, false).Challenge(ctx, chal)
	if err != nil {
		return err
	}
	if err := r.client.checkSwarm(sn, challenge.Header()); err != nil {
		return err
	}
	msg, err := r.proof(reg, challenge.Msg.GetNonce(), p)
	if err != nil {
		return &Error{Message: err.Error(), err: err}
	}
	if r.isLeaving() { // since the challenge was asked for
		return &Error{Message: errLeaving.Error(), err: errLeaving}
	}
	req := connect.NewRequest(msg)
	r.client.setHeaders(req.Header(), callOptions{})
	res, err := service[swarmv1connect.NodeServiceClient](p.stubs, false).Register(ctx, req)
	if err != nil {
		return err
	}
	if err := r.client.checkSwarm(sn, res.Header()); err != nil {
		return err
	}
	r.mu.Lock()
	r.token, r.speaker, r.bearing, r.wanted = encodeToken(res.Msg.GetToken()), &reg, p.svid, false
	r.mu.Unlock()
	r.client.dir.learn(res.Msg.GetSwarmId(), res.Header().Get(headerSwarmID), res.Msg.GetSns())
	return nil
}

// proof is one connection with what is known of it.
type proof struct {
	stubs    *stubs
	exporter []byte
	svid     *x509svid.SVID // that the connection was made with
	close    func()
}

// openProof makes a connection of its own: both calls of a registration must travel on it, because the second one signs
// the value that its TLS session exports.
func (r *registrar) openProof(ctx context.Context, sn string) (*proof, error) {
	var svid *x509svid.SVID
	if r.client.cfg.Source != nil {
		var err error
		if svid, err = r.client.cfg.Source.GetX509SVID(); err != nil {
			return nil, &dialError{fmt.Errorf("get own SVID: %w", err)}
		}
	}
	if r.client.cfg.Transport != nil {
		if svid == nil || r.client.cfg.Exporter == nil {
			return nil, &Error{Message: "to register over a transport of one's own takes a source and an exporter"}
		}
		exporter, err := r.client.cfg.Exporter()
		return &proof{newStubs(r.client.cfg.Transport, r.client.cfg.Transport, sn), exporter, svid, func() {}}, err
	}
	conn, err := r.client.connections.dial(ctx, svid, sn, "h2")
	if err != nil {
		return nil, err
	}
	state := conn.ConnectionState()
	exporter, err := state.ExportKeyingMaterial(exporterLabel, nil, exporterBytes)
	if err != nil {
		_ = conn.Close() // the exporter's error says more
		return nil, fmt.Errorf("export keying material: %w", err)
	}
	t := newTransport()
	t.DialTLSContext = only(conn)
	return &proof{newStubs(t, t, sn), exporter, svid, func() {
		t.CloseIdleConnections()
		_ = conn.Close() // nothing is in flight
	}}, nil
}

// only hands out this connection once: whoever asks for a second one has lost the first, and with it the challenge.
func only(conn *tls.Conn) func(context.Context, string, string) (net.Conn, error) {
	var used atomic.Bool
	return func(context.Context, string, string) (net.Conn, error) {
		if used.Swap(true) {
			return nil, errors.New("connection lost during registration")
		}
		return conn, nil
	}
}

// proof signs: the node key signs challenge and connection, the SVID's key signs for the node key.
func (r *registrar) proof(reg Registration, nonce []byte, p *proof) (*swarmv1.RegisterRequest, error) {
	id, err := identity.PeerID(reg.Key)
	if err != nil {
		return nil, err
	}
	public, err := p2pcrypto.MarshalPublicKey(reg.Key.GetPublic())
	if err != nil {
		return nil, fmt.Errorf("encode node key: %w", err)
	}
	swarm, n := r.client.PinnedSwarmID(), reg.Node
	nodeSig, err := reg.Key.Sign(identity.RegistrationMessage(nonce, p.exporter, swarm, n.Name, n.Role, id.String()))
	if err != nil {
		return nil, fmt.Errorf("sign with node key: %w", err)
	}
	svidSig, err := identity.SignWithSVID(p.svid, identity.OwnershipMessage(swarm, n.Name, id.String()))
	if err != nil {
		return nil, fmt.Errorf("sign with SVID key: %w", err)
	}
	var addressSig []byte
	if n.Role == identity.RoleSWOP {
		if addressSig, err = identity.SignWithSVID(p.svid, identity.AddressMessage(swarm, n.Name, n.Host)); err != nil {
			return nil, fmt.Errorf("sign with SVID key: %w", err)
		}
	}
	node := &swarmv1.Node{
		Name: n.Name, Role: string(n.Role), PeerId: id.String(), Host: n.Host, FsPort: n.FSPort, Runtime: n.Runtime, Version: n.Version,
	}
	node.Offer = onwire.OfferOf(n.Offer)
	return &swarmv1.RegisterRequest{
		Node:          node,
		NodePublicKey: public, Nonce: nonce, NodeSignature: nodeSig, SvidSignature: svidSig, AddressSignature: addressSig,
	}, nil
}
