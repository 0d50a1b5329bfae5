package yamlfile

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

	weight Weight
}

// Error returns file:line: text.
func (f *Finding) Error() string {
	if f.File == "" {
		return fmt.Sprintf("line %d: %s", f.Line, f.Text)
	}
	return fmt.Sprintf("%s:%d: %s", text.Line(f.File), f.Line, f.Text)
}

// Weight is who minds a finding.
type Weight int

// Who minds a finding.
const (
	Strict   Weight = iota + 1 // lint alone: the original refuses it, and its meaning is plain
	Noted                      // it is allowed, and has a consequence that is soon overlooked
	Odd                        // it is read, and probably not what was meant
	Unfilled                   // a placeholder: it is read, and can't be used
	Broken                     // it can't be read
)

// maxFindings are kept of one file.
const maxFindings = 200

// Find says something of a line.
func (d *Document) Find(w Weight, line int, format string, args ...any) {
	// What breaks a file is kept even if there is much to be said of it.
	if len(d.found) < maxFindings || w == Broken && !d.Broken() {
		d.found = append(d.found, &Finding{File: d.File, Line: max(line, 1), Text: text.Line(fmt.Sprintf(format, args...)), weight: w})
		return
	}
	d.missed++
}

// Missed returns how many findings are not kept, as there were too many.
func (d *Document) Missed() int { return d.missed }

// Broken reports whether the file can't be read.
func (d *Document) Broken() bool { return d.First(Broken) != nil }

// First returns the first finding of a weight, in the order of lines, or nil.
func (d *Document) First(w Weight) (first *Finding) {
	for _, f := range d.found {
		if f.weight == w && (first == nil || f.Line < first.Line) {
			first = f
		}
	}
	return first
}

// All returns the findings of the weights, by line.
func (d *Document) All(weights ...Weight) (all []*Finding) {
	for _, f := range d.found {
		if slices.Contains(weights, f.weight) {
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(x, y *Finding) int { return cmp.Compare(x.Line, y.Line) })
	return all
}

// Err is why the file can't be read, or nil.
func (d *Document) Err() error {
	first := d.First(Broken)
	if first == nil {
		return nil
	}
	if more := len(d.All(Broken)) - 1; more > 0 {
		return fmt.Errorf("%w (and %d more of its lines can't be read)", first, more)
	}
	return first
}
