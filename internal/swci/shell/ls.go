package shell

import (
	"cmp"
	"context"
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
	looking

	w    io.Writer
	opts string // letters of listOptions
}

func (l *listing) has(letters string) bool { return strings.ContainsAny(l.opts, letters) }

// List shows the files that args name, patterns such as *.yaml among them; the working directory without any. It ends with ctx, and looks at
// maxLooked files at most.
func (s *Shell) List(ctx context.Context, w io.Writer, args []string) error {
	l, paths := &listing{looking: looking{left: maxLooked}, w: w}, []string(nil)
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
	paths, err := s.expand(ctx, paths, &l.looking)
	if err != nil {
		return fmt.Errorf("list files: %w", err)
	}
	var files []os.FileInfo
	var dirs []string
	for _, p := range paths {
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
		if err := l.show(ctx, s.Path(d), d, len(dirs)+len(files) > 1 || l.has("R")); err != nil {
			return fmt.Errorf("list files: %w", err)
		}
	}
	return nil
}

// print shows files. Hidden ones are shown if they were named.
func (l *listing) print(infos []os.FileInfo, named bool) {
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

// show shows what is in a directory, with a heading if there are others; with -R also what is in those below it, links left out.
func (l *listing) show(ctx context.Context, path, name string, heading bool) error {
	entries, err := l.dir(ctx, path)
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
		if err := l.show(ctx, filepath.Join(path, e.Name()), filepath.Join(name, e.Name()), true); err != nil {
			return err
		}
	}
	return nil
}
