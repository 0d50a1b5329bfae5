package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/nearest"
)

// normalise rewrites the arguments of a command to what urfave/cli understands: single-dash long options of the original
// (-genJoinToken) become double-dash, aliases become the option's first name, options come before other words, and an option that no table knows is an error that names the nearest one.
func normalise(app *cli.App, args []string) ([]string, error) {
	if len(args) < 2 {
		return args, nil
	}
	i := slices.IndexFunc(app.Commands, func(c *cli.Command) bool { return c.Name == args[1] })
	if i < 0 {
		return args, nil
	}
	cmd := app.Commands[i]
	flags := flagTable(cmd)
	out := slices.Clone(args[:2])
	var words []string
	rest := args[2:]
	for len(rest) > 0 {
		arg := rest[0]
		rest = rest[1:]
		name, value, hasValue := strings.Cut(arg, "=")
		bare := strings.TrimLeft(name, "-")
		if bare == "" || bare == name {
			words = append(words, arg)
			continue
		}
		o, known := flags[bare]
		if letters := cluster(arg, flags); !known && letters != nil {
			out = append(out, letters...)
			continue
		}
		if !known {
			return nil, unknownOption(cmd, name, flags)
		}
		switch {
		case hasValue:
			out = append(out, "--"+o.name+"="+value)
		case o.boolean:
			out = append(out, "--"+o.name)
		case len(rest) == 0 || (strings.HasPrefix(rest[0], "-") && !dashed[o.name]):
			return nil, fmt.Errorf("%s: missing argument; see %s --help", name, cmd.HelpName)
		default:
			out = append(out, "--"+o.name+"="+rest[0])
			rest = rest[1:]
		}
	}
	return append(out, words...), nil
}

// dashed are the options whose values may begin with a dash.
var dashed = map[string]bool{"env": true, "ml-e": true, "ml-cmd": true}

// cluster takes one-letter options without a value that stand together, such as -it, apart; nil if arg is something else.
func cluster(arg string, flags map[string]option) []string {
	letters, one := strings.CutPrefix(arg, "-")
	if !one || len(letters) < 2 {
		return nil
	}
	var out []string
	for _, l := range letters {
		o := flags[string(l)]
		if !o.boolean || o.name == "help" {
			return nil
		}
		out = append(out, "--"+o.name)
	}
	return out
}

// option is what normalise knows of one.
type option struct {
	name    string // the first of its names: urfave/cli takes only one of them at a time
	boolean bool   // takes no value
}

// flagTable maps each name of a command's options to the option.
func flagTable(cmd *cli.Command) map[string]option {
	help := option{"help", true}
	table := map[string]option{"help": help, "h": help}
	for _, f := range cmd.Flags {
		_, boolean := f.(*cli.BoolFlag)
		for _, n := range f.Names() {
			table[n] = option{f.Names()[0], boolean}
		}
	}
	return table
}

func unknownOption(cmd *cli.Command, name string, flags map[string]option) error {
	what := "unknown option " + name
	if strings.HasPrefix(name, "--ml") {
		what = name + " is an unsupported option"
	}
	if near := nearest.Word(strings.TrimLeft(name, "-"), slices.Collect(maps.Keys(flags))); near != "" {
		return fmt.Errorf("%s; did you mean --%s?", what, near)
	}
	return fmt.Errorf("%s; see %s --help", what, cmd.HelpName)
}
