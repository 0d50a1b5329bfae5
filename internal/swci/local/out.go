package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/swarmd/swarmd/internal/swci/cluster"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// marker stands in every output folder that a run made, so that a later run may replace what it finds there.
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

// prepareOut makes the output folder, taking away an earlier run's results, and copies the model directory for each peer.
// What else lies there stays. Files of the same names that no run made are never removed: they are a conflict.
func (c *RunConfig) prepareOut() error {
	entries, err := os.ReadDir(c.Out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return exit.New(exit.Usage, "--out names a folder", "read output folder: %w", err)
	}
	foreign := notExist(filepath.Join(c.Out, marker))
	for _, e := range entries {
		n := e.Name()
		if !ownName.MatchString(n) {
			continue
		}
		if foreign {
			return exit.New(exit.Conflict, "name another folder with --out", "output folder %s holds %q, which no earlier run made", c.Out, n)
		}
		if err := os.RemoveAll(filepath.Join(c.Out, n)); err != nil {
			return exit.New(exit.Failed, writableHint, "remove earlier results: %w", err)
		}
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return exit.New(exit.Failed, "is the folder above it writable?", "make output folder: %w", err)
	}
	if err := os.WriteFile(filepath.Join(c.Out, marker), []byte("made by swarmctl local run, which may replace what it made here\n"), 0o644); err != nil {
		return exit.New(exit.Failed, writableHint, "mark output folder: %w", err)
	}
	for i := range c.Peers {
		dirs := []string{c.peerDir(i)}
		if c.Baseline {
			dirs = append(dirs, filepath.Join(c.peerDir(i), baseline))
		}
		for _, d := range dirs {
			if err := c.copyModel(d); err != nil {
				return fmt.Errorf("copy model directory: %w", err)
			}
		}
	}
	return nil
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
