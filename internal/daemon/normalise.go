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
// (-genJoinToken) become double-dash, options come before other words, and an option that no table knows is an error that names the nearest one.
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
		boolean, known := flags[bare]
		if !known {
			return nil, unknownOption(cmd.Name, name, flags)
		}
		switch {
		case hasValue:
			out = append(out, "--"+bare+"="+value)
		case boolean:
			out = append(out, "--"+bare)
		case len(rest) == 0 || (strings.HasPrefix(rest[0], "-") && bare != "e" && bare != "env"):
			return nil, fmt.Errorf("%s: missing argument; see swarmd %s --help", name, cmd.Name)
		default:
			out = append(out, "--"+bare+"="+rest[0])
			rest = rest[1:]
		}
	}
	return append(out, words...), nil
}

// flagTable maps each name of a command's options to whether it takes no value.
func flagTable(cmd *cli.Command) map[string]bool {
	table := map[string]bool{"help": true, "h": true}
	for _, f := range cmd.Flags {
		_, boolean := f.(*cli.BoolFlag)
		for _, n := range f.Names() {
			table[n] = boolean
		}
	}
	return table
}

func unknownOption(cmd, name string, flags map[string]bool) error {
	if near := nearest.Word(strings.TrimLeft(name, "-"), slices.Collect(maps.Keys(flags))); near != "" {
		return fmt.Errorf("unknown option %s; did you mean --%s?", name, near)
	}
	return fmt.Errorf("unknown option %s; see swarmd %s --help", name, cmd)
}
