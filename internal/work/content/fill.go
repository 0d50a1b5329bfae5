package content

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/unpack"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/volume"
)

// do carries out one step beside the volumes.
func (f *Filler) do(ctx context.Context, w *web, root *os.Root, x op, j work.Job, left *unpack.Budget) error {
	if x.from != nil {
		file, err := create(root, x.out)
		if err != nil {
			return err
		}
		defer file.Close()
		size, sum, err := w.fetch(ctx, x.from, file, left)
		if err != nil {
			return err
		}
		f.cfg.Log.InfoContext(ctx, "fetched a file", "from", x.from.Host, "file", x.out, "bytes", size, "sha256", sum, "assignment", j.Assignment.ID, "task", j.Task.Name)
		return file.Close()
	}
	file, err := root.Open(x.file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("EXTRACT of %.200q: the task has fetched no such file before: DOWNLOAD it with that Out", x.file)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("EXTRACT of %.200q: it is no file", x.file)
	}
	if err := unpack.Archive(ctx, root, x.out, file, left); err != nil {
		return fmt.Errorf("EXTRACT of %.200q: %w", x.file, err)
	}
	return nil
}

// create makes a file, with its directories.
func create(root *os.Root, name string) (*os.File, error) {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return nil, err
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
}

const discardLimit = 30 * time.Second

// put gives the files to all volumes. If one does not take them, those that the assignment made go.
func (f *Filler) put(ctx context.Context, e *engine.Engine, root *os.Root, o *order, j work.Job) (err error) {
	labels := f.labels(j)
	var open []*volume.Volume
	defer func() {
		if err != nil {
			own, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardLimit)
			defer cancel()
			if left := volume.Discard(own, e, volume.Labels(j.Label, engine.RoleContent, f.cfg.Scope)); left != nil {
				f.cfg.Log.WarnContext(ctx, "could not remove yet what was filled in part", "err", left)
			}
		}
	}()
	for _, name := range o.volumes {
		v, err := volume.Open(ctx, e, name, false, labels)
		if err != nil {
			return err
		}
		open = append(open, v)
	}
	for _, v := range open {
		from, to := io.Pipe()
		packed := make(chan error, 1)
		go func() {
			err := pack(to, root)
			_ = to.CloseWithError(err) // a pipe's never fails
			packed <- err
		}()
		err := v.Put(ctx, from)
		_ = from.Close() // what is not taken is not packed
		if wrong := <-packed; wrong != nil && !errors.Is(wrong, io.ErrClosedPipe) {
			return fmt.Errorf("pack the files: %w", wrong)
		}
		if err != nil {
			return err
		}
	}
	for _, v := range open {
		if err := v.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pack packs all files as root's.
func pack(to io.Writer, root *os.Root) error {
	w := tar.NewWriter(to)
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		return packOne(w, root, name, d)
	})
	if err != nil {
		return err
	}
	return w.Close()
}

func packOne(w *tar.Writer, root *os.Root, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	mode := int64(0o644) // whatever this process's umask is
	if d.IsDir() || info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	h := &tar.Header{Name: name, Mode: mode, ModTime: info.ModTime(), Typeflag: tar.TypeReg, Size: info.Size()}
	switch {
	case d.IsDir():
		h.Name, h.Typeflag, h.Size = name+"/", tar.TypeDir, 0
		return w.WriteHeader(h)
	case info.Mode().Type() == fs.ModeSymlink:
		h.Typeflag, h.Size = tar.TypeSymlink, 0
		if h.Linkname, err = root.Readlink(name); err != nil {
			return err
		}
		return w.WriteHeader(h)
	}
	file, err := root.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(w, file)
	return err
}
