package runswarm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/work/detached"
)

// damaged is the error of a member of which no label can be read.
type damaged struct{ err error }

// Error implements error.
func (d *damaged) Error() string { return d.err.Error() }

// open returns the member of a directory. It fails with fs.ErrNotExist if nothing was begun there, and with a damaged, beside the SLs that have
// files there, if nothing says whose it is.
func (p *Processes) open(dir string) (member, error) {
	var why error
	for _, name := range []string{labelFile, begunFile} {
		m, err := readLabel(dir, name)
		if err == nil {
			if why != nil {
				p.tellOnce(dir, why)
			}
			return m, nil
		}
		if why == nil || errors.Is(why, fs.ErrNotExist) {
			why = err
		}
	}
	m := member{dir: dir}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return m, err
	}
	for _, e := range entries {
		index, is := strings.CutSuffix(e.Name(), optionsFile)
		if i, err := strconv.Atoi(index); is && err == nil {
			m.Nodes = append(m.Nodes, p.slNode(i))
		}
	}
	if errors.Is(why, fs.ErrNotExist) && len(m.Nodes) == 0 {
		return m, why
	}
	return m, &damaged{why}
}

// readLabel reads one of the two files that say whose a directory is. One that says it is another's is as good as none.
func readLabel(dir, name string) (m member, err error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return m, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxLabel+1))
	if err == nil && len(raw) > maxLabel {
		err = errors.New("it is too large")
	}
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err == nil && (m.Swarm == "" || detached.DirName(m.Label) != filepath.Base(dir)) {
		err = errors.New("it is not of the member that its directory is named for")
	}
	if err != nil {
		return member{}, fmt.Errorf("read %s: %w", name, err)
	}
	m.dir = dir
	return m, nil
}

// slNode is what the SL of a node of the profile has, if that is as it was when the SL was started.
func (p *Processes) slNode(index int) slNode {
	n := slNode{Index: index, StateDir: p.stateDir(index)}
	if abs, err := filepath.Abs(n.StateDir); err == nil {
		n.StateDir = abs
	}
	sl := start.SL{Node: start.Node{Name: p.Host.name(index)}}
	n.BridgeDir = sl.BridgePath(p.Getenv, os.Geteuid() == 0)
	return n
}

// tellOnce logs of a directory that its label is damaged, not with every look.
func (p *Processes) tellOnce(dir string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.told, dir) {
		p.told = append(p.told, dir)
		p.Log.Warn("a file that says whose SLs a directory is of is damaged: see the disk; what no other file tells is ended", "dir", dir, "err", err)
	}
}
