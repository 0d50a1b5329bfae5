package swci

import (
	"context"
	"fmt"
	"net"
	"strconv"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

func nodeCommands() []*Command {
	return []*Command{{
		Pattern: "list nodes", Group: "Nodes", Shell: true,
		Summary: "Show the nodes of the swarm",
		Details: "Prints every registered node, sorted by role and name: its address and ports, whether it is alive and since when, and for an SN whether it is the Sentinel or the raft leader.",
		Example: "list nodes",
		Run:     listNodes,
	}}
}

// nodeJSON is one element of `list nodes -o json`.
type nodeJSON struct {
	Name      string  `json:"name"`
	Role      string  `json:"role"`
	Host      string  `json:"host"`
	P2PPort   uint32  `json:"p2p_port"`
	APIPort   uint32  `json:"api_port"`
	FSPort    uint32  `json:"fs_port"`
	Live      bool    `json:"live"`
	LiveSince *string `json:"live_since"`
	Sentinel  bool    `json:"sentinel"`
	Leader    bool    `json:"leader"`
	Runtime   string  `json:"runtime"`
	SN        string  `json:"sn"`
	SpiffeID  string  `json:"spiffe_id"`
	PeerID    string  `json:"peer_id"`
}

func listNodes(ctx context.Context, s *Session, args Args) error {
	return s.withAPI(ctx, args.Opts, func(api API) error {
		nodes, err := api.ListNodes(ctx)
		if err != nil {
			return fmt.Errorf("list nodes: %w", err)
		}
		if s.JSON {
			out := make([]nodeJSON, 0, len(nodes))
			for _, n := range nodes {
				out = append(out, nodeToJSON(n))
			}
			return printJSON(s.Env.Stdout, map[string]any{"nodes": out})
		}
		t := table{header: []string{"NAME", "ROLE", "ADDRESS", "STATE", "FOR", "NOTE"}}
		for _, n := range nodes {
			state := "dead"
			if n.GetLive() {
				state = "alive"
			}
			t.add(n.GetName(), n.GetRole(), nodeAddress(n), state, ago(s.Env.Now(), n.GetLiveSinceUnixMs()), nodeNote(n))
		}
		return t.print(s.Env.Stdout)
	})
}

func nodeToJSON(n *swarmv1.Node) nodeJSON {
	return nodeJSON{
		Name: n.GetName(), Role: n.GetRole(), Host: n.GetHost(),
		P2PPort: n.GetP2PPort(), APIPort: n.GetApiPort(), FSPort: n.GetFsPort(),
		Live: n.GetLive(), LiveSince: stamp(n.GetLiveSinceUnixMs()), Sentinel: n.GetSentinel(), Leader: n.GetLeader(),
		Runtime: n.GetRuntime(), SN: n.GetSn(), SpiffeID: n.GetSpiffeId(), PeerID: n.GetPeerId(),
	}
}

// nodeAddress is where others reach the node first: the API of an SN, the file server of the rest.
func nodeAddress(n *swarmv1.Node) string {
	port := n.GetFsPort()
	if n.GetApiPort() != 0 {
		port = n.GetApiPort()
	}
	return net.JoinHostPort(n.GetHost(), strconv.FormatUint(uint64(port), 10))
}

func nodeNote(n *swarmv1.Node) string {
	switch {
	case n.GetSentinel() && n.GetLeader():
		return "sentinel, leader"
	case n.GetSentinel():
		return "sentinel"
	case n.GetLeader():
		return "leader"
	case n.GetSn() != "":
		return "through " + n.GetSn()
	}
	return ""
}
