package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/swarmd/swarmd/internal/bridge/original"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/mountns"
)

// What a program with the original's client needs lies in a directory below a state directory, or below that for spilled weight files.
const (
	originalDir = "original"
	weightsDir  = "weights" // in a container: the program's own
	executable  = "swarmd"  // in a container: what runs the program
)

// servesOriginal reports whether a program's client is the original's, beside being this node's package's.
func (c Config) servesOriginal(beside string) bool {
	if c.Client == launch.ClientOriginal {
		return true
	}
	found, there := launch.OriginalBeside(beside)
	if c.Client == launch.ClientOwn || !there {
		return false
	}
	c.Log.Info("the program would import the original's client, which is served; --ml-client swarmlearning refuses it", "found", found)
	return true
}

// serveOriginal has a program that runs as a process started by what serves its client, with a private folder where its release 2.3 wants
// one.
func (c Config) serveOriginal(ctx context.Context, spec *launch.Spec) error {
	folder, err := filepath.Abs(filepath.Join(c.StateDir, originalDir))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make the folder of the original's client: %w", err)
	}
	binds := append(spec.Binds, mountns.Bind{Source: folder, Target: original.Folder})
	if err := mountns.Check(ctx, binds); err != nil {
		c.Log.Warn("this machine makes no mount namespace for the program: the original's client of release 2.3 finds no weight files then; use --runtime docker for it",
			"folder", original.Folder, "err", err)
	} else {
		spec.Binds = binds
	}
	words := original.Options{Folder: folder}.Wrap("/proc/self/exe", append([]string{spec.Path}, spec.Args...))
	spec.Path, spec.Args = words[0], words[1:]
	c.Log.Info("serving the original's client", "folder", folder)
	return nil
}

// serveOriginal has a program in a container run by what serves its client: a copy of this executable beside the folder for pipes and
// weight files, in the directory for spilled weight files, which the container has anyway. Where this daemon runs in a container the engine
// could mount no file of its own.
func (c *containers) serveOriginal(spec *container.Spec) error {
	dir, err := beginDir(c.cfg.SpillDir, originalDir)
	if err == nil {
		defer dir.Close()
		err = dir.Mkdir(weightsDir, 0o700)
	}
	if o := c.owner(); err == nil && os.Geteuid() == 0 {
		err = dir.Lchown(weightsDir, o.UID, max(o.GID, 0))
	}
	if err == nil {
		err = copyExecutable(dir)
	}
	if err != nil {
		return fmt.Errorf("serve the original's client: %w", err)
	}
	inside := path.Join(spillInside, originalDir)
	spec.Front = original.Options{Folder: path.Join(inside, weightsDir), Link: original.Folder, Forward: true}.Wrap(path.Join(inside, executable), nil)
	c.cfg.Log.Info("serving the original's client", "image", spec.Image)
	return nil
}

// beginDir makes the directory of what a program in a container begins by, anew in one that programs can write to: no link that is left there leads what is
// written out of it.
func beginDir(in, name string) (*os.Root, error) {
	if err := os.MkdirAll(in, 0o711); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(in)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := errors.Join(root.RemoveAll(name), root.Mkdir(name, 0o700)); err != nil {
		return nil, err
	}
	dir, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if err := dir.Chmod(".", 0o711); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// copyExecutable copies this process's executable into a directory, where anybody then may run it.
func copyExecutable(to *os.Root) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	file, err := to.OpenFile(executable, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o500)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Chmod(0o555), file.Close()) // whatever the umask
}
