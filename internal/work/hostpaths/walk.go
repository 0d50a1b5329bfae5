// Package hostpaths follows symbolic links in paths of a host that somebody else names, so that the path that is judged is the one that is
// bound.
package hostpaths

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Bounds of what is followed.
const (
	maxPaths = 64 // that a task names
	maxBytes = 4096
	maxLinks = 40 // as the kernel has it
)

const tooLong = "its name is too long"

// Lead is where a name leads.
type Lead struct {
	// At is the path without symbolic links and without dots. Of what leads nowhere it is the part that is wrong, so that nobody is told of a
	// place who may not know of it; empty: the name itself is none.
	At string `json:"at"`
	// Why it leads nowhere, in words that name nothing of the host; empty: it leads to At.
	Why string `json:"why,omitempty"`
	// Closed: it may lead to any place, as nobody may look at At.
	Closed bool `json:"closed,omitempty"`
}

// looker sees the files below a directory, which are the whole world.
type looker struct {
	root     string
	lstat    func(name string) (fs.FileInfo, error)
	readlink func(name string) (string, error)
	// before is called before each look at a place, which does not happen after an error.
	before func(at string) error
}

func lookerAt(root string, before func(at string) error) looker {
	return looker{root: root, lstat: os.Lstat, readlink: os.Readlink, before: before}
}

// walk says where a name leads. It never leaves the world. An error is why that can't be said now.
func (l looker) walk(name string) (Lead, error) {
	if why := malformed(name); why != "" {
		return Lead{Why: why}, nil
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
		if len(here) > maxBytes { // nobody would take it for a path
			return Lead{At: at, Why: tooLong}, nil
		}
		to, isDir, err := l.look(here)
		switch {
		case err != nil:
			return nowhere(here, err)
		case !utf8.ValidString(to):
			return Lead{At: here, Why: "it leads to a name that is no UTF-8", Closed: true}, nil
		case to == "" && len(rest) > 0 && !isDir:
			return Lead{At: here, Why: "it is no directory"}, nil
		case to == "":
			at = here
			continue
		}
		if links++; links > maxLinks {
			return Lead{At: here, Why: fmt.Sprintf("it leads through more than %d symbolic links", maxLinks)}, nil
		}
		if path.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return Lead{At: at}, nil
}

// look says what is at a place: what a symbolic link says, or else whether it is a directory.
func (l looker) look(at string) (link string, isDir bool, err error) {
	if err := l.before(at); err != nil {
		return "", false, err
	}
	info, err := l.lstat(filepath.Join(l.root, at))
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return "", err == nil && info.IsDir(), err
	}
	link, err = l.readlink(filepath.Join(l.root, at))
	return link, false, err
}

// malformed says why a name is no path; empty: it is one.
func malformed(name string) string {
	switch {
	case len(name) > maxBytes || strings.ContainsRune(name, 0) || !utf8.ValidString(name):
		return "it is none"
	case !path.IsAbs(name):
		return "write its absolute path on this host"
	}
	return ""
}

// nowhere says what is wrong at a place for good. Other errors pass.
func nowhere(at string, err error) (Lead, error) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Lead{At: at, Why: "it does not exist"}, nil
	case errors.Is(err, fs.ErrPermission):
		return Lead{At: at, Why: "this host's SWOP may not look at it", Closed: true}, nil
	case errors.Is(err, unix.ENOTDIR):
		return Lead{At: at, Why: "it lies in no directory"}, nil
	case errors.Is(err, unix.ENAMETOOLONG):
		return Lead{At: at, Why: tooLong}, nil
	}
	return Lead{}, fmt.Errorf("look at path %.200q: %w", at, err)
}

// walkAll says where each name leads.
func (l looker) walkAll(names []string) (map[string]Lead, error) {
	all := map[string]Lead{}
	for _, name := range names {
		lead, err := l.walk(name)
		if err != nil {
			return nil, err
		}
		all[name] = lead
	}
	return all, nil
}

// tooMany says so of each name; nil: they are not.
func tooMany(names []string) map[string]Lead {
	if len(names) <= maxPaths {
		return nil
	}
	all := map[string]Lead{}
	for _, name := range names {
		all[name] = Lead{Why: fmt.Sprintf("it is one of %d paths, and at most %d are followed", len(names), maxPaths)}
	}
	return all
}
