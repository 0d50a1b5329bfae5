package daemon

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/version"
)

// read fills a struct of internal/launch/start with what a command was given.
func read(c *cli.Context, into any) error {
	return start.Read(into, func(name string) []string {
		if !c.IsSet(name) {
			return nil
		}
		if _, list := c.Value(name).(cli.StringSlice); list {
			return c.StringSlice(name)
		}
		return []string{fmt.Sprint(c.Value(name))}
	})
}

// startEnv is what a start depends on beside a command's options.
func startEnv(e Env) start.Env {
	return start.Env{Getenv: e.Getenv, Version: version.Read().Version}
}

// readSL reads the options of run-sl. In a component's container the values that the launcher has hidden are there again.
func readSL(c *cli.Context, e Env) (*start.SL, error) {
	o := new(start.SL)
	err := read(c, o)
	o.Reveal(e.Getenv)
	if err != nil {
		return o, err
	}
	o.Invitation = e.invitation()
	return o, o.Settle()
}

// runs starts a component's container.
type runs func(context.Context, *engine.Engine, component.IO) (exit int, err error)

// runsSpec starts a container that was described before.
func runsSpec(s component.Spec) runs {
	return func(ctx context.Context, e *engine.Engine, user component.IO) (int, error) {
		return component.Run(ctx, e, s, user)
	}
}
