package runjob

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	launcher "github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/jobnet"
	"github.com/swarmd/swarmd/internal/work/volume"
)

// holdFile is the program that holds an address, in runDir.
const holdFile = "hold"

// holdAddress has a container hold an address for a member, in a network that hosts share: an engine gives one to what runs alone, and the member's program is
// not to run before the addresses of all members are known. One that is held already, as by a SWOP before this one, stays.
func holdAddress(ctx context.Context, c *Containers, e *engine.Engine, j work.Job, network, image string) (a netip.Addr, err error) {
	_, holders, err := both(ctx, c, e)
	if err != nil {
		return a, err
	}
	if x, is := holders[j.Label]; is {
		if a, err := addressIn(x); err == nil && x.State == container.StateRunning && (j.Told == "" || j.Told == a.String()) {
			return a, nil
		}
		if err := removeBox(ctx, e, x); err != nil {
			return a, err
		}
	}
	if err := jobnet.MayJoin(ctx, e, network); err != nil {
		return a, err
	}
	found, err := e.ImageInspect(ctx, image)
	if err != nil {
		return a, engine.Explain(fmt.Errorf("look for image %.200s: %w", image, err))
	}
	program, err := jobnet.Sleeper(found.Architecture)
	if err != nil {
		return a, err
	}
	if err := c.Watch.begin(); err != nil {
		return a, err
	}
	spec := holderOf(c, j, network, image)
	id, err := launcher.Make(ctx, launcher.New(e, c.Log), spec, engine.RoleMember)
	if err != nil {
		return a, jobnet.Joining(err)
	}
	raw, err := packed([]jobfile.File{{Path: holdFile, Data: program}}, nil, spec.User, func(jobfile.File) fs.FileMode { return 0o555 })
	if err != nil {
		return a, err
	}
	if err := e.CopyToContainer(ctx, id, runDir, bytes.NewReader(raw), container.CopyToContainerOptions{}); err != nil {
		return a, engine.Explain(fmt.Errorf("write what holds a member's address: %w", err))
	}
	if err := launcher.Begin(ctx, e, id); err != nil {
		return a, jobnet.Joining(err)
	}
	if err := jobnet.MayJoin(ctx, e, network); err != nil { // which the engine knows by now, also if a manager alone did before
		return a, err
	}
	if _, holders, err = both(ctx, c, e); err != nil {
		return a, err
	}
	return addressIn(holders[j.Label])
}

// Bounds of what holds an address.
const (
	holdMemory = 32 << 20 // bytes, with what the engine needs to start it
	holdPids   = 16
)

// holderOf is the container that holds a member's address. It has the member's image, as the only one that the owner has consented to, and runs
// nothing of it. An address that was announced it has again.
func holderOf(c *Containers, j work.Job, network, image string) launcher.Spec {
	s := launcher.Spec{
		Node: j.Node, Scope: c.Scope, AnyFramework: true, Name: c.nameOf(j.Label) + "-address", Image: image, WorkDir: "/", Network: network, IP: j.Told,
		Hostname: framework.NameOf(int(j.Member)), Own: []string{runDir}, Detached: true, NoInit: true, NoHealth: true, Grace: time.Second, User: start.Caller(os.Getenv),
		Entrypoint: []string{path.Join(runDir, holdFile)}, Memory: holdMemory, Pids: holdPids, Log: c.Log,
	}
	for k, v := range volume.Labels(j.Label, engine.RoleMember, c.Scope) {
		s.Labels = append(s.Labels, k+"="+v)
	}
	s.Labels = append(s.Labels, engine.LabelHolds+"=address")
	return s
}
