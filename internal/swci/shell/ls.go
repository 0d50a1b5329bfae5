package shell

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// listOptions are those of ls's options that List knows; -1 and -h are what it does without them.
const listOptions = "laAtSrRd1h"

// listing is how files are shown.
type listing struct {
	w    io.Writer
	opts string // letters of listOptions
}

func (l listing) has(letters string) bool { return strings.ContainsAny(l.opts, letters) }

// List shows the files that args name, patterns such as *.yaml among them; the working directory without any.
func (s *Shell) List(w io.Writer, args []string) error {
	l, paths := listing{w: w}, []string(nil)
	for _, a := range args {
		switch opts, isOpt := strings.CutPrefix(a, "-"); {
		case isOpt && opts != "" && strings.Trim(opts, listOptions) == "":
			l.opts += opts
		case isOpt:
			return exit.New(exit.Usage, "ls knows -l, -a, -A, -d, -t, -S, -r, -R, -1 and -h", "unknown option %s", a)
		default:
			paths = append(paths, a)
		}
	}
	if len(paths) == 0 {
		paths = []string{"."}
	}
	var files []os.FileInfo
	var dirs []string
	for _, p := range s.Expand(paths) {
		info, err := os.Stat(s.Path(p))
		if err != nil {
			return fmt.Errorf("list files: %w", err)
		}
		if info.IsDir() && !l.has("d") {
			dirs = append(dirs, p)
		} else {
			files = append(files, info)
		}
	}
	l.print(files, true)
	for i, d := range dirs {
		if i > 0 || len(files) > 0 {
			fmt.Fprintln(w)
		}
		if err := l.dir(s.Path(d), d, len(dirs)+len(files) > 1 || l.has("R")); err != nil {
			return fmt.Errorf("list files: %w", err)
		}
	}
	return nil
}

// Expand returns the files that patterns stand for, by name, as other shells do: a word that matches nothing stays as it is, and what begins
// with a dot is matched only by what does too.
func (s *Shell) Expand(words []string) (out []string) {
	for _, w := range words {
		found, err := filepath.Glob(s.Path(w))
		if err != nil || !strings.ContainsAny(w, "*?[") {
			found = nil
		}
		found = slices.DeleteFunc(found, func(p string) bool {
			return strings.HasPrefix(filepath.Base(p), ".") && !strings.HasPrefix(filepath.Base(w), ".")
		})
		if len(found) == 0 {
			found = []string{w}
		} else if !filepath.IsAbs(w) {
			found = s.fromHere(found)
		}
		out = append(out, found...)
	}
	return out
}

// fromHere names paths of the process as they are called from the working directory.
func (s *Shell) fromHere(paths []string) []string {
	dir, err := s.Getwd()
	for i, p := range paths {
		if abs, bad := filepath.Abs(p); err == nil && bad == nil {
			if rel, bad := filepath.Rel(dir, abs); bad == nil {
				paths[i] = rel
			}
		}
	}
	return paths
}

// print shows files. Hidden ones are shown if they were named.
func (l listing) print(infos []os.FileInfo, named bool) {
	switch {
	case l.has("t"):
		slices.SortStableFunc(infos, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	case l.has("S"):
		slices.SortStableFunc(infos, func(a, b os.FileInfo) int { return cmp.Compare(b.Size(), a.Size()) })
	}
	if l.has("r") {
		slices.Reverse(infos)
	}
	for _, i := range infos {
		switch {
		case !named && !l.has("aA") && strings.HasPrefix(i.Name(), "."):
		case l.has("l"):
			fmt.Fprintf(l.w, "%s %12d %s %s\n", i.Mode(), i.Size(), i.ModTime().Format("2006-01-02 15:04"), text.Line(i.Name()))
		default:
			fmt.Fprintln(l.w, text.Line(i.Name()))
		}
	}
}

// dir shows what is in a directory, with a heading if there are others; with -R also what is in those below it, links left out.
func (l listing) dir(path, name string, heading bool) error {
	entries, err := os.ReadDir(path) // by name
	if err != nil {
		return err
	}
	var infos []os.FileInfo
	for _, e := range entries {
		if i, err := e.Info(); err == nil { // else it has just been removed
			infos = append(infos, i)
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if heading {
		fmt.Fprintln(l.w, text.Line(name)+":")
	}
	l.print(infos, false)
	for _, e := range entries {
		if !l.has("R") || !e.IsDir() || strings.HasPrefix(e.Name(), ".") && !l.has("aA") {
			continue
		}
		fmt.Fprintln(l.w)
		if err := l.dir(filepath.Join(path, e.Name()), filepath.Join(name, e.Name()), true); err != nil {
			return err
		}
	}
	return nil
}
