package runswarm

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/detached"
)

var _ work.Printer = (*Processes)(nil)

// Print implements work.Printer.
func (p *Processes) Print(ctx context.Context, l work.Label, tail int, follow bool, emit func(from, line string) error) error {
	m, err := p.open(p.memberDir(l))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, known := errors.AsType[*damaged](err); err != nil && !known {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	if !follow {
		all.SetLimit(1) // one after the other
	}
	for _, n := range m.Nodes {
		from, over := p.Host.name(n.Index), func() bool { return p.ended(&m, n) }
		all.Go(func() error {
			return detached.Printed(ctx, m.file(n, outputFile), tail, follow, over, func(line string) error { return emit(from, line) })
		})
	}
	return all.Wait()
}

// ended reports whether an SL prints nothing any more.
func (p *Processes) ended(m *member, n slNode) bool {
	if _, err := os.Stat(m.dir); err != nil {
		return true
	}
	live, err := p.live()
	return err == nil && !p.runs(live, m, n)
}

// name is that of the SL of a node of the profile in the swarm.
func (h *Host) name(index int) string { return h.Name + "-sl-" + strconv.Itoa(index) }
