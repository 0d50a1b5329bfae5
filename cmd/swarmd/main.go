// Command swarmd is the daemon of a swarm: SN, SL and the helpers that they need, each one sub-command.
package main

import (
	"os"

	"github.com/swarmd/swarmd/internal/daemon"
)

func main() { os.Exit(daemon.Main(os.Args, daemon.OS())) }
