// Command swarmctl looks at swarms, runs whole ones on one machine, and measures them.
package main

import (
	"os"

	"github.com/swarmd/swarmd/internal/swci"
)

func main() { os.Exit(swci.Main(os.Args[1:], swci.OSEnv())) }
