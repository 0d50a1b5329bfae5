// Package swci is swarmctl: the command language as one table, and what is made from it.
//
// What is typed in the SWCI shell is what is typed after swarmctl. Every command is a row of the table in grammar.go and
// its siblings (cmd_*.go); parsing, help and docs/reference/cli.md come from that row. A daemon is reached through the
// API only. The tools that start daemons of their own (local, bench) are in sub-packages, which know nothing of the table.
package swci

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/cmdline"
	"github.com/swarmd/swarmd/internal/mountns"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// Main runs one command line (without the program's name) and returns the exit code. It ends early, cleanly, on SIGINT
// and SIGTERM; a second signal ends the process at once.
func Main(args []string, env Env) int {
	if len(args) > 0 && args[0] == mountns.Command {
		return mountns.Become(args[1:])
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := &Signals{}
	defer signals.watch(cancel)()
	own := &identities{open: OpenIdentity(env)}
	err := Execute(ctx, args, &Session{Env: env, Connect: Dial(own.get), Identify: own.get, Signals: signals, own: own})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil && !exit.IsSaid(err) {
		printError(env, err)
	}
	return exit.Code(err)
}

// Signals gives the user's Ctrl-C to whoever wants it.
type Signals struct {
	mu    sync.Mutex
	taker func() // nil: Ctrl-C ends swarmctl
}

// Take has SIGINT call f, until release.
func (s *Signals) Take(f func()) (release func()) {
	s.set(f)
	return func() { s.set(nil) }
}

func (s *Signals) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taker = f
}

// taken gives SIGINT to the one who took it.
func (s *Signals) taken(sig os.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sig != syscall.SIGINT || s.taker == nil {
		return false
	}
	s.taker()
	return true
}

// watch cancels with exit.ErrInterrupted on the first signal that nobody takes, and gives the signals back to the system
// then: a second one ends the process at once.
func (s *Signals) watch(cancel context.CancelCauseFunc) (stop func()) {
	sigs := make(chan os.Signal, 4)
	signal.Notify(sigs, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	finished := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-sigs:
				if s.taken(sig) {
					continue
				}
				signal.Stop(sigs)
				cancel(exit.ErrInterrupted)
				return
			case <-finished:
				return
			}
		}
	}()
	return func() {
		close(finished)
		signal.Stop(sigs)
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
	if len(args) == 1 && args[0] == "--version" {
		args = []string{"version"}
	}
	s.argv = args
	if l, found := s.Grammar.bare(args); found {
		return s.runBare(ctx, l)
	}
	l, err := s.Grammar.split(args)
	c := s.Grammar.named(l.Words)
	if err == nil && c != nil && c.compiled.keywords()[0] == promptWord {
		err = s.original(&l, c)
	}
	if err == nil && c != nil && c.Seed {
		err = forgotten(l)
	}
	if err == nil {
		err = s.execute(ctx, l)
	}
	if err != nil && c != nil && c.Seed {
		err = &exit.Error{Status: exit.Failed, Err: err, Hint: exit.Hint(err)}
	}
	return err
}

// execute runs one command line that is taken apart.
func (s *Session) execute(ctx context.Context, l cmdline.Line) error {
	if l.Has("help", "h") || len(l.Words) == 0 {
		if _, err := s.Grammar.options(helpOnly(l), nil); err != nil {
			return err
		}
		if len(l.Words) == 0 && !l.Has("help", "h") {
			s.Grammar.overview(s.Env.Stderr)
			return exit.New(exit.Usage, "", "no command is given")
		}
		return s.help(l.Words)
	}
	command, parsed, err := s.Grammar.parse(l)
	if err != nil {
		return err
	}
	if s.JSON, err = wantsJSON(parsed.Opts); err != nil {
		return err
	}
	s.formed = parsed.Opts.IsSet("o")
	if command.Prompt && s.prompt == nil {
		return exit.New(exit.Usage, "swarmctl run-swci starts it", "%s is a word of the SWCI prompt", strings.Join(command.compiled.keywords(), " "))
	}
	return apiError(command.Run(ctx, s, parsed))
}

// parse finds the command that a line means and checks its words and options.
func (g *Grammar) parse(l cmdline.Line) (*Command, Args, error) {
	// An unknown option comes first: its value looks like a word too many.
	if err := g.knows(l); err != nil {
		return nil, Args{}, err
	}
	command, args, err := g.find(l.Words)
	if err != nil {
		return nil, Args{}, err
	}
	args.Opts, err = g.options(l, command)
	return command, args, err
}

// Check parses a command line as Execute does, and runs nothing.
func (g *Grammar) Check(args []string) error {
	l, err := g.split(args)
	if err != nil || len(l.Words) == 0 {
		return err
	}
	_, _, err = g.parse(l)
	return err
}

// helpOnly drops the options of a line that asks for help, apart from unknown global ones when there is no command.
func helpOnly(l cmdline.Line) cmdline.Line {
	if l.Has("help", "h") {
		l.Options = nil
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
