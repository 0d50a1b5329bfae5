package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestCurvesSurviveTheLeader: the SN that leads is killed while peers train, and another one shows every round of the training, with what
// peers have reported of it. `swarmctl top`, which asked the first, goes on with another too, and has the figures that swarmctl prints. It says
// that a peer is dead, and without a quorum that it is stale, for as long as there is none. The SNs have noticed all of it, and tell it as events.
func TestCurvesSurviveTheLeader(t *testing.T) {
	e2etest.NeedPython(t)
	s := newStatefulSet(t)
	sls := s.trains(2, "MIN_PEERS=2", "BATCHES=10000", "BATCH_SECONDS=0.1", "EPOCHS=1000", "LOSS=1")
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
	screen.shows("live for", fmt.Sprintf("SN asked sn-%d", led), "contract e2e", "minPeers 2", "2 SLs; all are well")
	screen.types("?")
	screen.shows("show the next contract")
	screen.types("?")
	s.until(led, "pause", "contract", "e2e")
	screen.shows("contract e2e  paused", "paused by spiffe://")
	screen.agrees(led)
	s.until(led, "resume", "contract", "e2e")
	screen.shows("contract e2e  training")
	s.pods[led].Kill()
	from := uint64(0)
	s.Until("2 more rounds at another SN", func() bool {
		h := curve(other)
		if n := len(h.Rounds); n > 0 && from == 0 {
			from = h.Rounds[n-1].Round
		}
		return from > 0 && h.Rounds[max(1, len(h.Rounds))-1].Round >= from+2
	})
	screen.shows("live for", fmt.Sprintf("SN asked sn-%d", other), fmt.Sprintf("sn-%d dead", led))
	screen.resize(30, 100)
	screen.shows("live for", "q quit")
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

	sls[1].Kill()
	screen.shows("node is dead", "sl-2 dead", "to do  start sl-2 again")
	third := 3 - led - other
	s.noticed(other, "leader", func(e noticed) bool { return e.Node == fmt.Sprintf("sn-%d", led) })
	s.noticed(other, "leader", func(e noticed) bool {
		return e.Node != fmt.Sprintf("sn-%d", led) && strings.Contains(e.Text, fmt.Sprintf("after sn-%d", led))
	})
	s.noticed(other, "silent", func(e noticed) bool { return e.Node == fmt.Sprintf("sn-%d", led) })
	s.noticed(other, "silent", func(e noticed) bool { return e.Node == "sl-2" })
	s.pods[third].Kill()
	screen.shows("STALE for", "no quorum: 1 of 3 SNs answer", "to do  start one of", "contract e2e")
	screen.keeps("STALE for", "live for", 5*time.Second) // some documents come without an error, and some do not
	s.noticed(other, "quorum_lost", func(e noticed) bool {
		return e.Node == fmt.Sprintf("sn-%d", other) && strings.Contains(e.Text, "1 of 3")
	})
	s.pods[third] = s.start(third)
	screen.shows("live for", "sl-2 dead")
	s.noticed(other, "quorum_found", func(e noticed) bool { return e.Node == fmt.Sprintf("sn-%d", other) })
	s.noticed(third, "silent", func(e noticed) bool { return e.Node == "sl-2" }) // it was restarted
	screen.quits()
}

// noticed is an event as swarmctl prints it.
type noticed struct{ Node, Text, By string }

// noticed waits until an SN tells of an event of a kind that is meant.
func (s *statefulSet) noticed(sn int, kind string, meant func(noticed) bool) {
	s.T.Helper()
	s.Until("event "+kind, func() bool {
		code, out := s.at(sn, "get", "events", "--kind", kind, "-o", "json")
		var said struct{ Events []noticed }
		return code == 0 && json.Unmarshal([]byte(out), &said) == nil && slices.ContainsFunc(said.Events, func(e noticed) bool { return e.By != "" && meant(e) })
	})
}
