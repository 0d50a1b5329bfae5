package swci

import (
	"context"
	"fmt"
	"net"
	"strconv"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
)

func portCommands() []*Command {
	return []*Command{{
		Pattern: "get ports", Group: "Nodes", Shell: true,
		Summary: "Show which ports have to be open, and for whom",
		Details: "Prints for each node that is registered, unless it is banned or has left, the addresses at which it listens, who dials them, and what for: what a firewall has to let in. All of it is TCP. Of two SLs it is enough that one can dial the other. The port of a SPIRE server (8081 by default) is not shown, as the swarm does not know it. `swarmctl identity check HOST:PORT` tries an address from here.",
		Example: "get ports",
		JSON:    portsJSON{},
		Run:     getPorts,
	}}
}

// portsJSON is `get ports -o json`.
type portsJSON struct {
	Ports []portJSON `json:"ports" doc:"by node"`
}

// portJSON is one element of `get ports -o json`.
type portJSON struct {
	Node    string `json:"node" doc:"who listens"`
	Role    string `json:"role" doc:"sn, sl or swop"`
	Address string `json:"address" doc:"HOST:PORT, TCP"`
	From    string `json:"from" doc:"who dials it, in words"`
	For     string `json:"for" doc:"what for, in words"`
}

func getPorts(ctx context.Context, s *Session, args Args) error {
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		list, err := api.ListNodes(ctx)
		if err != nil {
			return fmt.Errorf("get ports: %w", err)
		}
		ports := portsOf(list.GetNodes())
		if s.JSON {
			return printJSON(s.Env.Stdout, portsJSON{ports})
		}
		t := table{header: []string{"NODE", "ROLE", "ADDRESS (TCP)", "WHO DIALS", "WHAT FOR"}}
		for _, p := range ports {
			t.add(p.Node, p.Role, p.Address, p.From, p.For)
		}
		return t.print(s.Env.Stdout)
	})
}

// portsOf lists the ports of nodes that take part.
func portsOf(nodes []*swarmv1.Node) []portJSON {
	ports := []portJSON{}
	for _, n := range nodes {
		if n.GetBanned() || n.GetLeftReason() != "" {
			continue
		}
		add := func(port uint32, from, what string) {
			if port != 0 {
				at := net.JoinHostPort(n.GetHost(), strconv.FormatUint(uint64(port), 10))
				ports = append(ports, portJSON{n.GetName(), n.GetRole(), at, from, what})
			}
		}
		switch n.GetRole() {
		case "sn":
			add(n.GetP2PPort(), "other SNs", "raft, membership")
			add(n.GetApiPort(), "SNs, SLs, swarmctl", "API")
			add(n.GetFsPort(), "SNs that join", "the swarm ID and its SNs")
		case "sl":
			add(n.GetFsPort(), "other SLs, or it dials them; swarmctl get model", "merges, models")
		case "swop":
			add(n.GetFsPort(), "swarmctl get logs; without it they go through SNs", "logs")
		}
	}
	return ports
}
