package stop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/docker/client"
	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/running"
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

// sudoLimit bounds the question whether sudo works without a password.
const sudoLimit = 5 * time.Second

// Sudo returns sudo's path if it may help: it is there, this user is not root, and it can ask for a password or needs none. ""
// otherwise.
func Sudo(ctx context.Context, terminal bool) string {
	path, err := exec.LookPath("sudo")
	if err != nil || os.Geteuid() == 0 {
		return ""
	}
	if terminal {
		return path
	}
	ctx, cancel := context.WithTimeout(ctx, sudoLimit)
	defer cancel()
	if exec.CommandContext(ctx, path, "-n", "true").Run() != nil {
		return ""
	}
	return path
}

// SudoArgs is the command line of self as root, with the variables that mean something to it: processes are looked for where
// this user's are registered.
func SudoArgs(sudo, self string, o Options, environ []string) []string {
	argv := []string{sudo, "--", "env"}
	getenv := func(key string) string {
		for _, kv := range environ {
			if v, ok := strings.CutPrefix(kv, key+"="); ok {
				return v
			}
		}
		return ""
	}
	for _, kv := range environ {
		if strings.HasPrefix(kv, "SWARM_") && !strings.HasPrefix(kv, "SWARM_RUN_DIR=") || strings.HasPrefix(kv, "DOCKER_") {
			argv = append(argv, kv)
		}
	}
	if dir, err := running.Dir(getenv); err == nil && filepath.IsAbs(dir) {
		argv = append(argv, "SWARM_RUN_DIR="+dir)
	}
	return append(append(argv, self, "stop"), o.Args()...)
}
