// Package doctor is what the doctors of swarmd and swarmctl find: rows, how they are judged, what remedies they have, and how they are
// printed. It looks at nothing itself.
package doctor

import (
	"errors"
	"strings"

	"github.com/swarmd/swarmd/internal/text"
)

// Status says how a row is.
type Status string

// The states of a row. Only Failed makes a doctor end with exit code 1.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Failed  Status = "failed"
	Skipped Status = "skipped" // it was not checked; the detail says why
)

// maxText bounds what is shown of what comes from elsewhere, in bytes.
const maxText = 1000

// Row is one thing that was checked.
type Row struct {
	Check  string `json:"check" doc:"what was checked: options, profile, name, port, policy, identity, sn, clock and so on"`
	Status Status `json:"status" doc:"ok, warning, failed or skipped"`
	Detail string `json:"detail" doc:"what was found, in words"`
	Remedy string `json:"remedy" doc:"what to do about it; empty where nothing is to be done"`
}

// Report is all that was found. Its tags describe the JSON form of swarmd doctor.
type Report struct {
	Command string `json:"command" doc:"that was checked: run-sl, run-sn or run-swop"`
	OK      bool   `json:"ok" doc:"no row has failed"`
	Rows    []Row  `json:"rows" doc:"in the order in which they were checked"`
}

// New makes a report on a command in which nothing has failed yet.
func New(command string) *Report { return &Report{Command: command, OK: true, Rows: []Row{}} }

// Add adds rows, made fit to be shown on one line each.
func (r *Report) Add(rows ...Row) {
	for _, x := range rows {
		x.Detail, x.Remedy = legible(x.Detail), legible(x.Remedy)
		r.OK = r.OK && x.Status != Failed
		r.Rows = append(r.Rows, x)
	}
}

// Well is a row of something that is as it should be.
func Well(check, detail string) Row { return Row{Check: check, Status: OK, Detail: detail} }

// Skip is a row of something that was not checked.
func Skip(check, why string) Row { return Row{Check: check, Status: Skipped, Detail: why} }

// Warn is a row of something that may be wanted.
func Warn(check, detail, remedy string) Row {
	return Row{Check: check, Status: Warning, Detail: detail, Remedy: remedy}
}

// Fail is a row of something that is wrong.
func Fail(check, detail, remedy string) Row {
	return Row{Check: check, Status: Failed, Detail: detail, Remedy: remedy}
}

// Errors are the rows of an error: one, or one for each that was joined. otherwise is the remedy of those that carry none.
func Errors(check string, err error, otherwise string) []Row {
	if all, ok := err.(interface{ Unwrap() []error }); ok && err.Error() == errors.Join(all.Unwrap()...).Error() {
		var rows []Row
		for _, e := range all.Unwrap() {
			rows = append(rows, Errors(check, e, otherwise)...)
		}
		return rows
	}
	detail, remedy := Split(err)
	if remedy == "" {
		remedy = otherwise
	}
	return []Row{Fail(check, detail, remedy)}
}

// Split takes an error's remedy off its text; the remedy is empty where the error carries none.
func Split(err error) (problem, remedy string) {
	problem = err.Error()
	var with interface{ Remedy() string }
	if errors.As(err, &with) {
		remedy = with.Remedy()
	}
	if rest, ok := strings.CutSuffix(problem, remedy); ok && remedy != "" {
		problem = strings.TrimRight(rest, ":;, ")
	}
	return problem, remedy
}

// Option is the row of what is wrong with an option, whose text says behind its last semicolon or colon what to give instead.
func Option(text, otherwise string) Row { return Line("options", Failed, "", text, otherwise) }

// Line is the row of what is to be said of a place, such as a line of a file, whose text says behind its last semicolon or colon what to do.
func Line(check string, s Status, place, text, otherwise string) Row {
	for _, mark := range []string{"; ", ": "} {
		if i := strings.LastIndex(text, mark); i > 0 {
			text, otherwise = text[:i], text[i+len(mark):]
			break
		}
	}
	return Row{Check: check, Status: s, Detail: place + text, Remedy: otherwise}
}

func legible(s string) string { return text.Clip(text.Line(s), maxText) }
