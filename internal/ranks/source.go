package ranks

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/swarmd/swarmd/internal/jobfile"
)

// travelling reads those files of a directory that are wanted, out of which nothing leads.
func travelling(dir string, wanted func(name string) bool) ([]jobfile.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	all, err := jobfile.Pack(some{root.FS(), wanted})
	if err != nil {
		return nil, fmt.Errorf("--model-dir %s: what travels to the other ranks: %w", dir, err)
	}
	return all, nil
}

// some is a folder of which only some files are there.
type some struct {
	fs.FS
	wanted func(name string) bool
}

// ReadDir implements fs.ReadDirFS.
func (s some) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(s.FS, name)
	var kept []fs.DirEntry
	for _, d := range all {
		path := d.Name()
		if name != "." {
			path = name + "/" + path
		}
		if d.IsDir() || s.wanted(path) {
			kept = append(kept, d)
		}
	}
	return kept, err
}
