package cluster

import (
	"context"
	"fmt"
	"net"

	"github.com/docker/docker/api/types/network"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// runtimeArgs are the options that make a node a process, or a container that swarmd, as our child, stays attached to.
func (c *Cluster) runtimeArgs() []string {
	if !c.cfg.Nodes {
		return []string{"--runtime", "process"}
	}
	return []string{"--runtime", "docker", "-i", "--rm", "--network", c.scope}
}

// slHost is the address that an SL tells others.
func (c *Cluster) slHost(name string) string {
	if c.cfg.Nodes {
		return name
	}
	return "127.0.0.1"
}

// makeNetwork makes the nodes' network. It goes with the scope.
func (c *Cluster) makeNetwork(ctx context.Context) error {
	e, err := engine.Open(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	_, err = e.NetworkCreate(ctx, c.scope, network.CreateOptions{Labels: map[string]string{engine.LabelRole: engine.RoleSN, engine.LabelScope: c.scope}})
	if err != nil {
		return engine.Explain(fmt.Errorf("make network %s: %w", c.scope, err))
	}
	return nil
}

// reach returns the address by which this process reaches a container's port: its names are known on its network only.
func (c *Cluster) reach(ctx context.Context, name, hostPort string) (string, error) {
	_, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return "", fmt.Errorf("address of %s: %w", name, err)
	}
	e, err := engine.Open(ctx)
	if err != nil {
		return "", err
	}
	defer e.Close()
	info, err := e.ContainerInspect(ctx, name)
	if err != nil {
		return "", engine.Explain(fmt.Errorf("look at container %s: %w", name, err))
	}
	if info.NetworkSettings == nil || info.NetworkSettings.Networks[c.scope] == nil {
		return "", fmt.Errorf("container %s is not on network %s", name, c.scope)
	}
	return net.JoinHostPort(info.NetworkSettings.Networks[c.scope].IPAddress, port), nil
}
