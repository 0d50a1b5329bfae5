package swci

import (
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/cmdline"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// globalFlags are the options that every command takes.
func globalFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "identity", Aliases: []string{"socket-path"}, Usage: "where the SVID comes from: embedded, embedded=`DIR` or the path of a Workload API socket"},
		&cli.StringSliceFlag{Name: "sn", Usage: "API address `HOST[:PORT]` of an SN, port 30304 if not given; repeatable, and then any may be down"},
		&cli.StringFlag{Name: "context", Usage: "saved context `NAME` to use instead of the current one"},
		&cli.StringSliceFlag{Name: "trust-domain", Usage: "further accepted trust domain `NAME`; repeatable"},
		&cli.StringFlag{Name: "spiffe-prefix", Usage: "`PATH` before the role in SPIFFE IDs, as the nodes have it: /swarm (default), or / for spiffe://DOMAIN/swci"},
		&cli.StringFlag{Name: "o", Aliases: []string{"output"}, Value: "table", Usage: "output `FORM`: table or json"},
		&cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show help for the command and exit"},
	}, append(certFlags(), agentFlags()...)...)
}

// split takes args apart. Which options take a value must be known for that: the table's options have the same shape
// in every command (a test holds it), so the union of all of them answers.
func (g *Grammar) split(args []string) (cmdline.Line, error) {
	if ownOptions(args) {
		return cmdline.Line{Words: args}, nil
	}
	all := g.allOptions()
	if len(args) > 0 && args[0] == promptWord {
		all = all.Add(cmdline.Originals(promptWord, all))
	}
	l := all.Split(args)
	if c := g.named(l.Words); c != nil && c.Verbatim {
		l = verbatim(all, args, len(c.compiled.parts)-1)
	}
	for _, o := range l.Options {
		if known, ok := all[o.Name]; ok && !known.Bool && !o.Given {
			return l, exit.New(exit.Usage, "", "option %s needs a value", o.Typed)
		}
	}
	return l, nil
}

// verbatim takes args apart of which only what stands before the n-th word's end has options.
func verbatim(table cmdline.Table, args []string, n int) cmdline.Line {
	for i := range args {
		if l := table.Split(args[:i]); len(l.Words) == n {
			l.Words = append(l.Words, args[i:]...)
			return l
		}
	}
	return table.Split(args)
}

// forgotten returns the original's error for an option whose value looks like the next option.
func forgotten(l cmdline.Line) error {
	for _, o := range l.Options {
		if o.Forgotten() && o.Name != "e" && o.Name != "env" && o.Name != argsOption {
			return exit.New(exit.Usage, "a value that begins with - is written "+cmdline.Dashed(o.Name)+"=VALUE", "%s: missing argument", cmdline.Dashed(o.Name))
		}
	}
	return nil
}

// allOptions has the options of all commands.
func (g *Grammar) allOptions() cmdline.Table {
	flags := slices.Clone(g.global)
	for _, c := range g.commands {
		flags = append(flags, c.Flags...)
	}
	return cmdline.NewTable(flags...)
}

// knows returns an error for an option that no command has.
func (g *Grammar) knows(l cmdline.Line) error {
	all := g.allOptions()
	for _, o := range l.Options {
		if _, ok := all[o.Name]; !ok {
			c := g.named(l.Words)
			_, err := g.options(cmdline.Line{Options: []cmdline.Option{o}}, c)
			return err
		}
	}
	return nil
}

// named returns the command whose name words begin with, or nil. Of several the longest name is what was meant.
func (g *Grammar) named(words []string) (found *Command) {
	for _, c := range g.commands {
		_, err := c.compiled.match(words)
		if !errors.Is(err, errNoMatch) && (found == nil || len(c.compiled.keywords()) > len(found.compiled.keywords())) {
			found = c
		}
	}
	return found
}

// options checks the typed options against those of c (nil: only the global ones) and returns their values.
func (g *Grammar) options(l cmdline.Line, c *Command) (*cli.Context, error) {
	flags := slices.Clone(g.global)
	if c != nil {
		flags = append(flags, c.Flags...)
	}
	return options(l, flags, c)
}

// options returns the values of flags. c is the command that they belong to, nil for none.
func options(l cmdline.Line, flags []cli.Flag, c *Command) (*cli.Context, error) {
	table := cmdline.NewTable(flags...)
	argv := []string{"swarmctl"}
	for _, o := range l.Options {
		known, ok := table[o.Name]
		if !ok {
			return nil, exit.New(exit.Usage, optionHint(table.Suggest(o.Name), c), "unknown option %s", cmdline.Dashed(o.Name))
		}
		argv = append(argv, o.As(known.Name))
	}
	opts, err := parseFlags(flags, argv)
	if err != nil {
		var bad *exit.Error
		if errors.As(err, &bad) && bad.Hint != "" {
			return nil, err
		}
		return nil, &exit.Error{Status: exit.Usage, Err: err, Hint: optionHint("", c)}
	}
	return opts, nil
}

// parsing is held while flags are parsed: urfave/cli keeps what it finds in the flags themselves, which commands that run beside each other share.
// The values that a command reads are its own.
var parsing sync.Mutex

// parseFlags lets urfave/cli turn the normalised options into values, without its help, its output or its exits.
func parseFlags(flags []cli.Flag, argv []string) (*cli.Context, error) {
	var got *cli.Context
	app := &cli.App{
		Name: "swarmctl", Flags: flags, HideHelp: true, HideVersion: true, DisableSliceFlagSeparator: true,
		Writer: io.Discard, ErrWriter: io.Discard,
		Action:         func(c *cli.Context) error { got = c; return nil },
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return err },
		ExitErrHandler: func(*cli.Context, error) {},
	}
	parsing.Lock()
	defer parsing.Unlock()
	if err := app.Run(argv); err != nil {
		if bad, ok := cmdline.Bad(err, flags...); ok {
			hint := ""
			if bad.Want != "" {
				hint = "give " + bad.Want
			}
			return nil, exit.New(exit.Usage, hint, "%s %s is not valid", cmdline.Dashed(bad.Option), bad.Value)
		}
		return nil, &exit.Error{Status: exit.Usage, Err: err}
	}
	return got, nil
}

// optionHint says which option was meant, or where c's (nil: none is known) are listed.
func optionHint(near string, c *Command) string {
	if near != "" {
		return "did you mean " + cmdline.Dashed(near) + "?"
	}
	if c == nil {
		return "swarmctl help lists all commands"
	}
	return "swarmctl help " + strings.Join(c.compiled.keywords(), " ") + " lists its options, swarmctl help those of every command"
}
