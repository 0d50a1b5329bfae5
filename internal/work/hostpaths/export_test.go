package hostpaths

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Walk says where a name leads in a world below a directory.
func Walk(root, name string) (Lead, error) {
	return lookerAt(root, func(string) error { return nil }).walk(name)
}

// RunWithGates is Run, of which a look at a "gate" hangs while there is a pipe "shut" beside that, until somebody opens it.
func RunWithGates(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	h := hereBelow(hostDir)
	h.see = func(root string, before func(string) error) looker {
		l := lookerAt(root, before)
		l.lstat = func(name string) (fs.FileInfo, error) {
			if filepath.Base(name) == "gate" {
				if pipe, err := os.Open(filepath.Join(filepath.Dir(name), "shut")); err == nil {
					_ = pipe.Close()
				}
			}
			return os.Lstat(name)
		}
		return l
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) // who looks has no longer to say that it is stuck
	defer cancel()
	return h.serve(ctx, args, stdin, stdout, stderr)
}
