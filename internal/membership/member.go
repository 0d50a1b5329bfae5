// Package membership is how an SN comes to be one of its swarm: it founds the swarm or joins it, proves who it is, checks who joins, and
// learns when the swarm was recovered without it; and how other nodes register and leave.
package membership

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/version"
)

// Options say how an SN finds its swarm.
type Options struct {
	SentinelHost             string // equal to Host (after resolving): this node is the Sentinel
	P2PPort, APIPort, FSPort int
	Proxied                  bool   // Host is a proxy's, which may be that of other nodes too: this is the Sentinel only by its name
	APIService               string // HOST:PORT under which others reach the API, through a proxy; empty: Host and APIPort
	SentinelFSPort           int
	Admit                    bool          // a swarm that this node founds has operators admit its SNs
	Meant                    bool          // somebody said in so many words that this node founds a swarm
	NoFound                  bool          // it must not found one
	Join                     []string      // HOST[:PORT] of SNs' file servers to ask before bootstrapping
	Invitation               []byte        // secret by which this SN was invited; nil: it was not, or nobody admits SNs
	FoundAfter               time.Duration // before it founds a swarm this node listens so long for one that looks for it
	Version                  string        // of the program, for backups
}

// Config is what a Member needs.
type Config struct {
	Options
	Name, Host, StateDir string
	SwarmID              string   // of the swarm that this node founds; empty: a random one
	IPs                  []net.IP // of Host
	Lookup               address.Lookup
	Dial                 func(ctx context.Context, network, address string) (net.Conn, error)
	Source               identity.Provider
	Domains              identity.Domains
	Key                  crypto.PrivKey
	PeerID               string
	Pin                  *Pin
	Log                  *slog.Logger
}

// Member is an SN as a member of its swarm, or one that is to be. It proves joins and checks them for consensus.
type Member struct {
	cfg      Config
	host     p2p.Network
	sentinel bool        // known once Enter has begun
	seekers  chan seeker // who has looked for another node at this address
}

var _ consensus.Prover = (*Member)(nil)

// New makes a Member. UseHost must be called before any other method but Missed.
func New(cfg Config) *Member { return &Member{cfg: cfg, seekers: make(chan seeker, 1)} }

// UseHost gives the member the node's end of the network.
func (s *Member) UseHost(host p2p.Network) { s.host = host }

// Address is where other SNs reach this one, as consensus writes it.
func (s *Member) Address() string {
	return consensus.FormatAddress(s.cfg.PeerID, address.Join(s.cfg.Host, s.cfg.P2PPort))
}

