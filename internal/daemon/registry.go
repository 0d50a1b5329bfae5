package daemon

import (
	"log/slog"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/registry"
)

// registerProcess adds this process to the registry of what runs on this host, so that `swarmctl stop` finds it; remove takes it out again.
// A component that cannot be registered runs all the same. A container is found by its labels instead.
func registerProcess(e Env, role, name, platform, stateDir string, log *slog.Logger) (remove func()) {
	if e.Getenv("SWARM_IN_CONTAINER") != "" {
		return func() {}
	}
	remove, err := registry.Add(registry.Entry{Role: role, Name: name, Platform: platform, StateDir: stateDir, Scope: engine.Scope(e.Getenv)})
	if err != nil {
		log.Warn("stop-swarm will not find this process", "err", err)
		return func() {}
	}
	return remove
}
