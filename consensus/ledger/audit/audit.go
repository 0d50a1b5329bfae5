package audit

import (
	"bufio"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/internal/text"
)

// maxProblems bounds how many problems a report names; the rest is counted.
const maxProblems = 100

// maxWhat bounds what is said of one, in bytes.
const maxWhat = 1024

// Options is what the auditor knows by other ways than the ledger.
type Options struct {
	// Authorities are certificates that the auditor trusts. The founding bundle of every trust domain must be among them.
	Authorities []*x509.Certificate
	// Head is the hash that the last record must have; empty: not known.
	Head string
	// Unsigned leaves out all that rests on signatures and authorities: for an auditor who knows none.
	Unsigned bool
}

// Problem is something wrong with one record.
type Problem struct {
	Record uint64 // its number, from 1
	Kind   string // empty if the record does not read
	Field  string // as in the record, "participants[1].signature"
	What   string
}

// Error names record, field and what is wrong.
func (p Problem) Error() string {
	kind := ""
	if p.Kind != "" {
		kind = " (" + p.Kind + ")"
	}
	return fmt.Sprintf("record %d%s: %s: %s", p.Record, kind, p.Field, p.What)
}

// Report is what an audit found.
type Report struct {
	SwarmID       string
	Records       uint64
	Bytes         uint64
	Head          string // hash of the last record
	Late          bool   // the swarm had trained before its ledger began
	Bundles       int
	Registrations int
	Rounds        int
	Orders        int         // records of changes that an operator has signed
	Unsigned      int         // records of changes by operators of before they were signed
	Contracts     []*Contract // by first appearance
	Recoveries    []Recovered // foundings of the group of SNs anew
	// Unwitnessed is how many records at the end neither a participant of a round nor an operator has signed as the past: the SNs
	// alone vouch for them, apart from what they carry signed themselves.
	Unwitnessed uint64
	Backwards   []Backwards // records whose time is before that of an earlier one
	Problems    []Problem   // empty: the ledger is good
	More        int         // problems beyond those
}

// Good tells whether nothing is wrong.
func (r *Report) Good() bool { return len(r.Problems) == 0 }

// Contract is what the ledger says of one.
type Contract struct {
	Name         string
	Run          uint64 // the newest
	Rounds       int    // of all runs
	LastRound    uint64 // of the newest run
	Model        string // the newest
	Over         bool
	Participants []*Share // by first appearance
	Rules        []RuleSet
	Runs         []*Run // with rounds, in order
	Fetches      []Fetched
	Deletions    []Deletion
	Adoptions    []Adoption // models that were taken over after a backup was restored
	Deleted      bool       // and not made again since, as far as the ledger tells
}

// RuleSet are rules that an operator gave a contract.
type RuleSet struct {
	Record uint64 // number of the record
	AtMS   int64
	Run    uint64 // from which on they bind
	By     string // SPIFFE ID
	Rules  *swarmv1.Rules
	Asked  []byte // the signed request, JSON
}

// Share is one node's part in a contract.
type Share struct {
	Node, SPIFFEID, PeerID string
	Rounds                 int     // that it signed
	Weight                 uint64  // summed over them
	Share                  float64 // of all weights of the contract, 0 to 1
}

// Verify reads a ledger and judges it. The error is that of reading; what is wrong with the ledger stands in the report.
func Verify(r io.Reader, o Options) (*Report, error) {
	a := newAuditor(o)
	buffered := bufio.NewReaderSize(r, ledger.MaxRecord)
	for {
		line, err := buffered.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		a.seq++
		a.kind = ""
		switch {
		case errors.Is(err, io.EOF):
			a.bad("line", "the file ends within it: the copy is not complete")
			return a.finish(), nil
		case errors.Is(err, bufio.ErrBufferFull):
			a.bad("line", "longer than %d bytes", ledger.MaxRecord)
			return a.finish(), nil
		case err != nil:
			return nil, fmt.Errorf("read ledger: %w", err)
		}
		if !a.take(line) {
			return a.finish(), nil
		}
	}
	if a.head.Length == 0 {
		a.seq = 1
		a.bad("line", "the file is empty")
	} else if o.Head != "" && a.head.Hash != o.Head {
		a.bad("hash", "it is %s, the head to be checked for is %s: records at the end were changed, or the copy is older or newer", a.head.Hash, o.Head)
	}
	return a.finish(), nil
}

// take judges one line. It returns false if nothing after it can be judged.
func (a *auditor) take(line []byte) bool {
	record, body, err := ledger.Parse(line)
	a.kind = record.Kind
	if err != nil {
		a.bad(fieldOf(record), "%v", err)
		return false
	}
	head, err := ledger.Follow(a.head, line)
	if err != nil {
		field := "prev"
		if record.Seq != a.head.Length+1 {
			field = "seq"
		}
		a.bad(field, "%v", err)
		return false
	}
	if _, swarm := body.(ledger.Swarm); swarm != (a.seq == 1) {
		a.bad("kind", "the record of the swarm's founding is the first one and no other")
		return false
	}
	a.atMS = record.AtMS
	a.clock()
	a.judge(body)
	a.head = head
	a.hashes = append(a.hashes, head.Hash)
	return true
}

// fieldOf names what keeps a record from being read, as far as it was read.
func fieldOf(r ledger.Record) string {
	switch {
	case r.V != 0 && r.V != ledger.Version:
		return "v"
	case r.Kind == "":
		return "line"
	}
	return "body"
}

func (a *auditor) judge(body ledger.Body) {
	switch b := body.(type) {
	case ledger.Swarm:
		a.report.SwarmID, a.report.Late = b.SwarmID, b.Late
		if b.SwarmID == "" {
			a.bad("swarm_id", "empty")
		}
		a.founded(b)
	case ledger.Bundle:
		a.bundle(b)
	case ledger.Registration:
		a.registration(b)
	case ledger.Forget:
		a.forget(b)
	case ledger.Round:
		a.round(b)
	case ledger.Over:
		a.over(b)
	case ledger.Reset:
		a.reset(b)
	case ledger.Deleted:
		a.deleted(b)
	case ledger.LostModel:
		a.lost(b)
	case ledger.AdoptedRound:
		a.adopted(b)
	case ledger.Ban:
		a.ban(b)
	case ledger.Unban:
		a.unban(b)
	case ledger.Admission:
		a.admission(b)
	case ledger.Fetch:
		a.fetch(b)
	case ledger.Rules:
		a.rules(b)
	case ledger.Recovery:
		a.recovery(b)
	}
}

// finish sums up.
func (a *auditor) finish() *Report {
	r := a.report
	r.Records, r.Bytes, r.Head = a.head.Length, a.head.Bytes, a.head.Hash
	r.Unwitnessed = r.Records - min(a.witnessed, r.Records)
	for _, name := range a.order {
		c := a.contracts[name].shown
		divide(c.Participants)
		for _, run := range c.Runs {
			divide(run.Participants)
		}
		r.Contracts = append(r.Contracts, c)
	}
	return r
}

func (a *auditor) bad(field, format string, args ...any) {
	if len(a.report.Problems) >= maxProblems {
		a.report.More++
		return
	}
	what := text.Clip(fmt.Sprintf(format, args...), maxWhat) // a hostile file's names may be as long as its records
	a.report.Problems = append(a.report.Problems, Problem{Record: a.seq, Kind: a.kind, Field: field, What: what})
}

// trusted tells whether the auditor named a certificate.
func (a *auditor) trusted(cert *x509.Certificate) bool {
	return slices.ContainsFunc(a.opts.Authorities, cert.Equal)
}
