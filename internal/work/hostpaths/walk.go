// Package hostpaths follows symbolic links in paths of a host that somebody else names, so that the path that is judged is the one that is
// bound.
package hostpaths

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Bounds of what is followed.
const (
	maxPaths = 64 // that a task names
	maxBytes = 4096
	maxLinks = 40 // as the kernel has it
)

// Walk returns the path to which a name leads, without symbolic links and without dots, where the file system of root is the whole world: it
// never leaves it. The path must exist.
func Walk(root, name string) (string, error) {
	if err := absolute(name); err != nil {
		return "", err
	}
	at, rest, links := "/", strings.Split(name, "/"), 0
	for len(rest) > 0 {
		var next string
		next, rest = rest[0], rest[1:]
		switch next {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		here := path.Join(at, next)
		info, err := os.Lstat(filepath.Join(root, here))
		if err != nil {
			return "", explained(name, here, err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if len(rest) > 0 && !info.IsDir() {
				return "", explained(name, here, errors.New("it is no directory"))
			}
			at = here
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("path %.200q of this host: it leads through more than %d symbolic links", name, maxLinks)
		}
		to, err := os.Readlink(filepath.Join(root, here))
		if err != nil {
			return "", explained(name, here, err)
		}
		if path.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return at, nil
}

func absolute(name string) error {
	switch {
	case len(name) > maxBytes || strings.ContainsRune(name, 0):
		return fmt.Errorf("path %.80q: it is none", name)
	case !path.IsAbs(name):
		return fmt.Errorf("path %.200q: write its absolute path on this host", name)
	}
	return nil
}

// explained says what is wrong with a part of a path.
func explained(name, at string, err error) error {
	why, inner := err.Error(), new(fs.PathError)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		why = "it does not exist"
	case errors.Is(err, fs.ErrPermission):
		why = "this host's SWOP may not look at it"
	case errors.As(err, &inner):
		why = inner.Err.Error()
	}
	if at != name {
		why = fmt.Sprintf("%.200s: %s", at, why)
	}
	return fmt.Errorf("path %.200q of this host: %s", name, why)
}

// Here sees the host that this process is on.
type Here struct{}

// Resolve returns where each path leads, by its name.
func (Here) Resolve(_ context.Context, names []string) (map[string]string, error) {
	return walkAll("/", names)
}

func walkAll(root string, names []string) (map[string]string, error) {
	if len(names) > maxPaths {
		return nil, fmt.Errorf("the task names %d paths of this host, at most %d are followed", len(names), maxPaths)
	}
	all := map[string]string{}
	for _, name := range names {
		at, err := Walk(root, name)
		if err != nil {
			return nil, err
		}
		all[name] = at
	}
	return all, nil
}
