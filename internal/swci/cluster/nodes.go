package cluster

import (
	"context"
	"fmt"
	"net"

	"github.com/docker/docker/api/types/network"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

// runtimeArgs are the options that make a node a process, or a container that swarmd, as our child, stays attached to.
func (c *Cluster) runtimeArgs() []string {
	if !c.cfg.Nodes {
		return []string{"--runtime", "process"}
	}
	return []string{"--runtime", "docker", "-i", "--rm", "--network", c.scope}
}

// host is the address that a node tells others: its name where a DNS knows it, its own where it has been given a place, else
// one on loopback.
func (c *Cluster) host(name, loopback string) (string, error) {
	switch {
	case c.cfg.Nodes:
		return name, nil
	case c.cfg.Place == nil:
		return loopback, nil
	}
	at, err := c.cfg.Place(name)
	if err != nil {
		return "", fmt.Errorf("find a place for %s: %w", name, err)
	}
	c.places[name] = at
	return at.Addr, nil
}

// makeNetwork makes the nodes' network. It goes with the scope.
func (c *Cluster) makeNetwork(ctx context.Context) error {
	e, err := engine.Open(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	_, err = e.NetworkCreate(ctx, c.scope, network.CreateOptions{Labels: map[string]string{engine.LabelRole: naming.RoleSN, engine.LabelScope: c.scope}})
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
