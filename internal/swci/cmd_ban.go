package swci

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/text"
)

func banCommands() []*Command {
	return []*Command{
		{
			Pattern: "ban node NAME", Group: "Nodes", Shell: true,
			Summary: "Shut a node out at once",
			Details: "NAME is a node's name or the peer ID of its node key. From now on the node's token is void, its sessions are ended with the reason banned and the others' round goes on without it, its connections are cut, and its key can't register under any name; an SN leaves the raft group too. This is the way to cut off one node where several share a SPIFFE ID; where it has one of its own delete its registration entry at the SPIRE server as well.\n\nRefused for the only SN, and for an SN without which the others are no majority. A ban stays until \"unban node\", also when the node is forgotten. Banning again changes nothing.",
			Example: "ban node sl-2 --reason \"laptop was stolen\"",
			Flags:   []cli.Flag{&cli.StringFlag{Name: "reason", Usage: "`TEXT` that the node and the others are told, 256 bytes at most"}},
			JSON:    banJSON{},
			Run:     banNode,
		},
		{
			Pattern: "unban node NAME", Group: "Nodes", Shell: true,
			Summary: "Let a banned node in again",
			Details: "NAME is the node's name, now or when it was banned, or the peer ID of its node key. An SN comes back by itself; start other nodes again. If the node is not banned nothing changes.",
			Example: "unban node sl-2",
			JSON:    unbannedJSON{},
			Run:     unbanNode,
		},
	}
}

// banJSON is `ban node NAME -o json`, and an element of the bans of `list nodes -o json`.
type banJSON struct {
	PeerID string  `json:"peer_id" doc:"libp2p peer ID of the node key that is shut out"`
	Name   string  `json:"name" doc:"the node's when it was banned; empty for a key that was not registered"`
	Reason string  `json:"reason" doc:"why, in the operator's words"`
	By     string  `json:"by" doc:"SPIFFE ID of who banned it"`
	At     *string `json:"at" doc:"when; RFC 3339, UTC"`
}

// unbannedJSON is `unban node NAME -o json`.
type unbannedJSON struct {
	Name string `json:"name" doc:"as it was given; it is no longer banned"`
}

func banToJSON(b *swarmv1.Ban) banJSON {
	return banJSON{PeerID: b.GetPeerId(), Name: b.GetName(), Reason: b.GetReason(), By: b.GetBy(), At: stamp(b.GetAtUnixMs())}
}

func banNode(ctx context.Context, s *Session, args Args) error {
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		name := args.Value("NAME")
		b, err := api.BanNode(ctx, name, args.Opts.String("reason"))
		if err != nil {
			return fmt.Errorf("ban node %q: %w", name, err)
		}
		if s.JSON {
			return printJSON(s.Env.Stdout, banToJSON(b))
		}
		fmt.Fprintf(s.Env.Stdout, "node %s is banned; its node key is %s\n", text.Line(first(b.GetName(), name)), text.Line(b.GetPeerId()))
		return nil
	})
}

func unbanNode(ctx context.Context, s *Session, args Args) error {
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		name := args.Value("NAME")
		if err := api.UnbanNode(ctx, name); err != nil {
			return fmt.Errorf("unban node %q: %w", name, err)
		}
		if s.JSON {
			return printJSON(s.Env.Stdout, unbannedJSON{name})
		}
		fmt.Fprintf(s.Env.Stdout, "node %s is no longer banned\n", text.Line(name))
		return nil
	})
}

// strangers returns the bans of keys that no node is registered with.
func strangers(bans []*swarmv1.Ban, nodes []*swarmv1.Node) []*swarmv1.Ban {
	known := map[string]bool{}
	for _, n := range nodes {
		known[n.GetPeerId()] = true
	}
	var out []*swarmv1.Ban
	for _, b := range bans {
		if !known[b.GetPeerId()] {
			out = append(out, b)
		}
	}
	return out
}
