package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

// runComponent runs a start command in the container that translate makes of it. An attached one gives its own exit code.
func runComponent(c *cli.Context, e Env, translate func(*cli.Context, Env) (component.Spec, error)) error {
	spec, err := translate(c, e)
	if err != nil {
		return err
	}
	if c.Bool("sudo") && e.Sudo.UID() != 0 {
		return e.Sudo.again(e)
	}
	eng, err := engine.Open(c.Context)
	if errors.Is(err, fs.ErrPermission) && !c.IsSet("sudo") && e.Sudo.helps(c.Context, isTerminal(e)) {
		fmt.Fprintln(e.Stderr, "the container engine's socket refuses this user: running again under sudo")
		return e.Sudo.again(e)
	}
	if err != nil {
		return err
	}
	defer eng.Close()
	code, err := component.Run(c.Context, eng, spec, component.IO{
		Stdin: e.Stdin, Stdout: e.Stdout, Stderr: e.Stderr, Getenv: e.Getenv, Log: newLogger(e.Stderr, "swarm.launch", slog.LevelInfo),
	})
	if err != nil || code != 0 {
		return &ExitError{Code: max(code, 1), Err: err}
	}
	return nil
}

// isTerminal tells whether somebody sits at standard input.
func isTerminal(e Env) bool {
	f, ok := e.Stdin.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
