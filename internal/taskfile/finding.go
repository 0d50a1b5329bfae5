package taskfile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/internal/text"
)

// Finding is something to be said of a line of a file. As an error it is why the file can't be used.
type Finding struct {
	File string // as the reader was given it; empty: the lines are those of a task's body
	Line int    // from 1
	Text string // what is wrong, and what to do; one line, safe to show

	weight weight
}

// Error returns file:line: text.
func (f *Finding) Error() string {
	if f.File == "" {
		return fmt.Sprintf("line %d: %s", f.Line, f.Text)
	}
	return fmt.Sprintf("%s:%d: %s", text.Line(f.File), f.Line, f.Text)
}

// weight is who minds a finding.
type weight int

const (
	strict   weight = iota + 1 // lint alone: the original refuses it, and its meaning is plain
	noted                      // it is allowed, and has a consequence that is soon overlooked
	odd                        // it is read, and probably not what was meant
	unfilled                   // a placeholder: it is read, and can't be used
	broken                     // it can't be read
)

// maxFindings are kept of one file.
const maxFindings = 200

func (d *document) find(w weight, line int, format string, args ...any) {
	// What breaks a file is kept even if there is much to be said of it.
	if len(d.found) < maxFindings || w == broken && !d.broken() {
		d.found = append(d.found, &Finding{File: d.file, Line: max(line, 1), Text: text.Line(fmt.Sprintf(format, args...)), weight: w})
	}
}

// broken reports whether the file can't be read.
func (d *document) broken() bool { return d.first(broken) != nil }

// first returns the first finding of a weight, in the order of lines, or nil.
func (d *document) first(w weight) (first *Finding) {
	for _, f := range d.found {
		if f.weight == w && (first == nil || f.Line < first.Line) {
			first = f
		}
	}
	return first
}

// all returns the findings of the weights, by line.
func (d *document) all(weights ...weight) (all []*Finding) {
	for _, f := range d.found {
		if slices.Contains(weights, f.weight) {
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(x, y *Finding) int { return cmp.Compare(x.Line, y.Line) })
	return all
}

// err is why the file can't be read, or nil.
func (d *document) err() error {
	first := d.first(broken)
	if first == nil {
		return nil
	}
	if more := len(d.all(broken)) - 1; more > 0 {
		return fmt.Errorf("%w (and %d more of its lines can't be read)", first, more)
	}
	return first
}
