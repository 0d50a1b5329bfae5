package swci

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/nearest"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// globalFlags are the options that every command takes.
func globalFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "identity", Aliases: []string{"socket-path"}, Usage: "where the SVID comes from: embedded, embedded=`DIR` or the path of a Workload API socket"},
		&cli.StringSliceFlag{Name: "sn", Usage: "API address `HOST[:PORT]` of an SN, port 30304 if not given; repeatable, and then any may be down"},
		&cli.StringFlag{Name: "context", Usage: "saved context `NAME` to use instead of the current one"},
		&cli.StringSliceFlag{Name: "trust-domain", Usage: "further accepted trust domain `NAME`; repeatable"},
		&cli.StringFlag{Name: "o", Aliases: []string{"output"}, Value: "table", Usage: "output `FORM`: table or json"},
		&cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show help for the command and exit"},
	}, append(certFlags(), agentFlags()...)...)
}

// option is one option as typed, before it is known whether the command takes it.
type option struct {
	name  string
	value string
	given bool // a value stands with it
	apart bool // as the next word
}

// line is a command line taken apart: options may stand before, between and after the words.
type line struct {
	words   []string
	options []option
}

// split takes args apart. Which options take a value must be known for that: the table's options have the same shape
// in every command (a test holds it), so the union of all of them answers.
func (g *Grammar) split(args []string) (line, error) {
	if ownOptions(args) {
		return line{words: args}, nil
	}
	takes := g.valueOptions()
	var l line
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			l.words = append(l.words, args[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			l.words = append(l.words, arg)
			continue
		}
		o := option{name: strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")}
		o.name, o.value, o.given = strings.Cut(o.name, "=")
		if takesValue, known := takes[o.name]; known && takesValue && !o.given {
			if i++; i == len(args) {
				return l, exit.New(exit.Usage, "", "option %s needs a value", arg)
			}
			o.value, o.given, o.apart = args[i], true, true
		}
		l.options = append(l.options, o)
	}
	return l, nil
}

// forgotten returns the original's error for an option whose value looks like the next option.
func (l line) forgotten() error {
	for _, o := range l.options {
		if o.apart && strings.HasPrefix(o.value, "-") && o.name != "e" && o.name != "env" {
			return exit.New(exit.Usage, "a value that begins with - is written "+dashed(o.name)+"=VALUE", "%s: missing argument", dashed(o.name))
		}
	}
	return nil
}

// valueOptions maps every option's name in the table to whether it takes a value.
func (g *Grammar) valueOptions() map[string]bool {
	takes := map[string]bool{}
	add := func(flags []cli.Flag) {
		for _, f := range flags {
			_, isBool := f.(*cli.BoolFlag)
			for _, n := range f.Names() {
				takes[n] = !isBool
			}
		}
	}
	add(g.global)
	for _, c := range g.commands {
		add(c.Flags)
	}
	return takes
}

// knows returns an error for an option that no command has.
func (g *Grammar) knows(l line) error {
	all := g.valueOptions()
	for _, o := range l.options {
		if _, ok := all[o.name]; !ok {
			c := g.named(l.words)
			_, err := g.options(line{options: []option{o}}, c)
			return err
		}
	}
	return nil
}

// named returns the command whose name words begin with, or nil.
func (g *Grammar) named(words []string) *Command {
	for _, c := range g.commands {
		if _, err := c.compiled.match(words); !errors.Is(err, errNoMatch) {
			return c
		}
	}
	return nil
}

// has reports whether the option was typed, under any of its names.
func (l line) has(names ...string) bool {
	for _, o := range l.options {
		for _, n := range names {
			if o.name == n {
				return true
			}
		}
	}
	return false
}

// options checks the typed options against those of c (nil: only the global ones) and returns their values.
func (g *Grammar) options(l line, c *Command) (*cli.Context, error) {
	flags := append([]cli.Flag{}, g.global...)
	if c != nil {
		flags = append(flags, c.Flags...)
	}
	known := map[string]string{} // to the first of its names: cli refuses two of them in one line
	var names []string
	for _, f := range flags {
		for _, n := range f.Names() {
			known[n] = f.Names()[0]
			names = append(names, n)
		}
	}
	argv := []string{"swarmctl"}
	for _, o := range l.options {
		name, ok := known[o.name]
		if !ok {
			return nil, exit.New(exit.Usage, optionHint(o.name, names, c), "unknown option %s", dashed(o.name))
		}
		if o.given {
			argv = append(argv, "--"+name+"="+o.value)
		} else {
			argv = append(argv, "--"+name)
		}
	}
	opts, err := parseFlags(flags, argv)
	if err != nil {
		var bad *exit.Error
		if errors.As(err, &bad) && bad.Hint != "" {
			return nil, err
		}
		return nil, &exit.Error{Status: exit.Usage, Err: err, Hint: optionHint("", nil, c)}
	}
	return opts, nil
}

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
	if err := app.Run(argv); err != nil {
		if m := badValue.FindStringSubmatch(err.Error()); m != nil {
			return nil, exit.New(exit.Usage, kindHint(flags, m[2]), "%s %s is not valid", dashed(m[2]), m[1])
		}
		return nil, &exit.Error{Status: exit.Usage, Err: err}
	}
	return got, nil
}

// badValue is how package flag complains about a value.
var badValue = regexp.MustCompile(`^invalid value (".*") for flag -(\S+): `)

// kindHint says what an option takes; empty where that is any text.
func kindHint(flags []cli.Flag, name string) string {
	for _, f := range flags {
		if !slices.Contains(f.Names(), name) {
			continue
		}
		switch f.(type) {
		case *cli.DurationFlag:
			return "give a time with its unit, such as 90s or 5m"
		case *cli.Float64Flag:
			return "give a number, such as 0.4"
		case *cli.IntFlag, *cli.Uint64Flag:
			return "give a whole number"
		}
	}
	return ""
}

func optionHint(name string, names []string, c *Command) string {
	var long []string
	for _, n := range names {
		if len(n) > 1 {
			long = append(long, n)
		}
	}
	if near := nearest.Word(name, long); near != "" {
		return "did you mean " + dashed(near) + "?"
	}
	if c == nil {
		return "swarmctl help lists all commands"
	}
	return "swarmctl help " + strings.Join(c.compiled.keywords(), " ") + " lists its options, swarmctl help those of every command"
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
