package membership

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/p2p"
)

const (
	bundleProtocol = "/swarm/bundle/1"
	bundleLimit    = 64 << 10
	contactRetry   = time.Second
	// waitNotice is how often a node that waits for the same thing says so again.
	waitNotice = 30 * time.Second
)

// bundle is what a joining SN takes from a file server: which swarm this is and where its SNs are.
type bundle struct {
	SwarmID string   `json:"swarm_id"`
	SNs     []string `json:"sns"` // peerID@host:port
}

// ServeBundle answers joining SNs, which know no swarm yet.
func (s *Member) ServeBundle(group *consensus.Group) {
	policy := p2p.Policy{Roles: []identity.Role{identity.RoleSN}, AllowNoSwarm: true}
	s.host.Handle(bundleProtocol, policy, func(_ context.Context, c p2p.Conn) {
		defer c.Close()
		view := group.View()
		b := bundle{SwarmID: view.SwarmID}
		for _, n := range view.NodesByRole(string(identity.RoleSN)) {
			b.SNs = append(b.SNs, consensus.FormatAddress(n.PeerID, address.Join(n.Host, int(n.P2PPort))))
		}
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_ = p2p.WriteMessage(c, b) // a joiner that is gone asks again
	})
}

// fetchBundle asks file servers in turn until one has answered, saying what it waits for. It pins the swarm. A server of
// another swarm is an error that ends the search.
func fetchBundle(ctx context.Context, host p2p.Network, swarm *Pin, servers []string, log *slog.Logger) (bundle, error) {
	last, said := "", time.Time{}
	for i := 0; ; i++ {
		server := servers[i%len(servers)]
		b, err := askBundle(ctx, host, swarm, server)
		var other *p2p.SwarmMismatchError
		switch {
		case err == nil:
			return b, nil
		case ctx.Err() != nil:
			return bundle{}, ctx.Err()
		case errors.As(err, &other):
			return bundle{}, fmt.Errorf("join through %s: %w: check --sentinel-ip and --join, or give another --state-dir (and no old --swarm-id) to join this swarm as a new node", server, err)
		}
		if msg := err.Error(); msg != last || time.Since(said) > waitNotice {
			last, said = msg, time.Now()
			log.Info("cannot reach an SN yet; trying again", "file_server", server, "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(contactRetry):
		}
	}
}

func askBundle(ctx context.Context, host p2p.Network, swarm *Pin, server string) (bundle, error) {
	peer, err := host.Contact(ctx, server, identity.RoleSN)
	if err != nil {
		return bundle{}, err
	}
	if peer.SwarmID == "" {
		return bundle{}, errors.New("it has not joined a swarm itself yet")
	}
	if err := swarm.Learn(peer.SwarmID); err != nil {
		return bundle{}, err
	}
	h, p, err := net.SplitHostPort(server)
	if err != nil {
		return bundle{}, err
	}
	port, _ := strconv.Atoi(p)
	s, err := host.Dial(ctx, p2p.Addr{PeerID: peer.ID, Host: h, Port: port}, bundleProtocol, false, func(p p2p.Peer) error { return p.Is(identity.RoleSN) })
	if err != nil {
		return bundle{}, err
	}
	defer s.Close()
	_ = s.SetDeadline(time.Now().Add(5 * time.Second))
	return readBundle(s, swarm.SwarmID())
}

// readBundle reads what an SN says that has proven to be of a swarm.
func readBundle(r io.Reader, swarmID string) (bundle, error) {
	var b bundle
	if err := p2p.ReadMessage(r, bundleLimit, &b); err != nil {
		return bundle{}, fmt.Errorf("read bootstrap bundle: %w", err)
	}
	b.SNs = slices.DeleteFunc(b.SNs, func(a string) bool { _, _, err := consensus.ParseAddress(a); return err != nil })
	if len(b.SNs) == 0 {
		return bundle{}, errors.New("it is still founding the swarm")
	}
	if b.SwarmID != swarmID {
		return bundle{}, fmt.Errorf("its bootstrap bundle is of swarm %.40q, it said to be of %q", b.SwarmID, swarmID)
	}
	return b, nil
}
