package swci

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/health"
	"github.com/swarmd/swarmd/internal/reach/pairs"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

func healthCommands() []*Command {
	return []*Command{{
		Pattern: "get health", Group: "Nodes", Shell: true,
		Summary: "Show which nodes are healthy, and why others are not",
		Details: "A node is healthy while its certificate is valid and renewed on schedule (more than a third of its life is left) and a raft leader heard of it within the last minute. Every known SN is asked itself; the others are shown as the raft leader knows them. FOR is how long a node stays healthy unless its certificate is renewed, CERT how long the certificate is valid.\n\n" +
			"A node that left when its work was done or it was stopped is shown as left, and counts as neither.\n\n" +
			"Below stands who has a connection with whom, as each node tells of its own; nothing is dialled for it. The SLs of a contract need each other, and each an SN; SNs need each other. Of up to 12 nodes a matrix is drawn. A pair that is not well follows in words: who could not open which host and port, why, for how long, and the command that checks it. It is enough that one of a pair can open connections. `swarmctl doctor` dials each pair anew, in both directions.\n\n" +
			"Ends with exit code 1 if any node is not healthy. `swarmd health` on a node's machine asks that node alone, without the swarm.",
		Example: "get health",
		JSON:    healthJSON{},
		Run:     getHealth,
	}}
}

// healthJSON is `get health -o json`.
type healthJSON struct {
	Healthy bool             `json:"healthy" doc:"all nodes are that have not left"`
	Nodes   []nodeHealthJSON `json:"nodes" doc:"by role and name"`
	Pairs   []pairJSON       `json:"pairs" doc:"nodes that need each other and whose connection is not well, those without one first"`
	Linked  []linkedJSON     `json:"linked" doc:"groups of nodes between which connections are well: of each two of a group, unless pairs has the two; of other nodes none is needed, or known"`
}

// linkedJSON is one group of `get health -o json`.
type linkedJSON struct {
	Nodes []string `json:"nodes" doc:"two or more, by name"`
}

// pairJSON is one pair of `get health -o json`.
type pairJSON struct {
	A      string `json:"a" doc:"one of the two nodes"`
	B      string `json:"b" doc:"the other"`
	State  string `json:"state" doc:"none: no connection, and a dial has failed; one way: a connection stands, whoever has opened it, though one of the two, or both, could not open another; not known; refused: one of the two takes no part with the other, as its --allow-peer does not name it or its registration is not proven"`
	Dials  string `json:"dials" doc:"which of the two is not known to have failed to dial, where the other has; it need not have tried; else empty"`
	Detail string `json:"detail" doc:"who could not open which host and port, why, and for how long"`
	Remedy string `json:"remedy" doc:"what to do, with the command that checks it; empty: nothing has to be done"`
}

// nodeHealthJSON is one element of `get health -o json`.
type nodeHealthJSON struct {
	Name       string   `json:"name" doc:"the node's; the address of an SN that does not answer and has no known name"`
	Role       string   `json:"role" doc:"sn, sl or swop"`
	Healthy    bool     `json:"healthy" doc:"certificate valid and renewed on schedule, seen by a raft leader within a minute"`
	Reason     string   `json:"reason" doc:"why it is not, in words; empty while it is"`
	LeftReason string   `json:"left_reason" doc:"why it left, empty unless it did: it is not healthy then, and that is no fault"`
	Until      *string  `json:"until" doc:"when it stops being healthy unless its certificate is renewed, null while it is not; RFC 3339, UTC"`
	SpiffeID   string   `json:"spiffe_id" doc:"of its certificate"`
	Source     string   `json:"source" doc:"where its certificate comes from, in its own words"`
	NotBefore  *string  `json:"svid_not_before" doc:"when its certificate's life began; RFC 3339, UTC"`
	NotAfter   *string  `json:"svid_not_after" doc:"when its certificate expires; RFC 3339, UTC"`
	LeaderSeen *string  `json:"leader_seen" doc:"when a raft leader last heard of it; RFC 3339, UTC"`
	Warnings   []string `json:"warnings" doc:"for people"`
	Needs      int      `json:"needs" doc:"others that it needs a connection with"`
	Reaches    int      `json:"reaches" doc:"those of them with which one stands"`
}

func getHealth(ctx context.Context, s *Session, args Args) error {
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		answers, err := api.GetHealth(ctx)
		if err != nil {
			return fmt.Errorf("get health: %w", err)
		}
		nodes := joinHealth(answers)
		sick := 0
		for _, n := range nodes {
			if !n.GetHealthy() && n.GetLeftReason() == "" {
				sick++
			}
		}
		if err := printHealth(s, nodes, sick == 0); err != nil {
			return err
		}
		if sick > 0 {
			return exit.New(exit.Failed, "", "%d of %d nodes not healthy", sick, len(nodes))
		}
		return nil
	})
}

