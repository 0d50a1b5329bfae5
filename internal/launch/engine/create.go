package engine

import (
	"context"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// createLimit bounds the making of a container: an engine may have to unpack an image or to wait for a disk.
const createLimit = 2 * time.Minute

// ContainerCreate makes a container, as [client.Client] does. It ends when the engine has answered, 2 minutes at most, and not when ctx does: an
// engine goes on with what it was asked to make when who asked goes away, and nobody would know what to remove.
func (e *Engine) ContainerCreate(ctx context.Context, config *container.Config, host *container.HostConfig, net *network.NetworkingConfig, platform *v1.Platform, name string) (container.CreateResponse, error) {
	if err := ctx.Err(); err != nil {
		return container.CreateResponse{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createLimit)
	defer cancel()
	return e.Client.ContainerCreate(ctx, config, host, net, platform, name)
}