// Enter founds the swarm or joins it.
func (s *Member) Enter(ctx context.Context, group *consensus.Group) error {
	log := s.cfg.Log
	var err error
	if s.sentinel, err = s.isSentinel(ctx, group.HasState(), s.cfg.Lookup.Resolve); err != nil {
		return err
	}
	servers := s.servers()
	found := s.sentinel && !group.HasState() && len(s.cfg.Join) == 0
	if found {
		if s.cfg.NoFound {
			return fmt.Errorf("--no-found: this node has no state in %s and is its own Sentinel, so it would found a NEW swarm: to join one that exists, start it with --join HOST of one of its SNs; to found one, leave --no-found out", s.cfg.StateDir)
		}
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
		if err := s.cfg.Pin.Set(id); err != nil {
			return fmt.Errorf("%w: a Sentinel without its old state can't found the swarm anew; start it with --join HOST of another SN", err)
		}
		s.sayFounding(id)
		register, err := s.registration()
		if err != nil {
			return err
		}
		first := []state.Command{s.founding(id)}
		for _, b := range bundles(s.cfg.Source, s.cfg.Domains) { // before what is checked against them
			first = append(first, b)
		}
		return group.Bootstrap(ctx, append(first, register)...)
	}
	var via []string
	if !group.HasState() {
		b, err := fetchBundle(ctx, s.host, s.cfg.Pin, servers, log)
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
	err = group.Join(ctx, via, consensus.JoinRequest{Name: s.cfg.Name, Address: s.Address(), SwarmID: s.cfg.Pin.SwarmID(), Register: register})
	if err == nil && s.cfg.Admit && group.View().Admit == "" {
		log.Warn("--admit changes nothing: this swarm was founded without it, and SNs join it without an operator's word")
	}
	return err
}

// sayFounding tells of a new swarm. Who has only copied the Sentinel's line with an address of his own did not want one.
func (s *Member) sayFounding(id string) {
	if s.cfg.Meant || s.cfg.FoundAfter <= 0 {
		s.cfg.Log.Info("founding a swarm", "swarm_id", id, "operators_admit", s.cfg.Admit)
		return
	}
	s.cfg.Log.Warn("founding a swarm: this SN founds a NEW swarm, as --host-ip is --sentinel-ip; to join one that exists, stop this SN, delete its state directory and start it with --join HOST of one of that swarm's SNs; if a new one is meant, --sentinel says so",
		"swarm_id", id, "operators_admit", s.cfg.Admit, "state_dir", s.cfg.StateDir)
}

// founding is the first command of a swarm's log.
func (s *Member) founding(swarmID string) state.InitSwarm {
	c := state.InitSwarm{SwarmID: swarmID, AtMS: nowMS()}
	if s.cfg.Admit {
		c.Founder = &state.Admission{Name: s.cfg.Name, PeerID: s.cfg.PeerID, AtMS: c.AtMS}
	}
	return c
}

// isSentinel reports whether this node is the Sentinel. Nodes behind a proxy may have its address in common, and are told apart by
// their names. A name that does not resolve is another's that has not started yet, as
// a container's name is known only while it runs: a node that has no swarm yet waits for it.
func (s *Member) isSentinel(ctx context.Context, hasState bool, resolve func(ctx context.Context, flag, host string) ([]net.IP, error)) (bool, error) {
	host := s.cfg.SentinelHost
	if host == "" {
		return false, nil // it joins
	}
	if strings.EqualFold(host, s.cfg.Host) {
		return true, nil
	}
	if s.cfg.Proxied {
		return false, nil
	}
	for said := (time.Time{}); ; {
		ips, err := resolve(ctx, "sentinel-ip", host)
		switch {
		case err == nil:
			return address.Same(s.cfg.IPs, ips), nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case hasState || len(s.cfg.Join) > 0: // it finds its swarm without it
			return false, nil
		}
		if time.Since(said) > waitNotice {
			said = time.Now()
			s.cfg.Log.Info("cannot reach an SN yet; trying again", "file_server", address.Join(host, s.cfg.SentinelFSPort), "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(contactRetry):
		}
	}
}

// servers are the file servers that may give a bootstrap bundle.
func (s *Member) servers() []string {
	var out []string
	for _, j := range s.cfg.Join {
		if j, err := address.FileServer(j); err == nil { // checked at the start
			out = append(out, j)
		}
	}
	if !s.sentinel && s.cfg.SentinelHost != "" {
		out = append(out, address.Join(s.cfg.SentinelHost, s.cfg.SentinelFSPort))
	}
	return out
}

// registration is this node's, with what proves it. The swarm must be known.
func (s *Member) registration() (state.RegisterNode, error) {
	token := make([]byte, 32) // SNs speak for themselves over p2p; nobody ever holds this token
	_, _ = rand.Read(token)   // never fails
	hash := sha256.Sum256(token)
	return prove(s.cfg.Source, s.cfg.Pin.SwarmID(), state.RegisterNode{
		Node: state.Node{
			Name: s.cfg.Name, Role: string(identity.RoleSN), SPIFFEID: s.cfg.Source.ID().String(), PeerID: s.cfg.PeerID, Host: s.cfg.Host,
			P2PPort: uint16(s.cfg.P2PPort), APIPort: uint16(s.cfg.APIPort), FSPort: uint16(s.cfg.FSPort), //nolint:gosec // checked ports
			APIService: s.cfg.APIService, Runtime: "process", Version: version.Read().String(), Sentinel: s.sentinel,
		},
		TokenHash: hex.EncodeToString(hash[:]), AtMS: nowMS(),
	})
}

func nowMS() int64 { return time.Now().UnixMilli() }
