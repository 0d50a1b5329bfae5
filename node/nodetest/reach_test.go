package nodetest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	reachpairs "github.com/swarmd/swarmd/internal/reach/pairs"
	"github.com/swarmd/swarmd/node/nodetest"
)

// beats is within how long what a node knows shows: two heartbeats.
const beats = 2 * beat

// TestReach: who has a connection with whom shows as nodes tell it with their heartbeats, and as soon as that changes.
func TestReach(t *testing.T) {
	cfg := nodetest.Config{SNs: 1, SLs: 3, MinPeers: 2, ExpectedPeers: 3, Steps: 200, Think: think, Calm: calm}
	history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
		enrolled(s, 3)
		s.Until("a round", func() bool { return s.Round() > 0 })
		time.Sleep(beats)
		all := []string{"sl-0 3/3", "sl-1 3/3", "sl-2 3/3", "sn-0 3/3"}
		shows(t, s, "all is well", all)

		s.Network.Cut("sl-0", "sl-1")
		s.Network.HangUp("sl-0", "sl-1")
		time.Sleep(dialTimeout + redial + beats) // a dial fails
		shows(t, s, "a link is cut", []string{"sl-0 2/3 (not sl-1)", "sl-1 2/3 (not sl-0)", "sl-2 3/3", "sn-0 3/3"},
			"none: sl-0 and sl-1", "sl-0 cannot open sl-1:30305 (TCP), which does not answer, for ", "check on the host of sl-0: swarmctl identity check sl-1:30305")

		s.Network.Heal("sl-0", "sl-1")
		time.Sleep(redial + beats)
		shows(t, s, "it is whole again", all)
		agree(t, s, three...)
	})
}

const (
	dialTimeout = 10 * time.Second // of a dial into silence
	redial      = 10 * time.Second // the longest pause between two of them
)

// reaching is what swarmctl makes of what the swarm tells.
func reaching(t *testing.T, s *nodetest.Swarm) *reachpairs.Table {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	list, err := s.Operator().ListNodes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []reachpairs.Node
	for _, n := range list.GetNodes() {
		if n.GetLive() {
			nodes = append(nodes, reachpairs.Node{Name: n.GetName(), Role: n.GetRole(), Links: n.GetLinks()})
		}
	}
	return reachpairs.Tabulate(nodes)
}

// shows compares what is told, by node and in words.
func shows(t *testing.T, s *nodetest.Swarm, when string, want []string, words ...string) {
	t.Helper()
	table := reaching(t, s)
	var got []string
	for _, n := range table.Nodes {
		got = append(got, fmt.Sprint(n.Name, " ", table.Count(n.Name)))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: -want +got\n%s", when, d)
	}
	var out strings.Builder
	if err := table.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, w := range words {
		if !strings.Contains(out.String(), w) {
			t.Errorf("%s: %q is not in\n%s", when, w, out.String())
		}
	}
	if bad := len(table.NotWell()) > 0; bad != (len(words) > 0) {
		t.Errorf("%s:\n%s", when, out.String())
	}
}
