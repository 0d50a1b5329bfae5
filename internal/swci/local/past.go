package local

import (
	"context"
	"fmt"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/swci/report"
	"github.com/swarmd/swarmd/internal/text"
)

// Bounds of what the page says of how rounds went.
const (
	maxPast   = 500 // rounds: the newest ones, and older ones evenly
	maxReason = 300 // bytes of why an attempt failed
)

// pastRounds reads how the rounds of a contract went, of what SNs keep of them beside the ledger, by their numbers.
func pastRounds(ctx context.Context, api API, contract string) (map[int64]report.Past, error) {
	if contract == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledgerTimeout)
	defer cancel()
	h, err := api.GetHistory(ctx, &swarmv1.GetHistoryRequest{Contract: contract, Most: maxPast, Spread: true})
	if err != nil {
		return nil, fmt.Errorf("get contract history of %q: %w", contract, err)
	}
	past := map[int64]report.Past{}
	for _, x := range h.GetRounds() {
		p := report.Past{Phases: report.Phases{Waiting: x.WaitingMs, Training: x.TrainingMs, Exchange: x.ExchangeMs, Commit: x.CommitMs}}
		for _, f := range x.GetFailed() {
			p.Failed = append(p.Failed, report.FailedAttempt{Attempt: f.GetAttempt(), Blamed: text.Line(f.GetBlamed()), Reason: text.Clip(text.Line(f.GetReason()), maxReason)})
		}
		past[int64(min(x.GetRound(), 1<<40))] = p
	}
	return past, nil
}
