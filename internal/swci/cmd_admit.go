package swci

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

func admitCommands() []*Command {
	return []*Command{{
		Pattern: "admit node NAME", Group: "Nodes", Shell: true,
		Summary: "Let a waiting SN join, in a swarm whose operators admit SNs",
		Details: "For a swarm that was founded with \"run-sn --admit operator\". There a joining SN waits until its name is admitted together with its node key, and prints the command for that; \"list nodes\" shows who waits. An SN that was invited (\"invite sn/NAME\") does not wait; admitting a key takes an open invitation of the name back. No other node key may then join under that name, nor this one under another.\n\nWithout --peer-id the one SN that waits under NAME is admitted, and its peer ID printed: compare it with what that SN printed. If several wait under one name, --peer-id says which. With --peer-id an SN may also be admitted before it is started. The order is signed, and recorded in the ledger. \"forget node\" and \"ban node\" take an admission back; lifting the ban does not restore it. Members need no admission again, also after a restart. Admitting twice changes nothing.",
		Example: "admit node sn-2",
		Flags:   []cli.Flag{&cli.StringFlag{Name: "peer-id", Usage: "`ID` of the node key that is meant, as the SN prints it"}},
		JSON:    admittedJSON{},
		Run:     admitNode,
	}}
}

// admittedJSON is `admit node NAME -o json`.
type admittedJSON struct {
	Name   string `json:"name" doc:"the SN's"`
	PeerID string `json:"peer_id" doc:"libp2p peer ID of the node key that may join under it"`
}

// candidateJSON is an element of the candidates of `list nodes -o json`.
type candidateJSON struct {
	Name       string  `json:"name" doc:"the SN's"`
	PeerID     string  `json:"peer_id" doc:"libp2p peer ID of its node key"`
	SpiffeID   string  `json:"spiffe_id" doc:"of its SVID; empty if it does not ask now"`
	Host       string  `json:"host" doc:"where it wants to be reached; empty if it does not ask now"`
	Since      *string `json:"since" doc:"when it began to ask, or was admitted; RFC 3339, UTC"`
	Admitted   bool    `json:"admitted" doc:"an operator has admitted it"`
	AdmittedBy string  `json:"admitted_by" doc:"SPIFFE ID of that operator"`
}

func candidatesToJSON(all []*swarmv1.Candidate) []candidateJSON {
	out := make([]candidateJSON, 0, len(all))
	for _, c := range all {
		out = append(out, candidateJSON{
			c.GetName(), c.GetPeerId(), c.GetSpiffeId(), c.GetHost(), stamp(c.GetSinceUnixMs()), c.GetAdmitted(), c.GetAdmittedBy(),
		})
	}
	return out
}

func admitNode(ctx context.Context, s *Session, args Args) error {
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		name, peerID := args.Value("NAME"), args.Opts.String("peer-id")
		if peerID == "" {
			list, err := api.ListNodes(ctx)
			if err == nil {
				err = s.shown(list.GetNoQuorum())
			}
			if err == nil {
				peerID, err = whoWaits(list.GetCandidates(), name)
			}
			if err != nil {
				return fmt.Errorf("admit node %q: %w", name, err)
			}
		}
		if err := api.AdmitNode(ctx, name, peerID); err != nil {
			return fmt.Errorf("admit node %q: %w", name, err)
		}
		if s.JSON {
			return printJSON(s.Env.Stdout, admittedJSON{name, peerID})
		}
		fmt.Fprintf(s.Env.Stdout, "SN %s may join; its node key is %s\n", text.Line(name), text.Line(peerID))
		return nil
	})
}

// whoWaits returns the peer ID of the only SN that waits under a name.
func whoWaits(all []*swarmv1.Candidate, name string) (string, error) {
	var keys []string
	for _, c := range all {
		if c.GetName() == name && !c.GetAdmitted() {
			keys = append(keys, c.GetPeerId())
		}
	}
	switch len(keys) {
	case 1:
		return keys[0], nil
	case 0:
		return "", exit.New(exit.NotFound, "see: swarmctl list nodes; or give --peer-id, which the SN prints", "no SN waits under that name")
	}
	hint := "ask who runs it which is the right one, then add one of:"
	for _, k := range keys[:min(len(keys), 8)] {
		hint += " --peer-id " + text.Line(k)
	}
	return "", exit.New(exit.Conflict, hint, "%d SNs wait under that name", len(keys))
}

// addCandidates shows who has not joined, and what is to be done.
func (t *table) addCandidates(all []*swarmv1.Candidate, since func(*swarmv1.Candidate) string) {
	for _, c := range all {
		state, note := "waiting", "swarmctl admit node "+c.GetName()+" --peer-id "+c.GetPeerId()
		if c.GetAdmitted() {
			state, note = "admitted", "it has not joined"
		}
		t.add(c.GetName(), "sn", c.GetHost(), state, since(c), "", "", note)
	}
}

// invitedJSON is an element of the invited of `list nodes -o json`.
type invitedJSON struct {
	Name     string  `json:"name" doc:"the SN's"`
	SpiffeID string  `json:"spiffe_id" doc:"that it must bear"`
	Number   uint64  `json:"number" doc:"by which the ledger names the invitation"`
	By       string  `json:"by" doc:"SPIFFE ID of the operator"`
	At       *string `json:"at" doc:"when it was invited; RFC 3339, UTC"`
	Expires  *string `json:"expires" doc:"until when the invitation can be used; RFC 3339, UTC"`
}

func invitedToJSON(all []*swarmv1.Invited) []invitedJSON {
	out := make([]invitedJSON, 0, len(all))
	for _, i := range all {
		out = append(out, invitedJSON{i.GetName(), i.GetSpiffeId(), i.GetNumber(), i.GetBy(), stamp(i.GetAtUnixMs()), stamp(i.GetExpiresUnixMs())})
	}
	return out
}

// addInvited shows who was invited and has not come.
func (t *table) addInvited(all []*swarmv1.Invited, since func(unixMS int64) string) {
	for _, i := range all {
		t.add(i.GetName(), "sn", "", "invited", since(i.GetAtUnixMs()), "", "", "until "+time.UnixMilli(i.GetExpiresUnixMs()).UTC().Format(clockFormat)+"; to take it back: swarmctl forget node "+i.GetName())
	}
}
