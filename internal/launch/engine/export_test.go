package engine

import (
	"context"
	"net"

	"github.com/docker/docker/client"
)

// OpenOver opens the engine that connections of a test's own lead to.
func OpenOver(ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*Engine, error) {
	return openWith(ctx, client.WithHost("tcp://engine:1"), client.WithDialContext(dial), client.WithAPIVersionNegotiation())
}
