package audit

import (
	"fmt"

	"github.com/swarmd/swarmd/internal/text"
)

// findings are the report as far as it is made, and the record that is judged.
type findings struct {
	opts   Options
	report *Report

	seq  uint64
	kind string
	atMS int64

	latestMS int64 // of all records so far
}

// bad adds a problem of the record that is judged.
func (f *findings) bad(field, format string, args ...any) {
	if len(f.report.Problems) >= maxProblems {
		f.report.More++
		return
	}
	what := text.Clip(fmt.Sprintf(format, args...), maxWhat) // a hostile file's names may be as long as its records
	f.report.Problems = append(f.report.Problems, Problem{Record: f.seq, Kind: f.kind, Field: field, What: what})
}

// at takes the record's time, and looks whether it goes back. Clocks of SNs that lead in turn may differ a little.
func (f *findings) at(ms int64) {
	f.atMS = ms
	switch {
	case ms >= f.latestMS-clockSlack.Milliseconds():
	case len(f.report.Backwards) < maxBackwards:
		f.report.Backwards = append(f.report.Backwards, Backwards{f.seq, ms, f.latestMS})
	default:
		f.report.MoreBackwards++
	}
	f.latestMS = max(f.latestMS, ms)
}
