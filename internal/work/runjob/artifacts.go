package runjob

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/artifacts"
)

// makeLeft makes the folder in which a member leaves artifacts, for a user; empty: its job has none.
func makeLeft(s *artifacts.Store, j work.Job, job *jobfile.Job, uid, gid int) (string, error) {
	if job.Artifacts.Dir == "" {
		return "", nil
	}
	dir, err := s.Make(j.Label, j.Group, uid, gid)
	if err != nil {
		return "", fmt.Errorf("make a folder for artifacts: %w", err)
	}
	return dir, nil
}

// leaves has a member's container leave artifacts in a folder of this host.
func (c *Containers) leaves(s *container.Spec, j work.Job, job *jobfile.Job) error {
	uid, gid := os.Geteuid(), os.Getegid()
	if s.User != "" {
		uid, gid = numbers(s.User)
	}
	dir, err := makeLeft(c.Goods.Left, j, job, uid, gid)
	if dir != "" {
		s.Mounts = append(s.Mounts, dir+":"+job.Artifacts.Dir)
	}
	return err
}

// keepLeft keeps the artifacts of a member that has ended. What can't be kept is no reason to leave something
// running: the store's Sweep tries it again.
func keepLeft(s *artifacts.Store, l work.Label, log *slog.Logger) {
	if s == nil {
		return
	}
	if err := s.Keep(l); err != nil {
		log.Warn("can't keep the artifacts of a member", "assignment", l.Assignment, "member", l.Member, "err", err)
	}
}
