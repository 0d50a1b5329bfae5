package swci

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// maxPoints bounds the rounds that can be asked for, and pagePoints are those of the dashboard's curves.
const (
	maxPoints  = 10_000
	pagePoints = 500
)

func historyCommands() []*Command {
	return []*Command{{
		Pattern: "get contract history NAME", Group: "Contracts", Shell: true,
		Summary: "Show how the rounds of a training went",
		Details: "Prints the committed rounds of the contract's current run, or of an earlier one, oldest first: when each was committed, how long its phases took, the loss and the metric of the merged model, which are the mean of what the peers' programs have reported of it by their weights (a plain mean where those are not known, which is said), the bytes that the peers have sent, and how many attempts failed. -o json has the same of each peer.\n\n" +
			"SNs keep this beside the ledger, at most 64 MiB of a contract: of older rounds of a long training some are left out. Round, attempt, digest, participants and weights are what the SN has recorded, and \"verify ledger\" proves them by the ledger; all else is what nodes have reported, and no proof. A reset begins it anew; of the run before it SNs keep 16 MiB, for --run. With the contract all of it is deleted.",
		Example: "get contract history defaultbb.cqdb.sml.hpe",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "points", Value: pagePoints, Usage: "`N` rounds at most: the newest 100, or half of N, are whole, older ones are taken evenly"},
			&cli.Uint64Flag{Name: "run", Usage: "rounds of run `N`, from before a reset; the current run if not given"},
			&cli.Uint64Flag{Name: "after", Usage: "only rounds behind round `N`, as for a program that has those before; run says whether they are of the same run"},
		},
		JSON: historyJSON{},
		Run:  getHistory,
	}}
}

func getHistory(ctx context.Context, s *Session, args Args) error {
	name, points, after, run := args.Value("NAME"), args.Opts.Int("points"), args.Opts.Uint64("after"), args.Opts.Uint64("run")
	if points < 1 || points > maxPoints {
		return exit.New(exit.Usage, "give --points 500", "--points is 1 to %d", maxPoints)
	}
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		h, err := api.GetHistory(ctx, &swarmv1.GetHistoryRequest{Contract: name, Run: run, After: after, Most: uint32(points), Spread: true})
		if err != nil {
			return fmt.Errorf("get contract history of %q: %w", name, err)
		}
		if err := runIsKept(name, run, h); err != nil {
			return err
		}
		out := historyToJSON(name, h)
		if after > 0 {
			out.After = &after
		}
		return s.show(out, func() error {
			t := table{header: []string{"ROUND", "COMMITTED", "TRAINING", "WAITING", "EXCHANGE", "COMMIT", "LOSS", metricHead(out.Metric), "SENT", "FAILED", "PEERS"}}
			for i, r := range out.Rounds {
				d := r.Durations
				t.add(utoa(r.Round), clockTime(h.GetRounds()[i].GetCommittedUnixMs()), phaseTime(d.Training), phaseTime(d.Waiting), phaseTime(d.Exchange), phaseTime(d.Commit),
					number(r.Loss), number(r.Metric), byteCount(r.BytesSent), utoa(uint64(len(r.Failed))), strings.Join(contributors(r), ", "))
			}
			if err := t.print(s.Env.Stdout); err != nil {
				return err
			}
			if plain := plainMeans(out); plain > 0 {
				s.say(fmt.Sprintf("of %s the weights are not known: loss and metric are plain means there", many(plain, "round")))
			}
			if out.Hidden != "" {
				s.say(text.Line(out.Hidden))
			}
			if out.Thinned > 0 {
				s.say(fmt.Sprintf("%s between them are left out", many(int(out.Thinned), "round"))) //nolint:gosec // rounds were counted one by one
			}
			return nil
		})
	})
}

// runIsKept says that nothing is kept of a run that was asked for, and what remains.
func runIsKept(name string, run uint64, h *swarmv1.GetHistoryResponse) error {
	if run == 0 || h.GetRun() == run && (len(h.GetRounds()) > 0 || h.GetLast() > 0) {
		return nil
	}
	kept := "of no earlier run"
	if all := h.GetEarlier(); len(all) > 0 {
		kept = fmt.Sprintf("of run %d", all[len(all)-1])
	}
	return exit.New(exit.NotFound, "the ledger has the rounds that were committed in it: swarmctl get ledger --out FILE, then swarmctl verify ledger FILE -o json",
		"the SNs keep no history of run %d of contract %s: beside the current run they have one %s", run, text.Line(name), kept)
}

