package identity

import (
	"net/netip"
	"slices"
	"time"
)

// gateQueues are a gate's connections by source and phase, with who comes next. The gate's mu guards them.
type gateQueues struct {
	sources map[netip.Prefix]*gateSource
	sites   map[netip.Prefix]*gateSite
	count   [gatePhases]int
	turns   uint64
}

// put brings a connection into another phase.
func (q *gateQueues) put(c *GatedConn, to gatePhase) {
	s := q.sources[c.source]
	if s == nil {
		s = &gateSource{site: q.siteOf(c.source)}
		s.site.sources++
		q.sources[c.source] = s
	}
	if c.phase < gatePhases {
		list := s.open[c.phase]
		i := slices.Index(list, c)
		s.open[c.phase] = slices.Delete(list, i, i+1)
		q.count[c.phase]--
		s.site.count[c.phase]--
	}
	q.turns++
	c.phase, c.since, c.turn = to, time.Now(), q.turns
	if to < gatePhases {
		s.open[to] = append(s.open[to], c)
		q.count[to]++
		s.site.count[to]++
		return
	}
	for _, list := range s.open {
		if len(list) > 0 {
			return
		}
	}
	delete(q.sources, c.source)
	if s.site.sources--; s.site.sources == 0 {
		delete(q.sites, s.site.prefix)
	}
}

// siteOf returns the site of a source: of an IPv4 address that itself.
func (q *gateQueues) siteOf(source netip.Prefix) *gateSite {
	prefix := source
	if source.Addr().Is6() {
		prefix, _ = source.Addr().Prefix(48)
	}
	if q.sites[prefix] == nil {
		q.sites[prefix] = &gateSite{prefix: prefix}
	}
	return q.sites[prefix]
}

// largest returns the address that has the most in this phase, of several the one whose oldest is oldest.
func (q *gateQueues) largest(p gatePhase) *gateSource {
	var most *gateSource
	highest := 0
	for _, s := range q.sources {
		if len(s.open[p]) == 0 {
			continue
		}
		if n := s.load(p, 0); most == nil || n > highest || n == highest && s.open[p][0].turn < most.open[p][0].turn {
			most, highest = s, n
		}
	}
	return most
}

// neediest returns whose turn it is: who has waited longest, of the addresses that have the fewest handshakes.
func (q *gateQueues) neediest() *GatedConn {
	var best *GatedConn
	fewest := 0
	for _, s := range q.sources {
		if len(s.open[gateWaiting]) == 0 {
			continue
		}
		c, n := s.open[gateWaiting][0], s.load(gateHandshake, 0)
		if best == nil || n < fewest || n == fewest && c.turn < best.turn {
			best, fewest = c, n
		}
	}
	return best
}
