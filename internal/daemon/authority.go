package daemon

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity/embedded"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/logs/form"
	"github.com/swarmd/swarmd/internal/metrics"
	"github.com/swarmd/swarmd/internal/userdirs"
	"github.com/swarmd/swarmd/internal/version"
)

func authorityCommand(e Env) *cli.Command {
	flags := []cli.Flag{
		stringFlag("dir", "directory of the CA's key and the sockets"),
		metricsFlag("it"), stringFlag("log-level", "debug, info, warn or error"),
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
		log := form.New(e.Stderr, "swarm.authority", level)
		a, err := embedded.New(embedded.Config{Dir: dir, Log: log})
		if err != nil {
			return err
		}
		m, err := openMetrics(c.Context, e, start.Metrics(c.String(metrics.Option)), string(metrics.RoleAuthority), metrics.RoleAuthority, log)
		if err != nil {
			return err
		}
		defer func() { _ = m.Close() }() // its readers have gone by then, or are cut
		m.Authority(a.Status)
		return a.Run(c.Context)
	})
}

func versionCommand(e Env) *cli.Command {
	return command("version", "print the version and the commit", nil, func(*cli.Context) error {
		_, err := fmt.Fprintln(e.Stdout, "swarmd", version.Read().String())
		return err
	})
}
