// Package engine reaches a container engine (Docker, or Podman through its Docker-compatible socket) and holds what all
// containers of the swarm have in common: labels, image names, and errors that say what to do.
package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/docker/docker/client"
)

// pingLimit bounds how long an engine may be silent that takes a connection, as one that hangs does, or whose socket is systemd's while it starts.
const pingLimit = 15 * time.Second

// Engine is a connection to a container engine. Safe for concurrent use.
type Engine struct {
	*client.Client
}

// Open connects to the engine that DOCKER_HOST and its kin name, else to the default socket, and agrees with it on a version
// of the API. It blocks for one round trip, 15 seconds at most. The caller closes the Engine. Errors carry a remedy (Explain).
func Open(ctx context.Context) (*Engine, error) { return OpenAt(ctx, "") }

// OpenAt is Open for the engine at an address, in the form of DOCKER_HOST; empty: the one that Open finds.
func OpenAt(ctx context.Context, address string) (*Engine, error) {
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if address != "" {
		opts = append(opts, client.WithHost(address))
	}
	return openWith(ctx, opts...)
}

func openWith(ctx context.Context, opts ...client.Opt) (*Engine, error) {
	c, err := client.NewClientWithOpts(opts...)
	if err != nil {
		return nil, &Error{Err: &said{cut(clean("reach container engine: " + err.Error())), err}, Help: "correct DOCKER_HOST", Stays: wrongHost}
	}
	limited, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	if _, err := c.Ping(limited); err != nil {
		_ = c.Close()
		if ctx.Err() == nil && limited.Err() != nil {
			return nil, &Error{Err: fmt.Errorf("reach container engine: no answer within %v: %w", pingLimit, ErrSilent), Help: "see whether it answers others (docker info), and restart it if not"}
		}
		return nil, Explain(fmt.Errorf("reach container engine: %w", err))
	}
	return &Engine{Client: c}, nil
}
