package swci

import (
	"context"
	"fmt"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/text"
)

func haltCommands() []*Command {
	return []*Command{
		{
			Pattern: "pause contract NAME", Group: "Contracts", Shell: true,
			Summary: "Pause a training",
			Details: "No further round is planned. A merge that is under way is finished: it is committed, or given up and not tried again. Programs train to the end of their interval, wait there, and print who has paused the training and since when. Meanwhile quorum wait, stall grace and min-peers-timeout do not run. Sessions may open and close.\n\nThe contract stays paused until \"resume contract\", also after \"reset contract\" and if another SN leads. The order is signed and recorded in the ledger. Pausing a contract that is paused changes nothing.",
			Example: "pause contract defaultbb.cqdb.sml.hpe",
			JSON:    haltedJSON{},
			Run:     halting("pause", client.Operator.PauseContract, pausedText),
		},
		{
			Pattern: "resume contract NAME", Group: "Contracts", Shell: true,
			Summary: "Continue a paused training",
			Details: "Rounds are planned again, and all timeouts start anew. The order is signed and recorded in the ledger. Resuming a contract that is not paused changes nothing.",
			Example: "resume contract defaultbb.cqdb.sml.hpe",
			JSON:    haltedJSON{},
			Run:     halting("resume", client.Operator.ResumeContract, resumedText),
		},
		{
			Pattern: "end contract NAME", Group: "Contracts", Shell: true,
			Summary: "End a training with a final round",
			Details: "The next round is the final one, by the usual rules, with the peers that are ready for it. Then the training is over, and every program gets the final model at its next merge. A paused contract can be ended too.\n\nPeers that are still training are waited for, as nobody gets into a later round: twice the usual time between rounds (before the second round the stall grace, 60 s unless set), at least the quorum wait, at most an hour, or the stall grace or the rule --min-peers-timeout where these are longer. Then the final round is held without them. If it can't be held, or fewer than minPeers are there for the quorum wait, the training ends with the last model. If there is no model yet all sessions fail then; a contract that nobody trains and that has no model is refused: reset or delete it. \"explain contract\" shows which peers are waited for, and until when.\n\nThe order is signed and recorded in the ledger, and can't be taken back. Ending a training that is over changes nothing.",
			Example: "end contract defaultbb.cqdb.sml.hpe",
			JSON:    haltedJSON{},
			Run:     halting("end", client.Operator.EndContract, endedText),
		},
	}
}

// haltedJSON is `pause contract NAME -o json`, and of resume and end.
type haltedJSON struct {
	Name  string    `json:"name" doc:"the contract's"`
	Run   uint64    `json:"run" doc:"number of its run"`
	Phase string    `json:"phase" doc:"afterwards, as in \"list contracts\""`
	Halt  *haltJSON `json:"halt" doc:"an operator has paused the training, or ends it or has ended it; null: neither"`
}

type haltJSON struct {
	Ends bool    `json:"ends" doc:"the next round is the final one, or was; false: the training is paused"`
	By   string  `json:"by" doc:"SPIFFE ID of the operator"`
	At   *string `json:"at" doc:"since when; RFC 3339, UTC"`
}

func haltToJSON(h *swarmv1.Halt) *haltJSON {
	if h == nil {
		return nil
	}
	return &haltJSON{Ends: h.GetEnds(), By: h.GetBy(), At: stamp(h.GetAtUnixMs())}
}

// halting runs one of these commands and says how the contract stands then.
func halting(
	verb string, do func(client.Operator, context.Context, string) (*swarmv1.ContractView, error), words func(*swarmv1.ContractView) string,
) func(context.Context, *Session, Args) error {
	return func(ctx context.Context, s *Session, args Args) error {
		return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
			name := args.Value("NAME")
			c, err := do(api, ctx, name)
			if err != nil {
				return fmt.Errorf("%s contract %q: %w", verb, name, err)
			}
			if s.JSON {
				return printJSON(s.Env.Stdout, haltedJSON{c.GetName(), c.GetRun(), c.GetPhase(), haltToJSON(c.GetHalt())})
			}
			fmt.Fprintf(s.Env.Stdout, "contract %s %s\n", text.Line(c.GetName()), text.Line(words(c)))
			return nil
		})
	}
}

func pausedText(c *swarmv1.ContractView) string {
	h := c.GetHalt()
	said := fmt.Sprintf("is paused, by %s since %s UTC: no round is planned until \"swarmctl resume contract %s\"", h.GetBy(), clockTime(h.GetAtUnixMs()), c.GetName())
	if p := c.GetPlan(); p != nil {
		said += fmt.Sprintf("; round %d is being merged, which still ends", p.GetRound())
	}
	return said
}

func resumedText(c *swarmv1.ContractView) string {
	switch {
	case c.GetOver():
		return "is not paused: its training is over"
	case c.GetHalt().GetEnds():
		return "is not paused: it is being ended, and its next round is the final one"
	}
	return "is not paused: rounds are planned again"
}

func endedText(c *swarmv1.ContractView) string {
	switch {
	case c.GetOver():
		return fmt.Sprintf("is over: the model of round %d is the final one", c.GetCommitted().GetRound())
	case c.GetPlan() != nil && !c.GetPlan().GetFinal():
		return fmt.Sprintf("is being ended: round %d is being merged, the one after it is the final one", c.GetPlan().GetRound())
	}
	return "is being ended: the next round is the final one"
}

// haltNotes are what a contract's status says of a halt in sentences, where what it waits for does not say it.
func haltNotes(st *swarmv1.GetContractStatusResponse) (f fields) {
	c := st.GetContract()
	h := c.GetHalt()
	by := fmt.Sprintf("by %s at %s UTC", h.GetBy(), clockTime(h.GetAtUnixMs()))
	switch {
	case h == nil:
	case h.GetEnds() && c.GetOver():
		f.add("ENDED", by)
	case h.GetEnds():
		f.add("ENDING", by+": the next round that is planned is the final one")
	case c.GetPlan() != nil:
		f.add("PAUSED", by+": what is being merged ends, and nothing is planned after it")
	case st.GetNoQuorum() != nil:
		f.add("PAUSED", by)
	}
	return f
}
