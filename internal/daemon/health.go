package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/health"
	"github.com/swarmd/swarmd/internal/userdirs"
)

const healthName = "health"

// healthCommand asks the daemon on this machine how it fares: for containers' health checks, timers and people.
func healthCommand(e Env) *cli.Command {
	flags := []cli.Flag{
		stringFlag("config-file", "YAML file of the node's options, for its state-dir and name"),
		stringFlag("state-dir", "state directory of the node (default: the one that --name has, else the only one in which a node runs)"),
		stringFlag("name", "name of the node, for the default state directory"),
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "text or json"},
	}
	return command(healthName, "report whether the node on this machine is healthy, and until when or why not", flags, func(c *cli.Context) error {
		form := c.String("output")
		if form != "text" && form != "json" {
			return fmt.Errorf("--output %s: want text or json", form)
		}
		nodes, _ := userdirs.Of(e.Getenv).Nodes() // where nothing names it, healthDir says so if it needs it
		dir, err := healthDir(c.Context, nodes, c.String("state-dir"), c.String("name"))
		if err != nil {
			return err
		}
		report, err := health.Read(c.Context, dir)
		if errors.Is(err, health.ErrNoDaemon) {
			return fmt.Errorf("no swarmd runs with state directory %s: start it, or name the right one with --state-dir or --name", dir)
		}
		if err != nil {
			return err
		}
		if err := printHealth(e, report, form); err != nil {
			return err
		}
		if !report.Healthy {
			return &ExitError{Code: 1}
		}
		return nil
	})
}

func printHealth(e Env, report health.Report, form string) error {
	if form == "json" {
		enc := json.NewEncoder(e.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(report)
	}
	_, err := fmt.Fprintln(e.Stdout, report.Verdict().Text())
	return err
}

// healthDir is the state directory that is meant; home is where nodes have theirs by default.
func healthDir(ctx context.Context, home, dir, name string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	if name != "" {
		return filepath.Join(home, name), nil
	}
	entries, err := os.ReadDir(home)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("find state directory: %w", err)
	}
	var found []string
	for _, entry := range entries {
		dir := filepath.Join(home, entry.Name())
		if _, err := health.Read(ctx, dir); err == nil {
			found = append(found, dir)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("no swarmd runs with a state directory in %s: start one, or name its directory with --state-dir", home)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("several nodes run on this machine: choose one with --state-dir: %s", strings.Join(found, ", "))
}
