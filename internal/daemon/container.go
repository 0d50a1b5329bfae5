package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/logs/form"
	"github.com/swarmd/swarmd/internal/terminal"
)

// runComponent runs a start command in a container, whose description has been checked. An attached one gives its own exit code.
func runComponent(c *cli.Context, e Env, run runs) error {
	if c.Bool("sudo") && e.Sudo.UID() != 0 {
		return e.Sudo.Again(e.args[1:], e.Environ())
	}
	eng, err := engine.OpenAt(c.Context, e.Getenv("DOCKER_HOST"))
	if errors.Is(err, fs.ErrPermission) && !c.IsSet("sudo") && e.Sudo.Helps(c.Context, terminal.Is(e.Stdin)) {
		fmt.Fprintln(e.Stderr, "the container engine's socket refuses this user: running again under sudo")
		return e.Sudo.Again(e.args[1:], e.Environ())
	}
	if err != nil {
		return err
	}
	defer eng.Close()
	log := form.New(e.Stderr, "swarm.launch", slog.LevelInfo)
	code, err := run(c.Context, eng, component.IO{Stdin: e.Stdin, Stdout: e.Stdout, Stderr: e.Stderr, Getenv: e.Getenv, Log: log})
	if err != nil || code != 0 {
		return &ExitError{Code: max(code, 1), Err: err}
	}
	return nil
}
