package jobfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/text"
)

// Bounds of a source.
const (
	maxFiles = 1024
	maxPath  = 255
)

// leftOut are folders that belong to tools and not to a program.
var leftOut = []string{".git", "__pycache__", ".venv", "node_modules"}

// Pack reads a source's folder, in the order of paths. Folders of tools (.git, __pycache__, .venv, node_modules) are left out; what is neither a
// file nor a folder is refused, also a link: it may lead out of the folder.
func Pack(folder fs.FS) ([]File, error) {
	var all []File
	left := int64(MaxBody)
	err := fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(leftOut, d.Name()):
			return fs.SkipDir
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is a %s: put a file there, or make it part of the image", text.Line(name), kindOf(d.Type()))
		case len(all) == maxFiles:
			return fmt.Errorf("it has more than %d files: make them part of the image", maxFiles)
		}
		f, err := takeFile(folder, name, left)
		if err != nil {
			return err
		}
		left -= int64(len(f.Data))
		all = append(all, f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return all, checkSource(all)
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "link"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "device or pipe"
}

// takeFile reads a file that has so many bytes at most.
func takeFile(folder fs.FS, name string, most int64) (File, error) {
	f, err := folder.Open(name)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return File{}, err
	case int64(len(data)) > most:
		return File{}, errTooLarge
	case !info.Mode().IsRegular():
		return File{}, fmt.Errorf("%s is no file", text.Line(name))
	}
	return File{Path: name, Exec: info.Mode()&0o100 != 0, Data: data}, nil
}

var errTooLarge = fmt.Errorf("the source has more than %d bytes: make it part of the image", MaxBody)

// checkSource says what no source has: files in no order, or with names that can't be shown or that lead out of it.
func checkSource(all []File) error {
	if len(all) == 0 {
		return errors.New("it has no files")
	}
	for i, f := range all {
		before := ""
		if i > 0 {
			before = all[i-1].Path
		}
		switch {
		case !fs.ValidPath(f.Path) || f.Path == "." || len(f.Path) > maxPath || text.Line(f.Path) != f.Path || strings.Contains(f.Path, `\`):
			return fmt.Errorf("it has a file with the name %q: use letters, digits and _ . - /, %d bytes at most", text.Cut(f.Path, 60), maxPath)
		case i > 0 && f.Path <= before:
			return fmt.Errorf("%s stands behind %s: its files are sorted, each once", f.Path, before)
		case inAFile(f.Path, all[:i]):
			return fmt.Errorf("%s is a file and a folder", path.Dir(f.Path))
		}
	}
	return nil
}

// inAFile reports whether one of the folders that a path is in is one of the files.
func inAFile(name string, files []File) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, found := slices.BinarySearchFunc(files, dir, func(f File, p string) int { return cmp.Compare(f.Path, p) }); found {
			return true
		}
	}
	return false
}
