package node

import (
	"context"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/health"
)

// openHealth begins to tell how this node fares. The state directory is locked and there is no identity yet.
func openHealth(ctx context.Context, cfg Common, role identity.Role) (*health.Monitor, error) {
	awaits := ""
	if cfg.SocketPath != "" {
		awaits = "the Workload API at " + cfg.SocketPath
	}
	return health.Open(ctx, health.Config{Name: cfg.Name, Role: role, StateDir: cfg.StateDir, Awaits: awaits, Log: cfg.Log})
}
