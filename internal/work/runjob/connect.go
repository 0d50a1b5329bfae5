package runjob

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/procs"
	"github.com/swarmd/swarmd/internal/work/sockets"
)

var (
	_ work.Reacher = (*Processes)(nil)
	_ work.Reacher = (*Containers)(nil)
)

// connectWithin bounds one try to connect.
const connectWithin = 3 * time.Second

// connectTo connects to an address.
func connectTo(ctx context.Context, at netip.AddrPort) (*net.TCPConn, error) {
	c, err := (&net.Dialer{Timeout: connectWithin}).DialContext(ctx, "tcp", at.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil //nolint:forcetypeassert // the network is tcp
}

// Connect implements work.Reacher: whatever address of this host a process of the member's listens at, also loopback, and no port of anybody else's.
func (p *Processes) Connect(ctx context.Context, l work.Label, port uint16) (*net.TCPConn, error) {
	pids, err := procs.With(ownVariable, p.memberDir(l))
	if err != nil {
		return nil, err
	}
	return connectToAny(ctx, pids, port)
}

// connectToAny connects to the port at which one of these processes listens.
func connectToAny(ctx context.Context, pids []int, port uint16) (c *net.TCPConn, err error) {
	at := sockets.ListensOf(pids, port)
	if len(at) == 0 {
		return nil, fmt.Errorf("no process of this member listens to port %d, and those of others are not reached: see swarmctl get logs JOB, and try again when it listens", port)
	}
	for _, a := range at {
		if c, err = connectTo(ctx, a); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// Connect implements work.Reacher: in the container's own network by its address there, in the host's as to a process.
func (c *Containers) Connect(ctx context.Context, l work.Label, port uint16) (conn *net.TCPConn, err error) {
	err = c.of(ctx, l, func(_ *engine.Engine, x container.Summary) error {
		if x.HostConfig.NetworkMode == jobfile.Host {
			pids, err := pidsIn(x.ID)
			if err == nil {
				conn, err = connectToAny(ctx, pids, port)
			}
			return err
		}
		var q question // which says what network it is in
		if err := json.Unmarshal([]byte(x.Labels[engine.LabelReady]), &q); err != nil {
			return fmt.Errorf("its container's labels are not as this host has written them: run the job again: %w", err)
		}
		a, err := addressIn(x)
		if err == nil {
			conn, err = q.connect(ctx, netip.AddrPortFrom(a, port))
		}
		return err
	})
	return conn, err
}

// connect connects to a port of a container in the question's network.
func (q question) connect(ctx context.Context, at netip.AddrPort) (*net.TCPConn, error) {
	far := q.outOfReach(at.String())
	if far != "" && q.Network != "" { // another machine may have that address in a network of this host
		return nil, errors.New(far)
	}
	conn, err := connectTo(ctx, at)
	if err == nil {
		return conn, nil
	}
	if far != "" {
		return nil, errors.New(far)
	}
	return nil, fmt.Errorf("nothing listens at %s, the address of this member in its network: a program that listens on its container's loopback alone is not reached; have it listen on 0.0.0.0 or ${SWARM_NODE_IP}", at)
}

// addressIn is the address of a container in the only network that it has.
func addressIn(x container.Summary) (a netip.Addr, err error) {
	if x.NetworkSettings != nil {
		for _, n := range x.NetworkSettings.Networks {
			if a, err := netip.ParseAddr(n.IPAddress); err == nil {
				return a, nil
			}
		}
	}
	return a, errors.New("its container has no address: see swarmctl get job status JOB whether it runs")
}

// pidsIn are the processes of a container that this host sees, by the control group that the engine has put them into.
func pidsIn(id string) (found []int, err error) {
	all, err := procs.All()
	for _, pid := range all {
		if isIn(id, pid) {
			found = append(found, pid)
		}
	}
	if err == nil && len(found) == 0 {
		err = errors.New("its host sees no process of its container, as its SWOP is in a container of its own, or its engine elsewhere: run that SWOP beside the engine and in no container, or the job with network: private")
	}
	return found, err
}

// isIn reports whether a process is one of a container.
func isIn(id string, pid int) bool {
	return bytes.Contains(procs.Read(pid, "cgroup", maxGroups), []byte(id))
}

// maxGroups bounds what is read of the control groups of a process, in bytes.
const maxGroups = 64 << 10
