package swci

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/deeds"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

func eventCommands() []*Command {
	return []*Command{{
		Pattern: "get events", Group: "Watch", Shell: true,
		Summary: "Show what the SNs have noticed: leaders, silent nodes, failed attempts",
		Details: "Prints what has happened without anybody having asked for it, newest first: another SN leads, too few SNs answered and they do again, a node fell silent, came back or left, an attempt of a round failed and why, a round was skipped, a contract waits for what should not last and goes on, sessions failed, a model was lost. \"audit\" has what somebody did.\n\n" +
			"Each SN keeps this beside the ledger, the newest 2000, over a restart, and asks the others for what they have noticed. The SN that is asked answers, also without a leader. It is what SNs report, and no proof. Times are by their clocks. Attempts of rounds that are still being repeated are here at once, those of committed rounds also in \"get contract history\".",
		Example: "get events --since 12h",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "kind", Usage: "only events of this `KIND`, such as leader, quorum_lost, silent, back, attempt_failed, waits; repeatable"},
			&cli.StringFlag{Name: "node", Usage: "only what is about the node `NAME`"},
			&cli.StringFlag{Name: "contract", Usage: "only what is about the contract `NAME`"},
			&cli.StringFlag{Name: "since", Usage: "only what has happened since `TIME`: a date, a time such as 2026-11-27T08:00:00Z, or how long ago, such as 12h or 7d"},
		},
		JSON: noticesJSON{},
		Run:  getEvents,
	}}
}

// noticesJSON is `get events -o json`.
type noticesJSON struct {
	Events []noticedJSON `json:"events" doc:"newest first"`
	Older  uint32        `json:"older" doc:"events that the SN left out"`
}

type noticedJSON struct {
	At       *string `json:"at" doc:"when; RFC 3339, UTC"`
	Kind     string  `json:"kind" doc:"leader, quorum_lost, quorum_found, silent, back, left, attempt_failed, round_skipped, model_lost, model_adopted, waits, goes_on, session_failed or training_failed; of later SNs it may be another one"`
	What     string  `json:"what" doc:"that in words"`
	Node     string  `json:"node" doc:"that leads, fell silent or failed, or the SN that lost the quorum; empty: it is about no node"`
	Contract string  `json:"contract" doc:"its name; empty: it is about no contract"`
	Run      uint64  `json:"run" doc:"the contract's; 0: it is about none"`
	Round    uint64  `json:"round" doc:"that it is about; 0: none"`
	Attempt  uint64  `json:"attempt" doc:"of that round; 0: none"`
	Text     string  `json:"text" doc:"more of it, for people: why, and who is blamed"`
	By       string  `json:"by" doc:"the SN that has noticed it"`
}

func getEvents(ctx context.Context, s *Session, args Args) error {
	var sinceMS int64
	if since := args.Opts.String("since"); since != "" {
		var err error
		if sinceMS, err = deeds.Since(since, s.Env.Now()); err != nil {
			return exit.New(exit.Usage, "", "--since: %w", err)
		}
	}
	for _, kind := range args.Opts.StringSlice("kind") {
		if !slices.Contains(noticedKinds, kind) {
			return exit.New(exit.Usage, "give one of "+strings.Join(noticedKinds, ", "), "--kind: there is no kind of event %.40q", kind)
		}
	}
	kinds, node, contract := args.Opts.StringSlice("kind"), args.Opts.String("node"), args.Opts.String("contract")
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		said, err := client.NoticedEvents(ctx, api.Client, 0, 0)
		if err != nil {
			return fmt.Errorf("get events: %w", err)
		}
		out := noticesJSON{Events: []noticedJSON{}, Older: said.GetOlder()}
		t := table{header: []string{"AT", "WHAT", "NODE", "CONTRACT", "MORE", "NOTICED BY"}}
		for _, m := range said.GetEvents() {
			e := noticedToJSON(m)
			if (len(kinds) == 0 || slices.Contains(kinds, e.Kind)) && (node == "" || e.Node == node) && (contract == "" || e.Contract == contract) && m.GetAtUnixMs() >= sinceMS {
				out.Events = append(out.Events, e)
				t.add(clockTime(m.GetAtUnixMs()), e.What, e.Node, e.Contract, e.Text, e.By)
			}
		}
		return s.show(out, func() error {
			if err := t.print(s.Env.Stdout); err != nil {
				return err
			}
			if out.Older > 0 {
				s.say(many(int(out.Older), "older event") + " left out")
			}
			return nil
		})
	})
}

// maxNoticed bounds the words that are taken of an event, in bytes.
const maxNoticed = 600

// noticedToJSON says what an SN has noticed. Nothing of it is believed to be fit for a terminal.
func noticedToJSON(m *swarmv1.Event) noticedJSON {
	clean := func(s string) string { return text.Clip(text.Line(s), maxNoticed) }
	out := noticedJSON{
		At: stamp(m.GetAtUnixMs()), Kind: clean(m.GetKind()), Node: clean(m.GetNode()), Contract: clean(m.GetContract()), Round: m.GetRound(), Attempt: m.GetAttempt(),
		Text: clean(m.GetText()), By: clean(m.GetBy()),
	}
	if out.Contract != "" {
		out.Run = m.GetRun()
	}
	out.What = first(noticedWords[out.Kind], strings.ReplaceAll(out.Kind, "_", " "))
	before := ""
	switch {
	case out.Attempt > 0:
		before = fmt.Sprintf("attempt %d of round %d", out.Attempt, out.Round)
	case out.Round > 0 && out.Kind == "round_skipped":
		before = fmt.Sprintf("round %d", out.Round)
	case out.Kind == "session_failed":
		before = out.Node
	}
	if before != "" {
		out.Text = strings.TrimSuffix(before+": "+out.Text, ": ")
	}
	return out
}

// noticedKinds are the kinds of events that SNs of this version know.
var noticedKinds = []string{
	"leader", "quorum_lost", "quorum_found", "silent", "back", "left", "attempt_failed", "round_skipped", "model_lost", "model_adopted", "waits", "goes_on", "session_failed", "training_failed",
}

// noticedWords are kinds of events in words, where these are others.
var noticedWords = map[string]string{
	"leader": "leads", "quorum_lost": "lost the quorum", "quorum_found": "has a quorum again", "silent": "fell silent", "back": "came back",
	"model_adopted": "model taken over", "training_failed": "training failed", "goes_on": "goes on",
}
