package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

const (
	scopePrefix = "local-"
	// scopeFile, in the folder of the bridges, names the scope of a swarm's containers: a later run removes them by it if
	// this one can't. Containers do not die with the process that started them.
	scopeFile = "scope"
	// cleanWait bounds the removal of containers.
	cleanWait = time.Minute
)

// Scope is the value of SWARM_SCOPE for all that belongs to this swarm: neither stop-swarm nor another swarm touches it.
func (c *Cluster) Scope() string { return c.scope }

func newScope() string { return scopePrefix + strings.ToLower(rand.Text()[:12]) }

// noteScope leaves word of the scope for a later run.
func (c *Cluster) noteScope() error {
	if c.bridge.lock == nil {
		return errors.New("containers need a folder in " + shmDir + ": can it be written?")
	}
	if err := os.WriteFile(filepath.Join(c.bridge.path, scopeFile), []byte(c.scope+"\n"), 0o600); err != nil {
		return fmt.Errorf("note scope of containers: %w", err)
	}
	return nil
}

// scopeOf returns the scope that is noted in a run's folder, or "".
func scopeOf(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, scopeFile))
	scope := strings.TrimSpace(string(data))
	if err != nil || !strings.HasPrefix(scope, scopePrefix) {
		return ""
	}
	return scope
}

// cleanScope removes all containers, networks and volumes of a scope. It returns an error if it can't tell that none is left.
func cleanScope(scope string) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanWait)
	defer cancel()
	e, err := engine.Open(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	// A daemon that was killed may have had a container made that is not listed yet: only a look that finds nothing ends it.
	for {
		found, err := removeScope(ctx, e, scope)
		if err != nil || !found {
			return engine.Explain(err)
		}
	}
}

// removeScope removes what is listed with a scope, and reports whether anything was.
func removeScope(ctx context.Context, e *engine.Engine, scope string) (found bool, err error) {
	ours := filters.NewArgs(filters.Arg("label", engine.LabelScope+"="+scope), filters.Arg("label", engine.LabelRole))
	containers, err := e.ContainerList(ctx, container.ListOptions{All: true, Filters: ours})
	if err != nil {
		return false, fmt.Errorf("list containers: %w", err)
	}
	var errs []error
	for _, c := range containers {
		errs = append(errs, removeContainer(ctx, e, c.ID))
	}
	networks, err := e.NetworkList(ctx, network.ListOptions{Filters: ours})
	errs = append(errs, err)
	for _, n := range networks {
		errs = append(errs, unlessGone(e.NetworkRemove(ctx, n.ID)))
	}
	volumes, err := e.VolumeList(ctx, volume.ListOptions{Filters: ours})
	errs = append(errs, err)
	for _, v := range volumes.Volumes {
		errs = append(errs, unlessGone(e.VolumeRemove(ctx, v.Name, true)))
	}
	return len(containers)+len(networks)+len(volumes.Volumes) > 0, errors.Join(errs...)
}

// removeContainer kills and removes a container, or waits for one that is being removed.
func removeContainer(ctx context.Context, e *engine.Engine, id string) error {
	err := e.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if !errdefs.IsConflict(err) {
		return unlessGone(err)
	}
	done, failed := e.ContainerWait(ctx, id, container.WaitConditionRemoved)
	select {
	case <-done:
		return nil
	case err := <-failed:
		return unlessGone(err)
	}
}

// unlessGone is err, but nil if it says that there is nothing to remove.
func unlessGone(err error) error {
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}
