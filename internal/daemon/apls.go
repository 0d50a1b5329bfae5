package daemon

import (
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/launch/start"
)

// swopCommand stands for the original's operator of hosts.
func swopCommand() *cli.Command {
	flags := append([]cli.Flag{
		stringFlag("name", "name of the node"), runtimeFlag(), envFlag("K=V in the container's environment (repeatable)"),
		stringFlag("usr-dir", "directory with profile and tasks"), stringFlag("profile-file-name", "profile, in the user directory"),
		stringFlag("host-ip", "address of this host"), stringFlag("sn-ip", "address of an SN"), portFlag("sn-api-port", start.APIPort, "its API port"),
		stringFlag("sn-api-service", "address of its API behind a proxy"), stringFlag("docker-socket-file", "socket of the container engine"),
		stringFlag("docker-group-id", "group of that socket"), stringFlag("swop-uid", "user of the container"), stringFlag("socket-path", "SPIFFE Workload API socket of an agent"),
	}, slices.Concat(certFlags(), containerFlags())...)
	return command("run-swop", "not supported: start run-sn and run-sl on each host instead", flags, func(*cli.Context) error {
		return errors.New("this release has no SWOP and no tasks: start run-sn and run-sl on each host with the options of the profile, and the program with --model-program or --ml-cmd")
	})
}

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
