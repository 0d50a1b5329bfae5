package runjob

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	launcher "github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/ocikey"
)

// box is what a member's container is made of.
type box struct {
	member
	spec launcher.Spec
	with filling
}

// boxOf is what a member's container is made of, beside its image, where all members are known. Of this host it makes the folders of its run and of what it
// leaves, and notes to where that is to be copied.
func boxOf(ctx context.Context, c *Containers, j work.Job, job *jobfile.Job, w *framework.World, g ground) (b box, err error) {
	run, err := runFolderOf(j, job)
	if err != nil {
		return b, err
	}
	if run != nil {
		g.workDir = workDir(run.name)
	}
	if b.member, err = memberOf(j, job, w, g); err != nil {
		return b, err
	}
	if g.network == jobfile.Host {
		if err := awaitPorts(ctx, g.addresses[rankOf(j, ranks(j, w))], w.MemberPorts(int(j.Member))); err != nil {
			return b, err
		}
	}
	b.with.source = job.Source
	if b.with.nodes, err = metadata(b.placed, groupsOf(ranks(j, w))); err != nil {
		return b, err
	}
	b.spec, err = c.spec(b.member, j, g)
	if err == nil {
		err = c.folders(ctx, &b.spec, b.member, j, run)
	}
	if err == nil {
		err = errors.Join(c.leaves(&b.spec, j, job), orderCopies(c.Goods.Copies, b.member, j))
	}
	if err == nil {
		b.with.secrets, err = files(c.Goods.Secrets, b.group.Secrets)
	}
	if at := b.program.Starter.Key; at != "" && err == nil {
		b.with.key, err = ocikey.Files(at)
	}
	if err != nil {
		return b, fmt.Errorf("job %s, group %s: %w", job.Name, b.group.Name, err)
	}
	return b, nil
}

// makeBox makes a member's container of an image, and fills it.
func makeBox(ctx context.Context, c *Containers, e *engine.Engine, b box, image string, l work.Label) error {
	b.spec.Image = image
	if err := beginsAsRank(ctx, e, &b); err != nil {
		return fmt.Errorf("job %s, group %s: %w", b.job.Name, b.group.Name, work.OfEngine(err))
	}
	id, err := c.make(ctx, e, b.spec, b.group.Resources.GPU, l)
	if err != nil {
		return fmt.Errorf("job %s: %w", b.job.Name, work.OfEngine(err))
	}
	c.Log.InfoContext(ctx, "made a member of a job", "job", b.job.Name, "group", b.group.Name, "rank", b.program.Rank, "isolation", b.spec.Isolation())
	err = fill(ctx, e, id, b.spec.User, b.with)
	if err == nil && b.program.Meeting.Set() {
		err = giveProgram(ctx, e, id, c.Watch.Swarmd)
	}
	if err != nil {
		return work.OfEngine(err)
	}
	c.made.note(id)
	return nil
}

// made is what this process has learned of the containers that it has made. The zero value has none.
type made struct {
	noInit atomic.Bool // the engine has no init process for them

	mu     sync.Mutex
	filled map[string]bool // those that have all that they are to have before they start, by ID
}

func (m *made) note(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.filled == nil {
		m.filled = map[string]bool{}
	}
	m.filled[id] = true
}

// forget forgets a container.
func (m *made) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.filled, id)
}

// whole reports whether a container was filled to the end: this process knows that, or it was started, as no other one is.
func (m *made) whole(x container.Summary) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.filled[x.ID] || x.State != container.StateCreated
}
