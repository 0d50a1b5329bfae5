// Package swci is swarmctl: the command language as one table, and what is made from it.
//
// What is typed in the SWCI shell is what is typed after swarmctl. Every command is a row of the table in grammar.go and
// its siblings (cmd_*.go); parsing, help and docs/reference/cli.md come from that row. A daemon is reached through the
// API only. The tools that start daemons of their own (local, bench) are in sub-packages, which know nothing of the table.
package swci

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/swci/exit"
)

// Main runs one command line (without the program's name) and returns the exit code. It ends early, cleanly, on SIGINT
// and SIGTERM; a second signal ends the process at once.
func Main(args []string, env Env) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	stop := onSignal(cancel)
	defer stop()
	err := Execute(ctx, args, &Session{Env: env, Connect: Dial(env), Identify: OpenIdentity(env)})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		printError(env.Stderr, err)
	}
	return exit.Code(err)
}

// onSignal cancels with exit.ErrInterrupted on the first signal and gives the signals back to the system for a second.
func onSignal(cancel context.CancelCauseFunc) (stop func()) {
	sig, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	finished := make(chan struct{})
	go func() {
		select {
		case <-sig.Done():
			release()
			cancel(exit.ErrInterrupted)
		case <-finished:
		}
	}()
	return func() {
		close(finished)
		release()
	}
}

// Execute runs one command line in s. The error carries exit code and remedy.
func Execute(ctx context.Context, args []string, s *Session) error {
	if s.Grammar == nil {
		g, err := NewGrammar()
		if err != nil {
			return err
		}
		s.Grammar = g
	}
	l, err := s.Grammar.split(args)
	if err != nil {
		return err
	}
	if l.has("help", "h") || len(l.words) == 0 {
		if _, err := s.Grammar.options(helpOnly(l), nil); err != nil {
			return err
		}
		if len(l.words) == 0 && !l.has("help", "h") {
			s.Grammar.overview(s.Env.Stderr)
			return exit.New(exit.Usage, "", "no command is given")
		}
		return s.Grammar.help(s.Env.Stdout, l.words)
	}
	command, parsed, err := s.Grammar.parse(l)
	if err != nil {
		return err
	}
	if s.JSON, err = wantsJSON(parsed.Opts); err != nil {
		return err
	}
	return command.Run(ctx, s, parsed)
}

// parse finds the command that a line means and checks its words and options.
func (g *Grammar) parse(l line) (*Command, Args, error) {
	// An unknown option comes first: its value looks like a word too many.
	if err := g.knows(l); err != nil {
		return nil, Args{}, err
	}
	command, args, err := g.find(l.words)
	if err != nil {
		return nil, Args{}, err
	}
	args.Opts, err = g.options(l, command)
	return command, args, err
}

// Check parses a command line as Execute does, and runs nothing.
func (g *Grammar) Check(args []string) error {
	l, err := g.split(args)
	if err != nil || len(l.words) == 0 {
		return err
	}
	_, _, err = g.parse(l)
	return err
}

// helpOnly drops the options of a line that asks for help, apart from unknown global ones when there is no command.
func helpOnly(l line) line {
	if l.has("help", "h") {
		l.options = nil
	}
	return l
}

func wantsJSON(opts *cli.Context) (bool, error) {
	switch form := opts.String("o"); form {
	case "json":
		return true, nil
	case "table":
		return false, nil
	default:
		return false, exit.New(exit.Usage, "use -o table or -o json", "output form %q is not known", form)
	}
}
