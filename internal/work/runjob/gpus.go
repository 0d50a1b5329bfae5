package runjob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/launch"
	launcher "github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/detached"
)

// freeGPUs are the first GPUs of a host that no member has. A leader gives a host no more members than it has GPUs for, unless it offered others
// before its SWOP was restarted. One that a member has by a name that is none now may be any of them.
func freeGPUs(all, taken []string, n int) ([]string, error) {
	for _, g := range taken {
		if g != "" && !slices.Contains(all, g) {
			return nil, fmt.Errorf("it needs GPUs, and another member has GPU %.120s, which this host's SWOP, started anew, sees no more or by another name: start the SWOP with the CUDA_VISIBLE_DEVICES that it had, or run the job again when that member has ended", g)
		}
	}
	free := slices.DeleteFunc(slices.Clone(all), func(g string) bool { return slices.Contains(taken, g) })
	if len(free) < n {
		return nil, fmt.Errorf("it needs %d GPUs, and this host has %d left of %d, as its SWOP sees them: run the job again, and see on the host: nvidia-smi -L", n, len(free), len(all))
	}
	return free[:n], nil
}

// gpuEnv has a process see these GPUs and no other. Unless the host's owner has numbered them otherwise for its SWOP, they are numbered as nvidia-smi
// does.
func gpuEnv(gpus []string, getenv func(string) string) []string {
	env := []string{"CUDA_VISIBLE_DEVICES=" + strings.Join(gpus, ",")}
	if getenv("CUDA_VISIBLE_DEVICES") == "" {
		env = append(env, "CUDA_DEVICE_ORDER=PCI_BUS_ID")
	}
	return env
}

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
	p.giving.Lock()
	defer p.giving.Unlock()
	if n > 0 {
		taken, err := p.takenGPUs(dir)
		if err != nil {
			return err
		}
		if o.GPUs, err = freeGPUs(p.GPUs, taken, n); err != nil {
			return err
		}
	}
	o.Env = launch.LastWins(o.Env, gpuEnv(o.GPUs, p.Getenv))
	return o.write(dir)
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

// make makes a member's container, with GPUs that no other member has.
func (c *Containers) make(ctx context.Context, e *engine.Engine, spec launcher.Spec, n int, l work.Label) (id string, err error) {
	if n > 0 {
		c.giving.Lock() // until the container tells others
		defer c.giving.Unlock()
		taken, err := c.takenGPUs(ctx, e, l)
		if err != nil {
			return "", err
		}
		gpus, err := freeGPUs(c.GPUs, taken, n)
		if err != nil {
			return "", err
		}
		spec.GPUs = strings.Join(gpus, ",")
		spec.Labels = append(spec.Labels, engine.LabelGPUs+"="+spec.GPUs)
	}
	return launcher.Make(ctx, launcher.New(e, c.Log), spec, engine.RoleMember)
}
