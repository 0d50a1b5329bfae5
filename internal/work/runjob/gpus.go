package runjob

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/swarmd/swarmd/internal/launch"
	launcher "github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/detached"
	"github.com/swarmd/swarmd/internal/work/gpus"
)

// takenGPUs are those of this host's other members than the one in a directory: also those that have ended, until nothing is left of them.
func (p *Processes) takenGPUs(dir string) (taken []string, err error) {
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if _, ok := detached.LabelOf(e.Name(), p.SwarmID(), p.Node); !ok || e.Name() == filepath.Base(dir) {
			continue
		}
		o, err := orderIn(filepath.Join(p.Dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) { // it is not prepared yet, or is being removed
			continue
		}
		if err != nil {
			return nil, err
		}
		taken = append(taken, o.GPUs...)
	}
	return taken, nil
}

// give writes an order with GPUs that no other member has.
func (p *Processes) give(o order, n int, dir string) error {
	return p.GPUs.Give(n, func() ([]string, error) { return p.takenGPUs(dir) }, func(names []string) error {
		o.GPUs = names
		o.Env = launch.LastWins(o.Env, gpus.Env(names, p.Getenv))
		return o.write(dir)
	})
}

// takenGPUs are those that containers of other members have.
func (c *Containers) takenGPUs(ctx context.Context, e *engine.Engine, l work.Label) (taken []string, err error) {
	found, err := c.list(ctx, e)
	if err != nil {
		return nil, err
	}
	for other, x := range found {
		if other != l {
			taken = append(taken, strings.Split(x.Labels[engine.LabelGPUs], ",")...)
		}
	}
	return taken, nil
}

// make makes a member's container, with GPUs that no other member has. It tells them from then on.
func (c *Containers) make(ctx context.Context, e *engine.Engine, spec launcher.Spec, n int, l work.Label) (id string, err error) {
	err = c.GPUs.Give(n, func() ([]string, error) { return c.takenGPUs(ctx, e, l) }, func(names []string) error {
		if n > 0 {
			spec.GPUs = strings.Join(names, ",")
			spec.Labels = append(spec.Labels, engine.LabelGPUs+"="+spec.GPUs)
		}
		id, err = launcher.Make(ctx, launcher.New(e, c.Log), spec, engine.RoleMember)
		return err
	})
	return id, err
}
