package top

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// points is how many rounds of a history are asked for at first, and more than twice as many are not kept.
	points = 300
	// repeated is how many of the rounds that are known are asked for again: more may have become known of them.
	repeated = 8
	// seldom is the time between two questions for a history to which no round has come.
	seldom = 5 * period
)

// History is document history/NAME.
type History struct {
	Run    uint64         `json:"run"`
	After  *uint64        `json:"after"`
	Rounds []HistoryRound `json:"rounds"`

	moved map[string]HistoryPeer // bytes of each peer, in the last round that tells them
}

// last is the number of the newest round that is known.
func (h *History) last() uint64 {
	if h == nil || len(h.Rounds) == 0 {
		return 0
	}
	return h.Rounds[len(h.Rounds)-1].Round
}

// joined are rounds that came behind those that are known, or in their place; nil: what came is not all, and those before it are not known.
func (h *History) joined(had *History) *History {
	switch {
	case h.After == nil:
		h.moved = map[string]HistoryPeer{}
	case had == nil || had.Run != h.Run:
		return nil
	default:
		older := slices.IndexFunc(had.Rounds, func(r HistoryRound) bool { return r.Round > *h.After })
		if older < 0 {
			older = len(had.Rounds)
		}
		fresh := h.Rounds
		h.Rounds, h.moved = append(had.Rounds[:older:older], fresh...), had.moved
	}
	for i := range h.Rounds {
		for _, p := range h.Rounds[i].Peers {
			if p.Sent != nil || p.Received != nil {
				h.moved[p.Node] = p
			}
		}
		h.Rounds[i].Peers = nil // nothing else of them is shown
	}
	if len(h.Rounds) > 2*points {
		h.thin()
	}
	return h
}

// thin leaves out every second of the older rounds, but none that had a failed attempt.
func (h *History) thin() {
	kept, old := h.Rounds[:0], len(h.Rounds)-points
	for i, r := range h.Rounds {
		if i >= old || i%2 == 0 || len(r.Failed) > 0 {
			kept = append(kept, r)
		}
	}
	h.Rounds = kept[max(0, len(kept)-2*points):]
}

// asksFor is what is asked for a document: of a history the rounds that are not known.
func (s *screen) asksFor(name string) string {
	h := s.known.history
	switch {
	case !strings.HasPrefix(name, "history/"):
		return name
	case h.last() > repeated && s.known.status != nil && s.known.status.Run == h.Run:
		return fmt.Sprintf("%s?after=%d", name, h.last()-repeated)
	}
	return fmt.Sprintf("%s?points=%d", name, points)
}

// rests reports whether a document is what it was: a history has all rounds that were committed.
func (s *screen) rests(name string, a *asked, now time.Time) bool {
	h, st := s.known.history, s.known.status
	if !strings.HasPrefix(name, "history/") || h == nil || st == nil || h.Run != st.Run || !a.wanted.IsZero() {
		return false
	}
	return (st.Committed == nil || h.last() >= st.Committed.Round) && now.Before(a.due.Add(seldom-period))
}
