package dashboard

import (
	"maps"
	"strings"
)

// Counts is what a server does now, and what it has done.
type Counts struct {
	Live    bool              // the swarm can be asked
	Streams int               // open ones, of pages
	Logs    int               // that pages follow
	Asked   map[string]uint64 // documents that the swarm was asked for, by kind
	Failed  map[string]uint64 // those of them that did not come
}

// Counts returns what the server does now, and what it has done.
func (s *Server) Counts() Counts {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	return Counts{Live: h.link.State == "live", Streams: len(s.slots), Logs: len(s.following), Asked: maps.Clone(h.tally.asked), Failed: maps.Clone(h.tally.failed)}
}

// tally counts questions by the kinds of their documents, of which there are few.
type tally struct{ asked, failed map[string]uint64 }

func newTally() tally { return tally{map[string]uint64{}, map[string]uint64{}} }

// count notes that a document was asked for, and whether it came.
func (h *hub) count(name string, came bool) {
	kind, _, _ := strings.Cut(withoutPoints(name), "/")
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tally.asked[kind]++; !came {
		h.tally.failed[kind]++
	}
}
