package nodetest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/round"
)

// Thief holds the node key of an SL and an SVID of its own. Its methods are for the test's goroutine only.
type Thief struct {
	swarm *Swarm
	id    nodeID
	host  *host
}

// Thief copies a node's key to another machine, which has an SVID with this path.
func (s *Swarm) Thief(of, path string) *Thief {
	s.t.Helper()
	id := s.ids[of]
	id.name = "thief"
	var err error
	id.source, err = s.authority.Issue(path, 24*time.Hour)
	s.must(err)
	id.spiffe = "spiffe://swarm.test" + path
	s.Network.mu.Lock()
	s.ids[id.name] = id
	s.Network.mu.Unlock()
	return &Thief{swarm: s, id: id, host: s.Network.attach(id, "sl")}
}

// Register tries to register under a name and returns why it may not.
func (t *Thief) Register(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	api, err := t.swarm.client(t.id, t.host)
	if err != nil {
		return err
	}
	defer api.Close()
	return api.Register(ctx, client.Registration{
		Node: client.NodeInfo{Name: name, Role: identity.RoleSL, Host: t.id.name, FSPort: portFS, Runtime: "process"}, Key: t.id.key,
	})
}

// Merge opens a merge stream at an SL and returns why it is refused there.
func (t *Thief) Merge(at string) error { return t.knock(at, serviceMerge) }

// Fetch asks an SL for its committed model and returns why it is refused there.
func (t *Thief) Fetch(at string) error { return t.knock(at, serviceFetch) }

// knock waits until the SL has refused the stream, for a minute at most; then it is taken for let in.
func (t *Thief) knock(at, service string) error {
	n := t.swarm.sl(at)
	before := len(n.refusals())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := t.host.dial(ctx, at, n.id.peerID, service)
	if err != nil {
		return err
	}
	defer func() { _ = c.Reset() }()
	if service == serviceFetch {
		if err := json.NewEncoder(c).Encode(round.Ref{}); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		if all := n.refusals(); len(all) > before {
			return all[len(all)-1]
		}
		_ = sleep(ctx, 10*time.Millisecond)
	}
	return nil
}

// refusals returns why this node turned streams away, oldest first.
func (n *sl) refusals() []error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.refused
}

func (n *sl) noteRefusal(from *conn, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refused = append(n.refused[:len(n.refused):len(n.refused)], fmt.Errorf("%s: %w", from.remote().name, err))
}

// Member tells whether an SN is in the raft configuration, as a running SN sees it that was not banned.
func (s *Swarm) Member(name string) bool {
	for _, n := range s.order {
		if !n.up() || n.group.View().Banned(n.id.peerID) != nil || n.id.name == name {
			continue
		}
		for _, m := range n.group.Servers() {
			if m.Name == name {
				return true
			}
		}
		return false
	}
	return false
}