// plainMeans counts the rounds whose loss and metric are no means by weights.
func plainMeans(h historyJSON) (n int) {
	for _, r := range h.Rounds {
		if !r.Weighted && (r.Loss != nil || r.Metric != nil) {
			n++
		}
	}
	return n
}

func phaseTime(ms *uint64) string {
	if ms == nil {
		return ""
	}
	return (time.Duration(*ms) * time.Millisecond).String() //nolint:gosec // a phase is no longer than a training
}

func byteCount(n *uint64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatUint(*n, 10)
}

func contributors(r historyRoundJSON) (names []string) {
	for _, p := range r.Peers {
		if p.Contributed {
			names = append(names, p.Node)
		}
	}
	return names
}

func historyToJSON(name string, h *swarmv1.GetHistoryResponse) historyJSON {
	out := historyJSON{
		Contract: name, Run: h.GetRun(), Earlier: append([]uint64{}, h.GetEarlier()...), Rounds: []historyRoundJSON{}, Thinned: h.GetThinned(), Hidden: h.GetHidden(),
		Recorded: []string{"round", "attempt", "digest", "record", "method", "peers.node", "peers.weight", "peers.contributed"},
		Reported: []string{"planned", "committed", "durations_ms", "bytes_sent", "bytes_received", "failed", "peers.loss", "peers.metric", "peers.metric_name", "peers.sent", "peers.received", "loss", "metric", "metric_name"},
	}
	for _, r := range h.GetRounds() {
		one := historyRoundToJSON(r)
		if one.MetricName != nil {
			out.Metric = *one.MetricName
		}
		out.Rounds = append(out.Rounds, one)
	}
	return out
}

func historyRoundToJSON(r *swarmv1.HistoryRound) historyRoundJSON {
	out := historyRoundJSON{
		Round: r.GetRound(), Attempt: r.GetAttempt(), Planned: stamp(r.GetPlannedUnixMs()), Committed: stamp(r.GetCommittedUnixMs()), Digest: r.GetDigest(),
		Durations: phasesJSON{r.WaitingMs, r.TrainingMs, r.ExchangeMs, r.CommitMs}, Failed: []failedJSON{}, Peers: []historyPeerJSON{},
		Loss: toldFigure(r.Loss), Metric: toldFigure(r.Metric), MetricName: r.MetricName, Weighted: r.GetWeighted(), Method: r.GetMethod(),
	}
	if n := r.GetRecord(); n > 0 {
		out.Record = &n
	}
	for _, f := range r.GetFailed() {
		out.Failed = append(out.Failed, failedJSON{f.GetAttempt(), f.GetBlamed(), f.GetReason(), stamp(f.GetAtUnixMs())})
	}
	for _, p := range r.GetPeers() {
		x := historyPeerJSON{Node: p.GetNode(), Loss: toldFigure(p.Loss), Metric: toldFigure(p.Metric), Weight: p.Weight, Contributed: p.GetContributed(), Sent: p.SentBytes, Received: p.ReceivedBytes}
		if p.GetMetricName() != r.GetMetricName() {
			x.MetricName = p.GetMetricName()
		}
		out.BytesSent, out.BytesReceived = totalOf(out.BytesSent, p.SentBytes), totalOf(out.BytesReceived, p.ReceivedBytes)
		out.Peers = append(out.Peers, x)
	}
	return out
}

// metricHead is the head of a column of metrics, by what programs call theirs.
func metricHead(name string) string { return strings.ToUpper(first(text.Line(name), "metric")) }

// toldFigure is a figure as JSON can carry it.
func toldFigure(f *float64) *float64 {
	if f == nil {
		return nil
	}
	return finite(*f)
}

func totalOf(have, more *uint64) *uint64 {
	if more == nil {
		return have
	}
	sum := *more
	if have != nil {
		sum += *have
	}
	return &sum
}