// joinHealth makes one list of what the SNs said: each SN's word on itself, and on another node the newest there is. An
// SN that did not answer is not healthy for all that is known here.
func joinHealth(answers []client.SNHealth) []*swarmv1.NodeHealth {
	by := map[string]*swarmv1.NodeHealth{}
	for _, a := range answers {
		for _, n := range a.Nodes {
			if old := by[n.GetName()]; old == nil || newer(n, old) {
				by[n.GetName()] = n
			}
		}
	}
	for _, a := range answers {
		name := first(a.Name, a.Address)
		if a.Err != nil && by[name] == nil {
			by[name] = &swarmv1.NodeHealth{Name: name, Role: "sn", Reason: a.Err.Error()}
		}
	}
	out := make([]*swarmv1.NodeHealth, 0, len(by))
	for _, n := range by {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b *swarmv1.NodeHealth) int {
		return cmp.Or(strings.Compare(a.GetRole(), b.GetRole()), strings.Compare(a.GetName(), b.GetName()))
	})
	return out
}

// newer tells which of two words on a node counts: an SN that is cut off from the leader knows less.
func newer(a, b *swarmv1.NodeHealth) bool {
	if a.GetLeaderSeenUnixMs() != b.GetLeaderSeenUnixMs() {
		return a.GetLeaderSeenUnixMs() > b.GetLeaderSeenUnixMs()
	}
	if (a.GetLeftReason() != "") != (b.GetLeftReason() != "") {
		return a.GetLeftReason() != "" // who has not heard that it left knows less
	}
	return !a.GetHealthy() && b.GetHealthy()
}

func printHealth(s *Session, nodes []*swarmv1.NodeHealth, all bool) error {
	reach := healthPairs(nodes)
	if s.JSON {
		out := healthJSON{Healthy: all, Nodes: []nodeHealthJSON{}, Pairs: []pairJSON{}, Linked: []linkedJSON{}}
		for _, p := range reach.NotWell() {
			out.Pairs = append(out.Pairs, pairJSON{p.A, p.B, string(p.State), p.Dials(), strings.Join(p.Details(), "; "), p.Remedy()})
		}
		for _, names := range reach.Linked() {
			out.Linked = append(out.Linked, linkedJSON{names})
		}
		for _, n := range nodes {
			count := reach.Count(text.Line(n.GetName()))
			out.Nodes = append(out.Nodes, nodeHealthJSON{
				Name: n.GetName(), Role: n.GetRole(), Healthy: n.GetHealthy(), Reason: n.GetReason(), LeftReason: n.GetLeftReason(), Until: stamp(n.GetUntilUnixMs()),
				SpiffeID: n.GetSpiffeId(), Source: n.GetSource(), NotBefore: stamp(n.GetSvidNotBeforeUnixMs()), NotAfter: stamp(n.GetSvidNotAfterUnixMs()),
				LeaderSeen: stamp(n.GetLeaderSeenUnixMs()), Warnings: append([]string{}, n.GetWarnings()...),
				Needs: count.Needs, Reaches: count.Has,
			})
		}
		return printJSON(s.Env.Stdout, out)
	}
	now := s.Env.Now()
	t := table{header: []string{"NAME", "ROLE", "HEALTHY", "FOR", "CERT", "SEEN", "WHY NOT"}}
	for _, n := range nodes {
		seen := ago(now, n.GetLeaderSeenUnixMs())
		if seen != "" {
			seen += " ago"
		}
		healthy := yesNo(n.GetHealthy())
		if n.GetLeftReason() != "" {
			healthy = "left"
		}
		t.add(n.GetName(), n.GetRole(), healthy, ahead(now, n.GetUntilUnixMs()), ahead(now, n.GetSvidNotAfterUnixMs()), seen, n.GetReason())
	}
	if err := t.print(s.Env.Stdout); err != nil {
		return err
	}
	for _, n := range nodes {
		for _, w := range n.GetWarnings() {
			fmt.Fprintf(s.Env.Stdout, "warning: node %s: %s\n", text.Line(n.GetName()), text.Line(w))
		}
	}
	return reach.Print(s.Env.Stdout)
}

// healthPairs says who has a connection with whom, of the nodes that are there.
func healthPairs(nodes []*swarmv1.NodeHealth) *pairs.Table {
	var there []pairs.Node
	for _, n := range nodes {
		if n.GetHealthy() || n.GetLinks() != nil {
			there = append(there, pairs.Node{Name: text.Line(n.GetName()), Role: n.GetRole(), Links: pairs.Bound(n.GetLinks())})
		}
	}
	return pairs.Tabulate(there)
}

// ahead renders how long after now a moment in Unix milliseconds is; "" for 0.
func ahead(now time.Time, unixMS int64) string {
	if unixMS == 0 {
		return ""
	}
	t := time.UnixMilli(unixMS)
	if !t.After(now) {
		return "over"
	}
	return health.Words(t.Sub(now))
}
