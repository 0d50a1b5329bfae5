package swci

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/top"
	"github.com/swarmd/swarmd/internal/terminal"
)

func topCommands() []*Command {
	return []*Command{{
		Pattern: "top [CONTRACT]", Group: "Watch",
		Summary: "Show the swarm in a terminal, as it changes",
		Details: "Fills the terminal with what \"dashboard\" shows in a browser: which SN leads and which is asked, how the nodes are, and one contract: what it waits for and what to do, how far its peers are, the curves of loss and metric, bytes, and which attempt failed last. It asks every 2 s, with your identity and your rights, and changes nothing.\n\n" +
			"Without CONTRACT it shows one that trains; the tab key shows the next. The arrow keys scroll, p pauses, ? says what keys and words mean, q quits. If no SN answers, or your identity expires, it says so and goes on showing what was known last, until the swarm can be asked again.\n\n" +
			"It needs a terminal. For scripts there are \"list nodes\", \"get contract status\" and \"explain contract\" with -o json. With NO_COLOR set it shows no colours.",
		Example: "top",
		Run:     runTop,
	}}
}

func runTop(ctx context.Context, s *Session, args Args) error {
	env := s.Env
	switch {
	case s.JSON:
		return exit.New(exit.Usage, "use swarmctl list nodes -o json, or swarmctl get contract status NAME -o json", "top: it is a screen, and has no JSON")
	case !env.IsTerminal(env.Stdout) || !terminal.Is(env.Stdin):
		return exit.New(exit.Usage, "run it in a terminal; elsewhere use swarmctl list nodes, or swarmctl get contract status NAME, with -o json for programs", "top: it needs a terminal for its input and output")
	case env.Getenv("TERM") == "dumb":
		return exit.New(exit.Usage, "set TERM to what the terminal is, or use swarmctl list nodes and swarmctl get contract status NAME", "top: a terminal that is \"dumb\" can't show a screen")
	}
	target, err := s.target(args.Opts)
	if err != nil {
		return err
	}
	one, quiet := *s, &untilQuiet{w: env.Stderr}
	one.Env.Stderr = quiet
	docs, done, err := openDocuments(ctx, &one, target, false, audit.Options{Unsigned: true})
	if err != nil {
		return err
	}
	defer done()
	if err := topShows(ctx, docs, args.Value("CONTRACT")); err != nil {
		return err
	}
	quiet.now.Store(true) // the screen has the terminal
	cfg := top.Config{Documents: docs, Contract: args.Value("CONTRACT"), Color: env.Getenv("NO_COLOR") == "", Now: env.Now, In: env.Stdin, Out: env.Stdout}
	for _, key := range []string{"TERM", "COLORTERM", "TERM_PROGRAM", "TMUX", "STY", "SSH_TTY", "NO_COLOR"} {
		if value := env.Getenv(key); value != "" {
			cfg.Environment = append(cfg.Environment, key+"="+value)
		}
	}
	return top.Run(ctx, cfg)
}

// topShows checks that the swarm can be asked, and that it has the contract that is named, if one is.
func topShows(ctx context.Context, docs *documents, contract string) error {
	value, err := docs.Get(ctx, "swarm")
	if value == nil {
		return err
	}
	if contract == "" {
		return nil
	}
	if value, err = docs.Get(ctx, "contract/"+contract); value == nil { // who may see it may perhaps not list all
		return err
	}
	return nil
}

// untilQuiet writes until there is something else on the terminal.
type untilQuiet struct {
	w   io.Writer
	now atomic.Bool
}

func (q *untilQuiet) Write(p []byte) (int, error) {
	if q.now.Load() {
		return len(p), nil
	}
	return q.w.Write(p) //nolint:wrapcheck // it is w's
}
