package component

import (
	"path"
	"strings"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// StateVolume is the name of the volume that keeps a node's state: swarmd-<node>, with the scope between unless it is the
// default one.
func StateVolume(scope, node string) string { return volumeOf(scope, node) }

// SpillVolume is the name of the volume for an SL's weight files that memory has no room for.
func SpillVolume(scope, node string) string { return volumeOf(scope, node) + "-spill" }

func volumeOf(scope, node string) string {
	parts := []string{"swarmd", node}
	if scope != "" && scope != engine.DefaultScope {
		parts = []string{"swarmd", scope, node}
	}
	return strings.Join(parts, "-")
}

// StateDir is a node's state directory inside its container. It reaches the component as SWARM_STATE_DIR.
func StateDir(role, node string) string {
	if role == engine.RoleSpireServer {
		node = "spire-server" // where `swarmd spire-token` in the container looks for the server's socket
	}
	return path.Join(engine.StateHome, node)
}
