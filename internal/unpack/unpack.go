// Package unpack unpacks archives of others: tar, also with gzip or bzip2, and zip. Nothing gets out of the directory that it unpacks into, and
// nothing but files, directories and links that stay in it is made; how many and how large they are in all is bounded.
package unpack

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

const (
	maxName      = 1 << 10  // bytes of a name, and of what a link names
	maxDirectory = 16 << 20 // bytes of the list of what a zip has, which is held in memory
	chunk        = 1 << 20
)

// Budget is how much may still be unpacked. It shrinks.
type Budget struct {
	Entries int
	Bytes   int64
}

// errBudget is that a budget is spent.
var errBudget = errors.New("it has more than is taken: use a smaller archive")

// Take takes an entry of a size from the budget.
func (b *Budget) Take(size int64) error {
	if b.Entries--; b.Entries < 0 {
		return errBudget
	}
	return b.bytes(size)
}

func (b *Budget) bytes(n int64) error {
	if n < 0 || n > b.Bytes {
		return errBudget
	}
	b.Bytes -= n
	return nil
}

// target is where an archive is unpacked.
type target struct {
	ctx    context.Context //nolint:containedctx // of one call
	root   *os.Root
	dir    string
	budget *Budget
}

// Archive unpacks a file into a directory of root, which is made.
func Archive(ctx context.Context, root *os.Root, dir string, f *os.File, b *Budget) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	head := make([]byte, 8)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	t := target{ctx: ctx, root: root, dir: dir, budget: b}
	if err := t.parents(dir + "/x"); err != nil {
		return err
	}
	head = head[:n]
	whole := io.NewSectionReader(f, 0, info.Size())
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		return t.zip(f, info.Size())
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		z, err := gzip.NewReader(whole)
		if err != nil {
			return fmt.Errorf("bad gzip: %w", err)
		}
		return t.tar(z)
	case bytes.HasPrefix(head, []byte("BZh")):
		return t.tar(bzip2.NewReader(whole))
	}
	return t.tar(whole)
}

func (t target) tar(from io.Reader) error {
	r := tar.NewReader(from)
	for first := true; ; first = false {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF) && !first:
			return nil
		case first && err != nil:
			return errors.New("it is no archive that is known: use tar, tar.gz, tar.bz2 or zip")
		case err != nil:
			return fmt.Errorf("bad archive: %w", err)
		case t.ctx.Err() != nil:
			return t.ctx.Err()
		}
		switch h.Typeflag {
		case tar.TypeReg:
			err = t.file(h.Name, h.Size, h.FileInfo().Mode(), r)
		case tar.TypeDir:
			err = t.directory(h.Name)
		case tar.TypeSymlink:
			err = t.symlink(h.Name, h.Linkname)
		case tar.TypeLink:
			err = t.link(h.Name, h.Linkname)
		case tar.TypeXGlobalHeader:
			err = t.budget.Take(0)
		default:
			err = errors.New("it is no file, directory or link")
		}
		if err != nil {
			return fmt.Errorf("%.200q: %w", h.Name, err)
		}
	}
}

// bounded fails a reader of a file after so many bytes.
type bounded struct {
	io.ReaderAt

	left int64
}

func (b *bounded) ReadAt(p []byte, off int64) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errBudget
	}
	return b.ReaderAt.ReadAt(p, off)
}

func (t target) zip(f *os.File, size int64) error {
	list := &bounded{f, maxDirectory}
	z, err := zip.NewReader(list, size)
	if err != nil {
		return fmt.Errorf("bad zip: %w", err)
	}
	list.left = 1<<63 - 1
	for _, e := range z.File {
		if err := t.zipped(e); err != nil {
			return fmt.Errorf("%.200q: %w", e.Name, err)
		}
	}
	return nil
}

func (t target) zipped(e *zip.File) error {
	mode := e.Mode()
	if mode.IsDir() {
		return t.directory(e.Name)
	}
	if e.UncompressedSize64 > 1<<62 {
		return errBudget
	}
	r, err := e.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	switch {
	case mode.IsRegular():
		return t.file(e.Name, int64(e.UncompressedSize64), mode, r) //nolint:gosec // see above
	case mode.Type() == fs.ModeSymlink:
		to, err := io.ReadAll(io.LimitReader(r, maxName+1))
		if err != nil {
			return err
		}
		return t.symlink(e.Name, string(to))
	}
	return errors.New("it is no file, directory or link")
}

// place is where an entry goes, below the root.
func (t target) place(name string) (string, error) {
	if err := t.ctx.Err(); err != nil {
		return "", err
	}
	clean := path.Clean(name)
	if name == "" || len(name) > maxName || !filepath.IsLocal(clean) || strings.ContainsRune(name, 0) {
		return "", errors.New("its name leads out of the archive, or is too long")
	}
	return path.Join(t.dir, clean), nil
}

func (t target) parents(name string) error {
	return t.root.MkdirAll(path.Dir(name), 0o755)
}

// clear makes room for what is no directory.
func (t target) clear(at string) error {
	if err := t.parents(at); err != nil {
		return err
	}
	if err := t.root.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (t target) directory(name string) error {
	at, err := t.place(name)
	if err == nil {
		err = t.budget.Take(0)
	}
	if err != nil {
		return err
	}
	return t.root.MkdirAll(at, 0o755)
}

func (t target) file(name string, size int64, mode fs.FileMode, from io.Reader) error {
	at, err := t.place(name)
	if err == nil {
		err = t.budget.Take(size)
	}
	if err == nil {
		err = t.clear(at)
	}
	if err != nil {
		return err
	}
	perm := fs.FileMode(0o644)
	if mode&0o111 != 0 {
		perm = 0o755
	}
	f, err := t.root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer f.Close()
	for left := size; left > 0; left -= chunk {
		if err := t.ctx.Err(); err != nil {
			return err
		}
		if _, err := io.CopyN(f, from, min(left, chunk)); err != nil {
			return fmt.Errorf("it is cut off: %w", err)
		}
	}
	return f.Close()
}

func (t target) symlink(name, to string) error {
	at, err := t.place(name)
	if err == nil {
		err = t.budget.Take(0)
	}
	if err != nil {
		return err
	}
	if leads := path.Join(path.Dir(path.Clean(name)), to); to == "" || len(to) > maxName || path.IsAbs(to) || !filepath.IsLocal(leads) {
		return fmt.Errorf("it is a link to %.200q, out of the archive", to)
	}
	if err := t.clear(at); err != nil {
		return err
	}
	return t.root.Symlink(to, at)
}

func (t target) link(name, to string) error {
	at, err := t.place(name)
	if err != nil {
		return err
	}
	from, err := t.place(to)
	if err != nil {
		return fmt.Errorf("it is a link to %.200q, out of the archive", to)
	}
	info, err := t.root.Lstat(from)
	if err != nil {
		return err
	}
	if err := t.budget.Take(info.Size()); err != nil { // whoever reads the directory reads the file once more
		return err
	}
	if err := t.clear(at); err != nil {
		return err
	}
	return t.root.Link(from, at)
}
