package detached

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/work"
)

// DirName is what the directory of a member is called.
func DirName(l work.Label) string { return fmt.Sprintf("%s-%d-%d", l.Assignment, l.Epoch, l.Member) }

// LabelOf is the label of the member of a swarm's host that a directory is named for; ok is false if it is named for none.
func LabelOf(dir, swarm, node string) (l work.Label, ok bool) {
	l = work.Label{Swarm: swarm, Node: node}
	var epoch, index string
	l.Assignment, epoch, _ = strings.Cut(filepath.Base(dir), "-")
	epoch, index, _ = strings.Cut(epoch, "-")
	e, err1 := strconv.ParseUint(epoch, 10, 32)
	i, err2 := strconv.ParseUint(index, 10, 32)
	l.Epoch, l.Member = uint32(e), uint32(i)
	return l, err1 == nil && err2 == nil && task.ValidID(l.Assignment) && DirName(l) == filepath.Base(dir)
}
