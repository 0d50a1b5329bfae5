package stop

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/docker/docker/client"
	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/registry"
)

// ErrDenied says that this user may not use the engine's socket.
var ErrDenied = errors.New("permission denied on the container engine's socket")

// ErrNoEngine says that this host has no container engine: no socket where it is looked for by default.
var ErrNoEngine = errors.New("no container engine answers")

// Open connects to the engine. ErrNoEngine and ErrDenied tell why there is none; other errors carry a remedy. The caller closes
// the Engine.
func Open(ctx context.Context, getenv func(string) string) (*engine.Engine, error) {
	host := getenv("DOCKER_HOST")
	named := host != ""
	if !named {
		host = client.DefaultDockerHost
	}
	if path, ok := strings.CutPrefix(host, "unix://"); ok {
		err := unix.Access(path, unix.R_OK|unix.W_OK)
		switch {
		case errors.Is(err, unix.EACCES):
			return nil, fmt.Errorf("%w: %s", ErrDenied, path)
		case errors.Is(err, unix.ENOENT) && !named:
			return nil, fmt.Errorf("%w: there is no %s", ErrNoEngine, path)
		}
	}
	return engine.Open(ctx)
}

// Registry names, for the same command under another user, where this one's processes are registered: K=V, "" if that is
// nowhere.
func Registry(getenv func(string) string) string {
	dir, err := registry.Dir(getenv)
	if err != nil || !filepath.IsAbs(dir) {
		return ""
	}
	return "SWARM_RUN_DIR=" + dir
}
