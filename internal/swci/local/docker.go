package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/containerd/errdefs"

	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/swci/cluster"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// The runtimes of the programs.
const (
	runtimeProcess = "process"
	runtimeDocker  = "docker"
)

// docker reports whether the programs run in containers.
func (c *RunConfig) docker() bool { return c.Runtime == runtimeDocker }

// checkEngine finds the images at the container engine.
func (c *RunConfig) checkEngine(ctx context.Context, getenv func(string) string) error {
	ours := map[string]string{"PYT": engine.ImagePYT, "TF": engine.ImageTF}[platforms[c.Platform]]
	hint := "docker images shows what there is; docker load and docker pull get more"
	if c.Image == "" {
		c.Image, hint = ours, "make image builds it; or name another with --ml-image"
	}
	e, err := engine.Open(ctx)
	if err != nil {
		return engineError(err)
	}
	defer e.Close()
	if err := needImage(ctx, e, c.Image, hint); err != nil || !c.Nodes {
		return err
	}
	swarmd := getenv("SWARM_IMAGE")
	if swarmd == "" {
		swarmd = engine.ImageSwarmd
	}
	return needImage(ctx, e, swarmd, "make image builds it; or name another with SWARM_IMAGE")
}

func needImage(ctx context.Context, e *engine.Engine, image, hint string) error {
	switch _, err := e.ImageInspect(ctx, image); {
	case errdefs.IsNotFound(err):
		return exit.New(exit.Failed, hint, "the container engine has no image %s", image)
	case err != nil:
		return engineError(engine.Explain(fmt.Errorf("look for image %s: %w", image, err)))
	}
	return nil
}

// engineError gives an engine's error its remedy as a hint.
func engineError(err error) error {
	out := &exit.Error{Status: exit.Failed, Err: err}
	var e interface{ Remedy() string }
	if errors.As(err, &e) {
		out.Hint = e.Remedy()
	}
	if errors.Is(err, fs.ErrPermission) {
		out.Hint = "let your user use it: sudo usermod -aG docker USER, then log in again; or call swarmctl under sudo"
	}
	return out
}

// baselineContainers returns what trains a peer's program alone, in the same isolation as in the swarm.
func (r *run) baselineContainers() func(ctx context.Context, i int) error {
	return func(ctx context.Context, i int) error {
		name, dir := cluster.SLName(i)+" alone", filepath.Join(r.cfg.peerDir(i), baseline)
		out, err := openOutput(dir)
		if err != nil {
			return err
		}
		defer out.close()
		e, err := engine.Open(ctx)
		if err != nil {
			return engineError(err)
		}
		defer e.Close()
		p, err := container.New(e, slog.New(slog.DiscardHandler)).Start(ctx, container.Spec{
			Node: cluster.SLName(i), Platform: platforms[r.cfg.Platform], Scope: r.cluster.Scope(), Image: r.cfg.Image, Program: r.cfg.Program, Args: r.cfg.programArgs(i),
			DataDir: r.cfg.dataDir(i), ModelDir: dir,
			Env: append([]string{"SWARM_PEER=" + cluster.SLName(i), "SWARM_LOOPBACK=true"}, r.cfg.programEnv(i, true)...),
			Line: func(_, line string) {
				out.line(line)
				r.show(name, line)
			},
		})
		if err != nil {
			return engineError(fmt.Errorf("%s: %w", name, err))
		}
		ended := p.Wait()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if ended.ExitCode != 0 {
			return r.failedAlone(cluster.Exit{Name: name, Code: ended.ExitCode, Reason: ended.Reason}, out.last())
		}
		return nil
	}
}
