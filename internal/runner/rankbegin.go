package runner

import (
	"fmt"
	"path"
	"slices"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/rendezvous"
)

// rankDir is where a program in a container that is the first of several ranks finds what begins it, below the directory for spilled weight files.
const rankDir = "rank"

// beginAsRank has a program in a container begin by a copy of this executable, which serves the other ranks beside it, on a host whose name leads to the
// address by which they find it.
func (c *containers) beginAsRank(spec *container.Spec, meets *rendezvous.Meeting) error {
	dir, err := beginDir(c.cfg.SpillDir, rankDir)
	if err == nil {
		defer dir.Close()
		err = copyExecutable(dir)
	}
	if err != nil {
		return fmt.Errorf("begin rank 0: %w", err)
	}
	name := framework.NameOf(0)
	spec.Front = slices.Concat(meets.Wrap(path.Join(spillInside, rankDir, executable)), spec.Front)
	spec.Hostname, spec.Hosts = name, append(slices.Clone(spec.Hosts), name+":"+meets.Own.String())
	return nil
}
