package daemon

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity/embedded"
	"github.com/swarmd/swarmd/internal/logs/form"
	"github.com/swarmd/swarmd/internal/userdirs"
	"github.com/swarmd/swarmd/internal/version"
)

func authorityCommand(e Env) *cli.Command {
	flags := []cli.Flag{
		stringFlag("dir", "directory of the CA's key and the sockets"),
		stringFlag("log-level", "debug, info, warn or error"),
	}
	return command("run-authority", "run the embedded identity authority (one machine, not for production)", flags, func(c *cli.Context) error {
		level, err := logLevel(c.String("log-level"))
		if err != nil {
			return err
		}
		dir := c.String("dir")
		if dir == "" {
			if dir, err = userdirs.Of(e.Getenv).Authority(); err != nil {
				return err
			}
		}
		a, err := embedded.New(embedded.Config{Dir: dir, Log: form.New(e.Stderr, "swarm.authority", level)})
		if err != nil {
			return err
		}
		return a.Run(c.Context)
	})
}

func versionCommand(e Env) *cli.Command {
	return command("version", "print the version and the commit", nil, func(*cli.Context) error {
		_, err := fmt.Fprintln(e.Stdout, "swarmd", version.Read().String())
		return err
	})
}
