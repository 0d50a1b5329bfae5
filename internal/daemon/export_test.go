package daemon

import (
	"time"

	"github.com/urfave/cli/v2"
)

// Impatient is an environment in which a doctor waits only for so long.
func (e Env) Impatient(wait time.Duration) Env {
	e.wait = wait
	return e
}

// ServerOptions are the standard options of run-spire-server, and whether they take a value.
func ServerOptions() map[string]bool {
	table := map[string]bool{"config": true, "trustDomain": true, "logLevel": true}
	for _, f := range serverOptions() {
		_, boolean := f.(*cli.BoolFlag)
		table[f.Names()[0]] = !boolean
	}
	return table
}

// What the tests of package daemon_test must see.
var (
	Explain   = func(err error) string { return explain(err, "swarmd") }
	HealthDir = healthDir
)

// SWOPProfile is one with two SLs.
const SWOPProfile = swopProfile
