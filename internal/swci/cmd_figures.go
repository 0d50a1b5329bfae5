package swci

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/hostlogs"
	"github.com/swarmd/swarmd/internal/text"
)

func figureCommands() []*Command {
	return []*Command{{
		Pattern: "get node NAME", Group: "Nodes", Shell: true,
		Summary: "Show processors, memory, GPUs, disk and streams of a node",
		Details: "The node is asked, and says what its machine and its daemon have and use now. Nobody checks that. What it has not found out is not reported. Streams are those between nodes: raft, merges, probes. Memory and processor time of the daemon are without its programs.\n\n" +
			"Figures go where the node's log goes (get logs): the host's owner decides, by default operators of the host's own trust domain get them. The request is signed, and no SN can read what the node answers. You need the right to list nodes and to read logs. Those of an SN come from that SN itself, which must be within reach.",
		Example: "get node sl-1",
		JSON:    nodeFiguresJSON{},
		Run:     getNode,
	}}
}

// nodeFiguresJSON is `get node NAME -o json`.
type nodeFiguresJSON struct {
	Node    string           `json:"node" doc:"its name"`
	Role    string           `json:"role" doc:"sn, sl or swop"`
	Version string           `json:"version" doc:"that it says it runs"`
	Figures hostlogs.Figures `json:"figures" doc:"as the node reports them; null: not reported"`
}

func getNode(ctx context.Context, s *Session, args Args) error {
	name := args.Value("NAME")
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		n, err := liveNode(ctx, api, name)
		if err != nil {
			return fmt.Errorf("get node %s: %w", name, apiError(err))
		}
		f, err := hostlogs.Query{At: atSN(s, args.Opts)}.Figures(ctx, api, n)
		if err != nil {
			return fmt.Errorf("get node %s: %w", name, apiError(err))
		}
		if s.JSON {
			return printJSON(s.Env.Stdout, nodeFiguresJSON{n.GetName(), n.GetRole(), text.Line(n.GetVersion()), f})
		}
		return printFigures(s, n, f)
	})
}

// liveNode finds a node that can answer.
func liveNode(ctx context.Context, api client.Operator, name string) (*swarmv1.Node, error) {
	list, err := api.ListNodes(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list.GetNodes(), func(n *swarmv1.Node) bool { return n.GetName() == name })
	if i < 0 {
		return nil, exit.New(exit.NotFound, "see: swarmctl list nodes", "no node is called %s", name)
	}
	n := list.GetNodes()[i]
	state, _ := nodeState(n, list.GetNoQuorum())
	switch state {
	case "dead", "banned":
		return nil, exit.New(exit.Unreachable, "see why: swarmctl get health", "nothing answers there: the node is %s", state)
	case "left":
		return nil, exit.New(exit.Unreachable, "see: swarmctl list nodes", "nothing answers there: the node has left")
	}
	return n, nil
}

// notReported stands for what a node has not found out.
const notReported = "not reported"

func printFigures(s *Session, n *swarmv1.Node, f hostlogs.Figures) error {
	var t table
	t.add("node", strings.Join([]string{text.Line(n.GetName()), text.Line(n.GetRole()), first(text.Line(n.GetVersion()), "unknown version")}, ", "))
	t.add("reported", f.TakenAt+", by its clock")
	t.add("CPUs", counted(f.CPUs))
	t.add("load", loads(f.Load1, f.Load5, f.Load15))
	t.add("memory", partOf(f.MemoryFree, f.MemoryTotal, "available"))
	t.add("disk", partOf(f.DiskFree, f.DiskTotal, "free")+" (file system of its state)")
	for i, g := range f.GPUs {
		t.add(fmt.Sprintf("GPU %d", i), fmt.Sprintf("%s; memory: %s; busy: %s", first(g.Name, "without a name"), partOf(g.MemoryUsed, g.MemoryTotal, "used"), unit(g.BusyPercent, " %")))
	}
	if len(f.GPUs) == 0 {
		t.add("GPUs", "none that it sees")
	}
	t.add("streams", fmt.Sprintf("opened by it: %s; by others: %s; peers with a connection: %s", counted(f.StreamsOut), counted(f.StreamsIn), counted(f.Peers)))
	t.add("daemon", fmt.Sprintf("memory: %s; processor time: %s; up: %s", sized(f.MemoryOwn), secondsOf(f.CPUSeconds), upFor(f.UpSeconds)))
	return t.print(s.Env.Stdout)
}

func counted(n *uint64) string { return unit(n, "") }

// unit is a number with its unit behind it.
func unit(n *uint64, of string) string {
	if n == nil {
		return notReported
	}
	return fmt.Sprintf("%d%s", *n, of)
}

// sized is a size in bytes.
func sized(n *uint64) string {
	switch {
	case n == nil:
		return notReported
	case *n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(*n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(*n)/(1<<30))
}

// partOf is a part of a size in bytes, and what it is.
func partOf(part, whole *uint64, what string) string {
	switch {
	case whole == nil && part == nil:
		return notReported
	case part == nil:
		return sized(whole)
	}
	return fmt.Sprintf("%s %s of %s", sized(part), what, sized(whole))
}

func loads(means ...*float64) string {
	var all []string
	for _, x := range means {
		if x == nil {
			return notReported
		}
		all = append(all, fmt.Sprintf("%.2f", *x))
	}
	return strings.Join(all, ", ") + " (means of 1, 5 and 15 min)"
}

func secondsOf(x *float64) string {
	if x == nil {
		return notReported
	}
	return fmt.Sprintf("%.1f s", *x)
}

func upFor(n *uint64) string {
	if n == nil {
		return notReported
	}
	return (time.Duration(min(*n, 1<<33)) * time.Second).String() //nolint:gosec // bounded
}
