package daemon

import (
	"log/slog"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/running"
)

// registered tells this host that a component runs as this process, so that `swarmctl stop` finds it, and returns what takes
// it back. That it can't be told keeps nobody from running. A container is found by its labels.
func registered(e Env, role, name, platform, stateDir string, log *slog.Logger) (remove func()) {
	if e.Getenv("SWARM_IN_CONTAINER") != "" {
		return func() {}
	}
	remove, err := running.Add(running.Entry{Role: role, Name: name, Platform: platform, StateDir: stateDir, Scope: engine.Scope(e.Getenv)})
	if err != nil {
		log.Warn("stop-swarm will not find this process", "err", err)
		return func() {}
	}
	return remove
}
