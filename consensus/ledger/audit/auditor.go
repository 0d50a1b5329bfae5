package audit

import (
	"bytes"
	"errors"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// ErrEnded says that nothing behind a record can be judged: the report says what is wrong with it.
var ErrEnded = errors.New("nothing that follows in the ledger can be judged")

// Auditor judges a ledger that is written to it in parts, from its start: one that grows needs no reading anew. It is for one goroutine at a
// time. Head in its options is not looked at.
type Auditor struct {
	state *auditor
	rest  []byte // of a record whose end has not come
	ended bool
}

// New returns an auditor that has read nothing.
func New(o Options) *Auditor { return &Auditor{state: newAuditor(o)} }

// Write judges the records that end in p. The error is ErrEnded.
func (a *Auditor) Write(p []byte) (n int, err error) {
	for n < len(p) {
		if a.ended {
			return n, ErrEnded
		}
		line, _, whole := bytes.Cut(p[n:], []byte("\n"))
		n += len(line)
		a.rest = append(a.rest, line...)
		if whole {
			n++
			a.rest = append(a.rest, '\n')
		}
		switch {
		case len(a.rest) > ledger.MaxRecord:
			a.next()
			a.state.bad("line", "longer than %d bytes", ledger.MaxRecord)
			a.ended = true
		case whole:
			a.next()
			a.ended = !a.state.take(a.rest)
		default:
			return n, nil
		}
		a.rest = a.rest[:0]
	}
	return n, nil
}

func (a *Auditor) next() { a.state.seq, a.state.kind = a.state.past.head.Length+1, "" }

// Drop forgets the start of a record whose end did not come: what is written next begins behind Bytes.
func (a *Auditor) Drop() { a.rest = a.rest[:0] }

// Bytes is the length of the records that continue the chain.
func (a *Auditor) Bytes() uint64 { return a.state.past.head.Bytes }

// Ended reports whether nothing more can be judged.
func (a *Auditor) Ended() bool { return a.ended }

// Report says what was found so far. It is the caller's until the next Write.
func (a *Auditor) Report() *Report {
	a.state.report.Contracts = nil
	r := *a.state.finish()
	r.Problems = slices.Clone(r.Problems)
	return &r
}
