package runjob

import (
	"path"
	"strconv"

	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/upload"
)

// orderCopies notes to where what a member leaves is to be copied, if its job names a target.
func orderCopies(c *upload.Copier, m member, j work.Job) error {
	to := m.job.Artifacts
	if to.To == "" {
		return nil
	}
	return c.Begin(j.Label, upload.Order{
		Target: to.To, Every: to.Every, Serves: m.group.Serves(),
		Under: path.Join(m.placed.Run, strconv.Itoa(m.placed.Epoch), m.group.Name, strconv.Itoa(m.program.Rank)),
	})
}
