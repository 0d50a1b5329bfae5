package swci

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/swci/bench"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/local"
)

func benchCommands() []*Command {
	return []*Command{{
		Pattern: "bench merge", Group: "This host",
		Summary: "Time merges of a synthetic model on this machine",
		Details: "Brings up a swarm of swarmd processes on this machine, plays the program of every SL, and times rounds through the real path: bridge, API, raft, exchange, digests. Before each round all programs write new random float32 weights, after it all that each of them reads is held to a mean that swarmctl computes by itself, or to package merge by other methods; neither is timed. A wrong model ends the command with exit code 1. One round warms up and is not counted.\n\n" +
			"efficiency compares each round with what the bytes of all peers would take on one TLS connection of this machine, measured about once a second between rounds, and is the median; with --link, with what one peer's bytes take on its link. The JSON form has the keys peers, bytes, rounds, round_seconds_median, round_seconds_p95, sent_bytes_per_peer, cpu_seconds, peak_rss_bytes, peak_rss_anon_bytes, tls_bytes_per_second, model_seconds, efficiency, checked_against and, with --link, link_bytes_per_second, with --netns, congestion_control, with --method, method and wire_bytes; docs/reference/local.md says what they mean.",
		Example: "bench merge --peers 4 --size 100MiB --rounds 5 -o json",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "peers", Value: 4, Usage: "number of peers `N`"},
			&cli.StringFlag{Name: "size", Value: "100MiB", Usage: "`SIZE` of the model, for example 100MiB"},
			&cli.IntFlag{Name: "rounds", Value: 5, Usage: "number of rounds `N` that count"},
			&cli.StringFlag{Name: "method", Usage: "merge by `METHOD` instead of mean, for example \"mean(wire=bfloat16)\""},
			&cli.IntFlag{Name: "sns", Value: 1, Usage: "number of SNs `N`"},
			&cli.BoolFlag{Name: "netns", Usage: "give each node a network namespace of its own (needs root)"},
			&cli.StringFlag{Name: "link", Usage: "bound each SL's link to `SPEED` in each direction, for example 200mbit; implies --netns"},
			&cli.DurationFlag{Name: "pause", Usage: "let programs wait for `TIME` before each round that counts, as if they trained"},
			&cli.DurationFlag{Name: "timeout", Value: benchTimeout, Usage: "give up after `TIME`"},
			&cli.StringFlag{Name: "swarmd", Usage: "swarmd binary `FILE`; the one beside swarmctl or in PATH if not given"},
		},
		Run: benchMerge,
	}}
}

// benchTimeout bounds a bench that makes no progress.
const benchTimeout = 30 * time.Minute

func benchMerge(ctx context.Context, s *Session, args Args) error {
	o := args.Opts
	size, err := bench.ParseSize(o.String("size"))
	if err != nil {
		return err
	}
	var link int64
	if o.String("link") != "" {
		if link, err = bench.ParseLink(o.String("link")); err != nil {
			return err
		}
	}
	pause := o.Duration("pause")
	if pause < 0 {
		return exit.New(exit.Usage, "write it like 2s", "--pause %s is negative", pause)
	}
	swarmd, err := local.FindSwarmd(o.String("swarmd"))
	if err != nil {
		return err
	}
	timeout := o.Duration("timeout")
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, exit.New(exit.TimedOut, "", "bench took longer than %s", timeout))
	defer cancel()
	r, err := bench.Merge(ctx, bench.Config{
		Peers: o.Int("peers"), SNs: o.Int("sns"), Rounds: o.Int("rounds"), Size: size, Swarmd: swarmd, Environ: os.Environ(),
		Netns: o.Bool("netns") || link > 0, Link: link, Method: o.String("method"), Pause: pause,
		Note: func(line string) { fmt.Fprintln(s.Env.Stderr, line) },
	})
	if err != nil {
		return err
	}
	if s.JSON {
		return printJSON(s.Env.Stdout, r)
	}
	t := table{header: []string{"FIGURE", "VALUE"}}
	t.add("peers", fmt.Sprint(r.Peers))
	t.add("model", mib(float64(r.Bytes)))
	if r.Method != "" {
		t.add("merged by", r.Method)
		t.add("of a model travel", mib(float64(r.WireBytes)))
	}
	t.add("round, median of "+fmt.Sprint(r.Rounds), fmt.Sprintf("%.3f s", r.RoundMedian))
	t.add("round, 95th percentile", fmt.Sprintf("%.3f s", r.RoundP95))
	t.add("sent by each peer in a round", mib(r.SentPerPeer))
	t.add("CPU time of all daemons in a round", fmt.Sprintf("%.2f s", r.CPUSeconds))
	t.add("memory of the largest daemon", mib(float64(r.PeakRSS)))
	t.add("of that not backed by files", mib(float64(r.PeakRSSAnon)))
	t.add("one TLS connection of this machine", mib(r.TLSBytesPerSecond)+"/s")
	if link > 0 {
		t.add("link of each peer", mib(r.LinkBytesPerSecond)+"/s")
		t.add("one peer's bytes at that speed", fmt.Sprintf("%.3f s", r.ModelSeconds))
		t.add("round over that", fmt.Sprintf("%.2f", r.RoundMedian/r.ModelSeconds))
	} else {
		t.add("all peers' bytes at that speed", fmt.Sprintf("%.3f s", r.ModelSeconds))
	}
	if r.Congestion != "" {
		t.add("congestion control of the links", r.Congestion)
	}
	t.add("efficiency", fmt.Sprintf("%.2f", r.Efficiency))
	t.add("all models checked against", r.CheckedAgainst)
	return t.print(s.Env.Stdout)
}

func mib(bytes float64) string { return fmt.Sprintf("%.1f MiB", bytes/(1<<20)) }
