package identity

import (
	"cmp"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// CrowdLimits bound the connections of one SPIFFE ID.
type CrowdLimits struct {
	// Named is for an ID that belongs to one node; 0: 64.
	Named int
	// Shared is for an ID that many nodes have; 0: 1024.
	Shared int
}

// Crowd bounds the proven connections of each SPIFFE ID at one listener. One too many takes the place of the oldest that
// comes from the source address that has most: under a shared ID whoever takes many takes his own. It is safe for
// concurrent use.
type Crowd struct {
	limits CrowdLimits
	log    *slog.Logger

	mu      sync.Mutex
	members map[string][]*member // by SPIFFE ID, oldest first
	noticed time.Time
}

type member struct {
	source netip.Prefix
	drop   func()
}

// NewCrowd returns an empty crowd.
func NewCrowd(limits CrowdLimits, log *slog.Logger) *Crowd {
	limits.Named, limits.Shared = cmp.Or(limits.Named, 64), cmp.Or(limits.Shared, 1024)
	return &Crowd{limits: limits, log: log, members: map[string][]*member{}}
}

// Enter counts a connection until leave is called. drop, which must end the connection, is called in a goroutine of its own
// if that has to give way to another.
func (c *Crowd) Enter(id ID, from net.Addr, drop func()) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, m := id.String(), &member{source: SourceOf(from), drop: drop}
	c.members[key] = append(c.members[key], m)
	limit := c.limits.Shared
	if id.NodeName() != "" {
		limit = c.limits.Named
	}
	if len(c.members[key]) > limit {
		out := busiest(c.members[key])
		c.remove(key, out)
		go out.drop()
		if now := time.Now(); now.Sub(c.noticed) >= gateNotice {
			c.noticed = now
			c.log.Warn("too many connections of one SPIFFE ID: dropping the oldest of the busiest address", "spiffe_id", key, "limit", limit, "remote", out.source.String())
		}
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.remove(key, m)
	}
}

// remove takes out a member if it is still there. The caller holds mu.
func (c *Crowd) remove(key string, m *member) {
	list := slices.DeleteFunc(c.members[key], func(x *member) bool { return x == m })
	if c.members[key] = list; len(list) == 0 {
		delete(c.members, key)
	}
}

// busiest returns the oldest member of the source that has most.
func busiest(list []*member) *member {
	count := map[netip.Prefix]int{}
	for _, m := range list {
		count[m.source]++
	}
	out := list[0]
	for _, m := range list {
		if count[m.source] > count[out.source] {
			out = m
		}
	}
	return out
}
