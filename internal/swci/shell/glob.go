package shell

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/swci/exit"
)

// maxLooked bounds the files that one command looks at: a directory that others write may have any number.
const maxLooked = 100_000

// looking counts the files that a command looks at.
type looking struct{ left int }

// dir reads a directory, by name. What is removed meanwhile is left out.
func (l *looking) dir(ctx context.Context, path string) (entries []fs.DirEntry, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0) // a pipe is not waited for
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		some, err := f.ReadDir(1024)
		if l.left -= len(some); l.left < 0 {
			return nil, exit.New(exit.Usage, "name a directory below, or leave out -R", "there are more than %d files", maxLooked)
		}
		entries = append(entries, some...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// Expand returns the files that patterns stand for, by name, as other shells do: a word that matches nothing stays as it is, and what begins
// with a dot is matched only by what does too.
func (s *Shell) Expand(ctx context.Context, words []string) ([]string, error) {
	return s.expand(ctx, words, &looking{left: maxLooked})
}

func (s *Shell) expand(ctx context.Context, words []string, l *looking) (out []string, err error) {
	for _, w := range words {
		var found []string
		if _, bad := filepath.Match(w, ""); bad == nil && strings.ContainsAny(w, "*?[") {
			if found, err = l.match(ctx, s.Path(w)); err != nil {
				return nil, err
			}
		}
		if len(found) == 0 {
			found = []string{w}
		} else if dir, err := s.Getwd(); err == nil && !filepath.IsAbs(w) {
			found = from(dir, found)
		}
		out = append(out, found...)
	}
	return out, nil
}

// from names paths of the process as they are called from a working directory.
func from(dir string, paths []string) []string {
	for i, p := range paths {
		if abs, err := filepath.Abs(p); err == nil {
			if rel, err := filepath.Rel(dir, abs); err == nil {
				paths[i] = rel
			}
		}
	}
	return paths
}

// match returns the files that a path with patterns stands for.
func (l *looking) match(ctx context.Context, path string) ([]string, error) {
	found := []string{""}
	if filepath.IsAbs(path) {
		found = []string{"/"}
	}
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		var next []string
		for _, dir := range found {
			if !strings.ContainsAny(part, `*?[\`) {
				if _, err := os.Lstat(filepath.Join(dir, part)); err == nil {
					next = append(next, filepath.Join(dir, part))
				}
				continue
			}
			entries, err := l.dir(ctx, filepath.Join(dir, "."))
			if err != nil && (ctx.Err() != nil || l.left < 0) {
				return nil, err
			}
			for _, e := range entries { // none of what is no directory, or can't be read
				if ok, _ := filepath.Match(part, e.Name()); ok && (part[0] == '.' || e.Name()[0] != '.') {
					next = append(next, filepath.Join(dir, e.Name()))
				}
			}
		}
		found = next
	}
	return found, nil
}
