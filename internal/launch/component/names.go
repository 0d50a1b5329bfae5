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

// hostState is where a directory of the user's with a node's state stands in the container, or one that lives no longer than
// it: not in engine.StateHome, which the image closes to others than its user.
const hostState = "/platform/swarm/state"

// stateDir is the state directory inside the container. It reaches the component as SWARM_STATE_DIR.
func (s Spec) stateDir() string {
	if s.StateDir != "" || s.Stateless {
		return hostState
	}
	return StateDir(s.Role, s.Node)
}

// StateDir is a node's state directory inside its container if it is in the volume StateVolume.
func StateDir(role, node string) string {
	if role == engine.RoleSpireServer {
		node = "spire-server" // where `swarmd spire-token` in the container looks for the server's socket
	}
	return path.Join(engine.StateHome, node)
}
