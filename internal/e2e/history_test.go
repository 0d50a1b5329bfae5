package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestCurvesSurviveTheLeader: the SN that leads is killed while peers train, and another one shows every round of the training, with what
// peers have reported of it. `swarmctl top`, which asked the first, goes on with another too.
func TestCurvesSurviveTheLeader(t *testing.T) {
	e2etest.NeedPython(t)
	s := newStatefulSet(t)
	s.trains(2, "MIN_PEERS=2", "BATCHES=10000", "BATCH_SECONDS=0.1")
	type history struct {
		Rounds []struct {
			Round  uint64
			Digest string
			Phases struct{ Exchange *uint64 } `json:"durations_ms"`
			Peers  []struct{ Contributed bool }
		}
		Thinned uint64
	}
	curve := func(sn int) (h history) {
		code, out := s.at(sn, "get", "contract", "history", "e2e", "-o", "json")
		if code == 0 {
			if err := json.Unmarshal([]byte(out), &h); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		return h
	}
	s.Until("12 rounds", func() bool { return len(curve(0).Rounds) >= 12 })
	led := 0
	code, out := s.at(0, "list", "nodes", "-o", "json")
	var nodes struct {
		Nodes []struct {
			Name   string
			Leader bool
		}
	}
	if err := json.Unmarshal([]byte(out), &nodes); code != 0 || err != nil {
		t.Fatalf("%d %v %s", code, err, out)
	}
	for _, n := range nodes.Nodes {
		if n.Leader {
			if _, err := fmt.Sscanf(strings.TrimPrefix(n.Name, "sn-"), "%d", &led); err != nil {
				t.Fatal(err)
			}
		}
	}
	other := (led + 1) % 3
	screen := s.top(led, other)
	screen.shows(asked(led), "contract", "e2e", "minPeers", "PEER", "sl-1", "round")
	screen.types("?")
	screen.shows("show the next contract")
	screen.types("?")
	s.pods[led].Kill()
	from := uint64(0)
	s.Until("2 more rounds at another SN", func() bool {
		h := curve(other)
		if n := len(h.Rounds); n > 0 && from == 0 {
			from = h.Rounds[n-1].Round
		}
		return from > 0 && h.Rounds[max(1, len(h.Rounds))-1].Round >= from+2
	})
	columns := uint16(120)
	s.Until("the screen at another SN", func() bool { // of a line that changes only that is written which is new: it is drawn whole when the size changes
		columns++
		screen.resize(40, columns)
		return screen.seen.Has(asked(other))
	})
	screen.quits()
	h := curve(other)
	heard := 0
	for i, r := range h.Rounds {
		if r.Round != uint64(i+1) || r.Digest == "" || len(r.Peers) < 2 {
			t.Errorf("the curve is not whole: %+v", h)
		}
		if r.Phases.Exchange != nil { // which is known by what peers reported to whoever led
			heard++
		}
	}
	if h.Thinned != 0 || heard < len(h.Rounds)/2 { // those of the last seconds before the leader was killed may not have been told the others
		t.Errorf("of %d of %d rounds is known how long the exchange took, %d are left out", heard, len(h.Rounds), h.Thinned)
	}
}
