package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/swarmd/swarmd/internal/swci/cluster"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/report"
)

// marker stands in every output folder that a run made, so that a later run may move what it finds there.
const marker = ".swarm-run"

// writableHint is the remedy where the output folder exists but can't be changed.
const writableHint = "name a folder that you may write to with --out"

// Names below --out.
const (
	logsDir     = "logs"
	summaryFile = "summary.json"
	reportFile  = "report.html"
	programLog  = "program.log"
	metricsFile = "swarm-metrics.jsonl"
	baseline    = "local-only"
)

// prepareOut makes the output folder and copies the model directory for each peer. The results of an earlier run are moved aside, into the
// folder that is returned; those of one that came to no round are removed. What else lies there stays. Files of the same names that no run
// made are never touched: they are a conflict.
func (c *RunConfig) prepareOut() (moved string, err error) {
	moved, err = c.clearOut()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return "", exit.New(exit.Failed, "is the folder above it writable?", "make output folder: %w", err)
	}
	if err := writeMarker(c.Out); err != nil {
		return "", err
	}
	for i := range c.Peers {
		dirs := []string{c.peerDir(i)}
		if c.Baseline {
			dirs = append(dirs, filepath.Join(c.peerDir(i), baseline))
		}
		for _, d := range dirs {
			if err := c.copyModel(d); err != nil {
				return "", fmt.Errorf("copy model directory: %w", err)
			}
		}
	}
	return moved, nil
}

func writeMarker(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, marker), []byte("made by swarmctl local run, which may move what it made here\n"), 0o644); err != nil {
		return exit.New(exit.Failed, writableHint, "mark output folder: %w", err)
	}
	return nil
}

// clearOut takes what an earlier run made out of the output folder.
func (c *RunConfig) clearOut() (moved string, err error) {
	entries, err := os.ReadDir(c.Out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", exit.New(exit.Usage, "--out names a folder", "read output folder: %w", err)
	}
	var own []string
	for _, e := range entries {
		if ownName.MatchString(e.Name()) {
			own = append(own, e.Name())
		}
	}
	switch {
	case len(own) == 0:
		return "", nil
	case notExist(filepath.Join(c.Out, marker)):
		return "", exit.New(exit.Conflict, "name another folder with --out", "output folder %s holds %q, which no earlier run made", c.Out, own[0])
	case fruitless(filepath.Join(c.Out, summaryFile)):
		for _, n := range own {
			if err := os.RemoveAll(filepath.Join(c.Out, n)); err != nil {
				return "", exit.New(exit.Failed, writableHint, "remove earlier results: %w", err)
			}
		}
		return "", nil
	}
	return c.moveAside(own)
}

// fruitless reports whether the summary of an earlier run says that there was no round: then there is nothing to keep.
func fruitless(summary string) bool {
	data, err := os.ReadFile(summary)
	if err != nil {
		return false // it was killed, and may have left models
	}
	var s report.Summary
	return json.Unmarshal(data, &s) == nil && s.Rounds == 0
}

// moveAside moves what an earlier run made into a folder beside the output folder, OUT.1, OUT.2, …: the first name that is free.
func (c *RunConfig) moveAside(own []string) (string, error) {
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s.%d", c.Out, n)
		err := os.Mkdir(aside, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = writeMarker(aside)
		}
		for _, name := range own {
			if err == nil {
				err = os.Rename(filepath.Join(c.Out, name), filepath.Join(aside, name))
			}
		}
		if err != nil {
			return "", exit.New(exit.Failed, "name another folder with --out", "move earlier results aside: %w", err)
		}
		return aside, nil
	}
}

// ownName matches what a run makes in its output folder.
var ownName = regexp.MustCompile(`^(sl-[0-9]+|logs|summary\.json|report\.html)$`)

// peerDir is the MODEL_DIR of the peer with index i.
func (c *RunConfig) peerDir(i int) string { return filepath.Join(c.Out, cluster.SLName(i)) }

// copyModel copies the model directory to dst. The output folder and the peers' data are left out when they lie inside
// it: results would be copied into themselves, and data is shared with nobody.
func (c *RunConfig) copyModel(dst string) error {
	skip := map[string]bool{realPath(c.Out): true}
	for i := range c.Peers {
		if dir := c.dataDir(i); dir != "" {
			skip[realPath(dir)] = true
		}
	}
	root := realPath(c.ModelDir)
	delete(skip, root)
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (skip[path] || d.Name() == "__pycache__" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return copyEntry(path, filepath.Join(dst, rel))
	})
}

// realPath is path without symbolic links, or as it is when it does not exist yet.
func realPath(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return path
}

// copyEntry copies a folder (not what is in it), a regular file, or what a symbolic link to a file points at. Others
// (sockets, devices, links to folders) are left out.
func copyEntry(src, dst string) error {
	info, err := os.Stat(src)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a link that points at nothing
	}
	if err != nil {
		return err
	}
	if link, err := os.Lstat(src); err == nil && link.Mode()&fs.ModeSymlink != 0 && info.IsDir() {
		return nil
	}
	if info.IsDir() {
		return os.MkdirAll(dst, info.Mode().Perm()|0o700)
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, info.Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
