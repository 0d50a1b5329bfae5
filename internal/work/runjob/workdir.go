package runjob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
)

// runFile is in the folder of each run, and says of which: no run has the folder of another, nor one that was there before. A host makes folders with
// it in them, also where several hosts share the folder that they are in.
const runFile = ".swarm-run"

// makeLimit bounds the making of a folder: one of a network may never answer.
const makeLimit = 30 * time.Second

// workDir is where members see the folder of their run in a container.
func workDir(run string) string { return path.Join(runDir, "work", run) }

// runFolder is the folder of a run, in one of its host's.
type runFolder struct {
	volume   string // the name of the latter, for words
	in       string // its path
	name     string // of the run's folder there
	swarm    string
	id       string // of the assignment
	by       string // which member of which host makes it, beside others
	uid, gid int    // whose it is, where this process may say so
	files    []framework.Found
	epoch    uint32       // words to the one before don't count in it; 0: they are no matter
	log      *slog.Logger // of its host; needed with an epoch
}

// runFolderOf is the folder of a member's run; nil: the job has none.
func runFolderOf(j work.Job, job *jobfile.Job) (*runFolder, error) {
	if job.WorkDir == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	in, is := j.Grant.Folders[job.WorkDir]
	if !is {
		return nil, fmt.Errorf("job %s asks for volume %s as its work_dir, which this host's policy was not asked about: run the job again", job.Name, job.WorkDir)
	}
	f := &runFolder{volume: job.WorkDir, in: in, name: runOf(job, j.Label), swarm: j.Swarm, id: j.Label.Assignment, by: fmt.Sprintf("%s-%d", j.Node, j.Member), uid: os.Getuid(), gid: os.Getgid()}
	if job.Compat == jobfile.OCI && j.Epoch > 1 {
		f.epoch = j.Epoch
	}
	return f, nil
}

// runOf is the ID of a job's run.
func runOf(job *jobfile.Job, l work.Label) string { return job.Name + "-" + l.Assignment }

// path is where it is on its host; empty: there is none.
func (f *runFolder) path() string {
	if f == nil {
		return ""
	}
	return filepath.Join(f.in, f.name)
}

// make makes the folder, unless the run has it: another of its hosts or an epoch before may have made it. It does not follow links out of the
// folder that it is in.
func (f *runFolder) make(ctx context.Context, r hostpaths.Resolver) error {
	if f == nil {
		return nil
	}
	if err := stillThere(ctx, r, f.volume, f.in); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, makeLimit)
	defer cancel()
	made := make(chan error, 1)
	go func() { made <- f.filled() }() // it outlives the call if the folder does not answer, and does nothing then that the next call would not
	select {
	case err := <-made:
		return err
	case <-ctx.Done():
		return &work.Passing{Words: fmt.Sprintf("the folder of volume %s does not answer on this host", f.volume), Err: fmt.Errorf("make %s: %w", f.path(), ctx.Err())}
	}
}

func (f *runFolder) filled() error {
	if err := f.made(); err != nil {
		return err
	}
	if f.epoch == 0 && len(f.files) == 0 {
		return nil
	}
	in, err := os.OpenRoot(f.in)
	if err != nil {
		return f.fails(err)
	}
	defer in.Close()
	root, err := in.OpenRoot(f.name)
	if err != nil {
		return f.fails(err)
	}
	defer root.Close()
	if err := f.clear(root); err != nil {
		return err
	}
	return f.give(root, f.files)
}

func (f *runFolder) made() error {
	root, err := os.OpenRoot(f.in)
	if err != nil {
		return f.fails(err)
	}
	defer root.Close()
	next := "." + f.name + "." + f.by
	is, err := f.isThere(root)
	switch {
	case err != nil:
		return err
	case is:
		_ = root.RemoveAll(next) // what a host has left that was killed
		return nil
	}
	// Whole or not at all: whoever finds the folder finds whose it is.
	if err := f.write(root, next); err != nil {
		return f.fails(errors.Join(err, root.RemoveAll(next)))
	}
	if err = root.Rename(next, f.name); err == nil {
		return nil
	}
	_ = root.RemoveAll(next)
	if is, lost := f.isThere(root); is || lost != nil { // another one was first
		return lost
	}
	return f.fails(err)
}

// write makes the folder under a name of its own, with the rights that the one has in which it is.
func (f *runFolder) write(root *os.Root, name string) error {
	of, err := root.Stat(".")
	if err == nil {
		err = root.RemoveAll(name)
	}
	if err == nil {
		err = root.Mkdir(name, 0o700)
	}
	if err == nil {
		err = f.mark(root, path.Join(name, runFile))
	}
	if err == nil && f.uid != os.Getuid() {
		err = root.Lchown(name, f.uid, f.gid)
	}
	if err != nil {
		return err
	}
	return root.Chmod(name, of.Mode()&(fs.ModePerm|fs.ModeSetgid))
}

func (f *runFolder) mark(root *os.Root, name string) error {
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(f.text())
	return errors.Join(err, file.Chmod(0o644), file.Sync(), file.Close())
}

// text is what runFile says.
func (f *runFolder) text() string { return fmt.Sprintf("run %s of swarm %s\n", f.id, f.swarm) }

// isThere reports whether the run has its folder. What else has its name is an error.
func (f *runFolder) isThere(root *os.Root) (bool, error) {
	info, err := root.Lstat(f.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, f.fails(err)
	case info.IsDir() && f.isMarked(root):
		return true, nil
	}
	return false, fmt.Errorf("volume %s has a %s already, which is not of this run: move it away on its host, and run the job again", f.volume, f.name)
}

// isMarked reports whether runFile says so. Programs of the run write in the folder: whatever they put there keeps nobody waiting.
func (f *runFolder) isMarked(root *os.Root) bool {
	file, err := root.OpenFile(path.Join(f.name, runFile), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	raw, err := io.ReadAll(io.LimitReader(file, int64(len(f.text())+1)))
	return err == nil && string(raw) == f.text()
}

// fails says why the folder can't be made, without where on the host that is.
func (f *runFolder) fails(err error) error {
	why := err
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		why = at.Err
	} else if at, ok := errors.AsType[*os.LinkError](err); ok {
		why = at.Err
	}
	remedy := "see the disk or the server that it is on"
	if errors.Is(why, fs.ErrPermission) {
		remedy = "let the user of this host's SWOP write there"
	}
	return fmt.Errorf("can't make folder %s in volume %s: %w: %s", f.name, f.volume, why, remedy)
}
