package runswarm

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/detached"
)

// The files of a member: what it is, whether all of it was started, and of each SL its options, what it printed, and its exit code.
const (
	labelFile   = "member.json"
	begunFile   = "begun"
	optionsFile = ".yaml"
	outputFile  = ".log"
	exitFile    = ".exit"
)

const maxLabel = 64 << 10 // bytes of labelFile

// member is what there is of a member on disk. Whoever starts anew finds it by its label.
type member struct {
	dir string

	work.Label
	Nodes []slNode

	damaged bool // nothing says whose it is but its directory's name
}

// slNode is one SL of a member.
type slNode struct {
	Index     int    // in the profile
	StateDir  string // which the registry of components knows it by
	BridgeDir string
}

func (m *member) file(n slNode, kind string) string {
	return filepath.Join(m.dir, strconv.Itoa(n.Index)+kind)
}

// write notes that the member is begun with. It is there before anything of it runs.
func (m *member) write() error {
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	return m.writeTo(labelFile)
}

func (m *member) writeTo(name string) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return atomicfile.Replace(filepath.Join(m.dir, name), raw, 0o600)
}

// begun notes that all SLs were started. It says whose they are a second time: training that goes on is not to be lost for one damaged file.
func (m *member) begun() error { return m.writeTo(begunFile) }

// remove removes all of it, the label last: whoever looks meanwhile, or after that was cut off, sees whose the rest is.
func (m *member) remove() error {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == labelFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(m.dir, e.Name())); err != nil {
			return err
		}
	}
	return os.RemoveAll(m.dir)
}

func (m *member) whole() bool {
	_, err := os.Stat(filepath.Join(m.dir, begunFile))
	return err == nil
}

// members are all that were begun with: one damaged file hides no other member, nor its own, which is known by the name of its directory. A
// directory without a label is one that was not begun with; Clean removes it.
func (p *Processes) members() (all []member, err error) {
	dir := filepath.Join(p.Dir, "members")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		m, err := p.open(filepath.Join(dir, e.Name()))
		switch {
		case err == nil:
			all = append(all, m)
		case !errors.Is(err, fs.ErrNotExist):
			p.tellOnce(m.dir, err)
			if m.Label, m.damaged = detached.LabelOf(m.dir, p.SwarmID(), p.Host.Name); m.damaged {
				all = append(all, m)
			}
		}
	}
	return all, nil
}
