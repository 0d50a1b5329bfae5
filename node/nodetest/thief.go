package nodetest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/fetch"
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
	id.source = issue(s, path)
	id.spiffe = id.source.id.String()
	h := s.Network.attach(id)
	h.swarmID = func() string { return SwarmID }
	return &Thief{swarm: s, id: id, host: h}
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

// Merge opens a merge stream at an SL and returns why it is refused there: it waits for a minute at most, then it is taken for let in.
func (t *Thief) Merge(at string) error {
	n := t.swarm.sl(at)
	before := len(n.refusals())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := t.host.dial(ctx, at, n.id.peerID, serviceMerge)
	if err != nil {
		return err
	}
	defer func() { _ = c.Reset() }()
	for ctx.Err() == nil {
		if all := n.refusals(); len(all) > before {
			return errors.New(all[len(all)-1])
		}
		_ = sleep(ctx, 10*time.Millisecond)
	}
	return nil
}

// Fetch asks an SL for its committed model and returns why it is refused there.
func (t *Thief) Fetch(at string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := t.host.dial(ctx, at, t.swarm.sl(at).id.peerID, serviceFetch)
	if err != nil {
		return err
	}
	return fetch.Over(ctx, c, fetch.Request{Kind: "model", Contract: Contract}, 1<<20, io.Discard)
}

// refusals returns why this node turned merge streams away, oldest first.
func (n *sl) refusals() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.refused
}

// refusalLog is a node's log that notes which merge streams it turned away.
type refusalLog struct {
	slog.Handler
	sl *sl
}

// Handle implements slog.Handler.
func (l refusalLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "merge stream refused" {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "err" {
				l.sl.mu.Lock()
				defer l.sl.mu.Unlock()
				l.sl.refused = append(l.sl.refused[:len(l.sl.refused):len(l.sl.refused)], a.Value.String())
			}
			return true
		})
	}
	return l.Handler.Handle(ctx, r)
}

// Enabled implements slog.Handler.
func (l refusalLog) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler.
func (l refusalLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return refusalLog{l.Handler.WithAttrs(attrs), l.sl}
}

// WithGroup implements slog.Handler.
func (l refusalLog) WithGroup(name string) slog.Handler {
	return refusalLog{l.Handler.WithGroup(name), l.sl}
}

// Voters is how many SNs of the leader's raft configuration vote.
func (ns *SNs) Voters() int {
	n := 0
	for _, x := range ns.swarm.sn(ns.swarm.Leader()).group.Servers() {
		if x.Voter {
			n++
		}
	}
	return n
}

// Member reports whether an SN is in the raft configuration, as a running SN sees it that was not banned.
func (ns *SNs) Member(name string) bool {
	for _, n := range ns.all {
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
