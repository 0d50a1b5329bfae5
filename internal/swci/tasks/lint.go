// Package tasks is what swarmctl does with tasks and their files, beside the rows of its commands.
package tasks

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// Contents returns the bytes of a file that has so many at most, and one more of one that has more: whoever reads them says so, and what it is.
func Contents(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.New(exit.NotFound, "", "%w", err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most+1)) // its error says that it reads, and what
}

// Linted is what lint says of files.
type Linted struct {
	Valid bool         `json:"valid" doc:"all files are"`
	Files []LintedFile `json:"files" doc:"as they were named"`
}

// LintedFile is what lint says of one file.
type LintedFile struct {
	File     string    `json:"file" doc:"as it was named"`
	Valid    bool      `json:"valid" doc:"there are no findings"`
	Findings []Finding `json:"findings" doc:"every deviation from the original's schema, by line, at most 201"`
}

// Finding is a deviation.
type Finding struct {
	Line int    `json:"line" doc:"from 1"`
	Text string `json:"text" doc:"what is wrong, and what to do"`
}

// Lint reads files and says in what they deviate, as lint finds it.
func Lint(paths []string, lint func(file string, data []byte) []*yamlfile.Finding) (Linted, error) {
	l := Linted{Valid: true, Files: []LintedFile{}}
	for _, path := range paths {
		raw, err := Contents(path, yamlfile.MaxFile)
		if err != nil {
			return l, err
		}
		f := LintedFile{File: path, Findings: []Finding{}}
		for _, found := range lint(path, raw) {
			f.Findings = append(f.Findings, Finding{found.Line, found.Text})
		}
		f.Valid = len(f.Findings) == 0
		l.Valid = l.Valid && f.Valid
		l.Files = append(l.Files, f)
	}
	return l, nil
}

// Print writes a line for each deviation, as compilers do, and valid for a file without one.
func (l Linted) Print(w io.Writer, valid string) {
	for _, f := range l.Files {
		name := text.Line(f.File)
		for _, x := range f.Findings {
			fmt.Fprintf(w, "%s:%d: %s\n", name, x.Line, x.Text)
		}
		switch {
		case f.Valid && len(l.Files) == 1:
			fmt.Fprintln(w, valid)
		case f.Valid:
			fmt.Fprintf(w, "%s: %s\n", name, valid)
		}
	}
}

// Err is why the files are not all valid, or nil.
func (l Linted) Err() error {
	bad := 0
	for _, f := range l.Files {
		if !f.Valid {
			bad++
		}
	}
	switch {
	case bad == 0:
		return nil
	case len(l.Files) == 1:
		return exit.New(exit.Failed, "", "%s is not valid", text.Line(l.Files[0].File))
	}
	return exit.New(exit.Failed, "", "%d of %d files are not valid", bad, len(l.Files))
}
