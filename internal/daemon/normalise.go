package daemon

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/cmdline"
	"github.com/swarmd/swarmd/internal/launch/start"
)

// normalise rewrites the arguments of a command to what urfave/cli understands: single-dash long options of the original
// (-genJoinToken) become double-dash, aliases become the option's first name, options come before other words, and an option that no
// table knows is an error that names the nearest one. What the original's options and variables do not change is said.
func normalise(app *cli.App, args []string, e Env) ([]string, error) {
	if len(args) < 2 {
		return args, nil
	}
	i := slices.IndexFunc(app.Commands, func(c *cli.Command) bool { return c.Name == args[1] })
	if i < 0 {
		return args, nil
	}
	cmd := app.Commands[i]
	table := flagTable(cmd)
	out := slices.Clone(args[:2])
	line, err := takeOriginal(cmd, table, args[2:], e)
	if err != nil {
		return nil, err
	}
	for _, o := range line.Options {
		known, ok := table[o.Name]
		switch {
		case !ok:
			return nil, unknownOption(cmd, o.Typed)
		case !known.Bool && !o.Given, o.Forgotten() && !dashed[known.Name]:
			return nil, fmt.Errorf("%s: missing argument; see %s --help", o.Typed, cmd.HelpName)
		}
		out = append(out, o.As(known.Name))
	}
	if slices.ContainsFunc(line.Words, func(w string) bool { return strings.HasPrefix(w, "-") }) {
		out = append(out, "--")
	}
	return append(out, line.Words...), nil
}

// takeOriginal takes a command's arguments apart, gives the options and variables of the original their meaning, and says once of each
// that has none why that is so. In a component's container that was said by who started it.
func takeOriginal(cmd *cli.Command, table cmdline.Table, args []string, e Env) (cmdline.Line, error) {
	if _, starts := table["hostname"]; !starts {
		return table.Split(args), nil
	}
	known := cmdline.Originals(undoctored(cmd.Name), table)
	line := table.Add(known).Split(args)
	says, err := line.Without(known)
	if err != nil {
		return line, err
	}
	more, err := line.TakeVariables(undoctored(cmd.Name), table, e.Getenv)
	if err != nil || e.Getenv(start.InContainer) != "" {
		return line, err
	}
	for _, text := range append(says, more...) {
		fmt.Fprintf(e.Stderr, "%s: %s\n", progName(e.Getenv), text)
	}
	return line, nil
}

// dashed are the options whose values may begin with a dash.
var dashed = map[string]bool{"env": true, "ml-e": true, "ml-cmd": true, "model-program-args": true}

// flagTable has a command's options.
func flagTable(cmd *cli.Command) cmdline.Table {
	return cmdline.NewTable(append(slices.Clone(cmd.Flags), cli.HelpFlag)...)
}

func unknownOption(cmd *cli.Command, name string) error {
	what := "unknown option " + name
	if strings.HasPrefix(name, "--ml") {
		what = name + " is an unsupported option"
	}
	if near := flagTable(cmd).Suggest(name); near != "" {
		return fmt.Errorf("%s; did you mean --%s?", what, near)
	}
	return fmt.Errorf("%s; see %s --help", what, cmd.HelpName)
}
