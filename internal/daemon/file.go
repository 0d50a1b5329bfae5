package daemon

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"

	"github.com/swarmd/swarmd/internal/cmdline"
)

// fileLimit bounds a configuration file.
const fileLimit = 1 << 20

// withFile adds the options of --config-file that neither the command line nor the environment sets.
func withFile(app *cli.App, args []string, e Env) ([]string, error) {
	if len(args) < 2 {
		return args, nil
	}
	i := slices.IndexFunc(app.Commands, func(c *cli.Command) bool { return c.Name == args[1] })
	if i < 0 {
		return args, nil
	}
	if _, takes := flagTable(app.Commands[i])["config-file"]; !takes {
		return args, nil // the variable in the environment is meant for others
	}
	path := e.Getenv(env("config-file")[0])
	for _, a := range args[2:] {
		if v, ok := strings.CutPrefix(a, "--config-file="); ok {
			path = v
		}
	}
	if path == "" {
		return args, nil
	}
	options, err := readFile(path)
	if err != nil {
		return nil, err
	}
	cmd := app.Commands[i]
	originals := cmdline.Originals(undoctored(cmd.Name), flagTable(cmd))
	for _, name := range slices.Sorted(maps.Keys(options)) {
		f := slices.IndexFunc(cmd.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
		if f < 0 && cmd.Name == healthName {
			continue // the file is the node's, of which this command needs the state directory
		}
		if original, known := originals[name]; f < 0 && known {
			text, err := original.Said(name + " in " + path)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(e.Stderr, "%s: %s\n", progName(e.Getenv), text)
			continue
		}
		if f < 0 {
			return nil, fmt.Errorf("%s: %w", path, unknownOption(cmd, name))
		}
		if _, repeatable := cmd.Flags[f].(*cli.StringSliceFlag); !repeatable && len(options[name]) > 1 {
			return nil, fmt.Errorf("--config-file %s: %s has %d values and takes one: write them as one text", path, name, len(options[name]))
		}
		if !given(cmd.Flags[f], args[2:], e) {
			args = append(args, options[name]...)
		}
	}
	return args, nil
}

// given reports whether the command line or the environment sets the flag.
func given(f cli.Flag, args []string, e Env) bool {
	for _, n := range f.Names() {
		if slices.ContainsFunc(args, func(a string) bool { return a == "--"+n || strings.HasPrefix(a, "--"+n+"=") }) {
			return true
		}
	}
	doc, ok := f.(cli.DocGenerationFlag)
	return ok && slices.ContainsFunc(doc.GetEnvVars(), func(v string) bool { return e.Getenv(v) != "" })
}

// readFile returns each option of a YAML file as arguments. Values are scalars, or lists of them for repeatable options.
func readFile(path string) (map[string][]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("--config-file: %w", err)
	}
	if info.Size() > fileLimit {
		return nil, fmt.Errorf("--config-file %s: %d bytes, at most %d are read", path, info.Size(), fileLimit)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--config-file: %w", err)
	}
	return parseFile(path, raw)
}

func parseFile(path string, raw []byte) (map[string][]string, error) {
	var nodes map[string]yaml.Node
	if err := yaml.Unmarshal(raw, &nodes); err != nil {
		return nil, fmt.Errorf("--config-file %s: %w; want lines like host-ip: 10.0.0.1", path, err)
	}
	options := map[string][]string{}
	for name, node := range nodes {
		values := []*yaml.Node{&node}
		if node.Kind == yaml.SequenceNode {
			values = node.Content
		}
		for _, v := range values {
			if v.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("--config-file %s line %d: %s: want a value or a list of values", path, v.Line, name)
			}
			options[name] = append(options[name], "--"+name+"="+v.Value)
		}
	}
	return options, nil
}
