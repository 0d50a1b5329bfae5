package swci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/cmdline"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/terminal"
	"github.com/swarmd/swarmd/internal/version"
)

// bareFlags are the options of a line without a command, beside the global ones.
func bareFlags() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: "f", Aliases: []string{"file"}, Usage: "run the commands that stand in `FILE`, - for standard input"}}
}

// bare takes a line apart that has no command; found is false for others. Options have their meaning of such a line: -f takes a file here,
// whatever it does in a command.
func (g *Grammar) bare(args []string) (l cmdline.Line, found bool) {
	l = cmdline.NewTable(slices.Concat(g.global, bareFlags())...).Split(args)
	return l, len(l.Words) == 0 && !l.Has("help", "h")
}

// runBare runs a line without a command: a script from a file or a pipe, or the shell where somebody sits at a terminal.
func (s *Session) runBare(ctx context.Context, l cmdline.Line) error {
	scripts := 0
	for _, o := range l.Options {
		if o.Name != "f" && o.Name != "file" {
			continue
		}
		if !o.Given || o.Value == "" {
			return exit.New(exit.Usage, "swarmctl -f FILE", "option %s needs a value", o.Typed)
		}
		if scripts++; scripts > 1 {
			return exit.New(exit.Usage, "run one after the other", "%s names a second script", o.Typed)
		}
	}
	opts, err := options(l, slices.Concat(s.Grammar.global, bareFlags()), nil)
	if err != nil {
		return err
	}
	if _, err := wantsJSON(opts); err != nil {
		return err
	}
	one := *s
	name := opts.String("f")
	switch {
	case name != "" && name != "-":
		f, err := openScript(name)
		if err != nil {
			return err
		}
		defer f.Close()
		one.Env.Stdin = f
	case name == "" && !s.interactive() && !brings(s.Env.Stdin):
		return s.noCommand()
	}
	p, done, err := one.openPrompt(opts, first(name, "-"))
	if err != nil {
		return err
	}
	defer done()
	if s.interactive() && name == "" {
		fmt.Fprintf(s.Env.Stdout, "swarmctl %s: help lists the commands, the tabulator completes them, exit or Ctrl-D leaves\n", version.Read().Version)
	}
	if err := p.shell.Run(ctx); err != nil {
		return err
	}
	if name == "" && p.shell.Lines() == 0 && !s.interactive() {
		return s.noCommand()
	}
	return nil
}

// noCommand says what there is to a line that starts nothing.
func (s *Session) noCommand() error {
	s.Grammar.overview(s.Env.Stderr)
	return exit.New(exit.Usage, "", "no command is given")
}

// interactive reports whether standard input and output are a terminal.
func (s *Session) interactive() bool {
	return terminal.Is(s.Env.Stdin) && s.Env.IsTerminal(s.Env.Stdout)
}

// brings reports whether lines may come from a stream without a name: a pipe or a file, and neither a terminal whose output goes elsewhere
// nor /dev/null.
func brings(stdin io.Reader) bool {
	f, ok := stdin.(*os.File)
	if !ok {
		return true
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&fs.ModeCharDevice == 0
}

func openScript(name string) (*os.File, error) {
	f, err := os.Open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.New(exit.NotFound, "name a file of commands, one a line", "no script %s", name)
	case err != nil:
		return nil, fmt.Errorf("open script: %w", err)
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		_ = f.Close()
		return nil, exit.New(exit.Usage, "name a file of commands, one a line", "script %s is a directory", name)
	}
	return f, nil
}
