// Command chaos runs a swarm under random faults: see `make chaos` and package chaos. It is its swarm's training program too.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/swarmd/swarmd/internal/chaos"
)

func main() {
	if code, is := chaos.Program(os.Args, os.Stdout, os.Stderr); is {
		os.Exit(code)
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is main; it returns the exit code: 0, 1 with a violation, 2 if nothing could be told.
func run(args []string, stdout, stderr io.Writer) int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(stderr, "chaos:", err)
		return 2
	}
	cfg := chaos.Config{Program: self, Out: stdout}
	var minutes float64
	var known, only string
	f := flag.NewFlagSet("chaos", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Uint64Var(&cfg.Seed, "seed", uint64(time.Now().Unix()), "of the faults") //nolint:gosec // after 1970
	f.Float64Var(&minutes, "minutes", 20, "how long faults go on")
	f.StringVar(&cfg.Bin, "bin", "bin", "folder of swarmd and swarmctl")
	f.StringVar(&cfg.Dir, "dir", "out/chaos", "folder for logs, events, ledgers and the report; it is emptied")
	f.IntVar(&cfg.SNs, "sns", 0, "SNs (default 3)")
	f.IntVar(&cfg.SLs, "sls", 0, "SLs (default 6)")
	f.IntVar(&cfg.Floats, "floats", 0, "numbers in the model (default 300000)")
	f.DurationVar(&cfg.Pace, "pace", 0, "time between two merges (default 200ms)")
	f.DurationVar(&cfg.Training, "training", 0, "length of one training (default 5m)")
	f.DurationVar(&cfg.Bound, "bound", 0, "time for recovery (default 1m)")
	f.BoolVar(&cfg.Loopback, "loopback", false, "no network namespaces, also as root")
	f.StringVar(&known, "known", "", "kinds from which swarmd is known not to recover yet, to try all the same, divided by commas, or all: "+list(chaos.Known()))
	f.StringVar(&only, "only", "", "the only kinds of faults, divided by commas")
	if err := f.Parse(args); err != nil {
		return 2
	}
	cfg.For = time.Duration(minutes * float64(time.Minute))
	cfg.Known, cfg.Only = kinds(known), kinds(only)
	if known == "all" {
		cfg.Known = chaos.Known()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := chaos.Run(ctx, cfg)
	if err != nil {
		fmt.Fprintln(stderr, "chaos:", err)
		return 2
	}
	if len(report.Violations) > 0 {
		return 1
	}
	return 0
}

func kinds(text string) (out []chaos.Kind) {
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, chaos.Kind(name))
		}
	}
	return out
}

func list(all []chaos.Kind) string {
	var names []string
	for _, k := range all {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}
