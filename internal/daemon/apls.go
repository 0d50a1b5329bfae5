package daemon

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

// aplsCommand stands for the original's licence server: scripts that start one first go on.
func aplsCommand(e Env) *cli.Command {
	flags := append([]cli.Flag{
		stringFlag("name", "changes nothing"), runtimeFlag(), envFlag("changes nothing"), stringFlag("apls-port", "changes nothing"),
	}, containerFlags()...)
	return command("run-apls", "does nothing: no licence server is needed", flags, func(*cli.Context) error {
		_, err := fmt.Fprintln(e.Stdout, "no licence server is needed: nothing was started, go on with run-spire-server or run-sn")
		return err
	})
}
