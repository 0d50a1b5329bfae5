package audit

import (
	"bufio"
	"crypto/x509"
	"errors"
	"fmt"
	"io"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity"
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
	// Prefix is that of the SPIFFE IDs in the swarm's certificates, as its nodes had it.
	Prefix identity.Prefix
	// Each is told of every record that continues the chain, in order, whatever may be wrong with it; nil: nobody is. What it says is judged
	// only when Verify has returned.
	Each func(record uint64, atMS int64, body ledger.Body)
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
	Orders        int // records of changes that an operator has signed
	// UnsignedMembers is how often the SNs alone say what became of a host's part in an assignment: the host has not signed it.
	UnsignedMembers int
	// UngroupedMembers is how often a host has signed what became of its part, but not in which group that was and for how many peers: it is of before
	// hosts did.
	UngroupedMembers int
	Reused           []Reused    // assignments with the ID of an earlier one, at most 20
	MoreReused       int         // beyond those
	Unsigned         int         // records of changes by operators of before they were signed
	Contracts        []*Contract // by first appearance
	Recoveries       []Recovered // foundings of the group of SNs anew
	// Unwitnessed is how many records at the end neither a participant of a round nor an operator has signed as the past: the SNs
	// alone vouch for them, apart from what they carry signed themselves.
	Unwitnessed   uint64
	Backwards     []Backwards // records whose time is before that of an earlier one, at most 20
	MoreBackwards int         // beyond those
	Problems      []Problem   // empty: the ledger is good
	More          int         // problems beyond those
}

// Good reports whether nothing is wrong.
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
	Halts        []Halt     // in order
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
	Rounds                 int      // that it signed
	Weight                 uint64   // summed over them
	Share                  float64  // of all weights of the contract, 0 to 1
	Programs               []string // that its SL said it ran in these rounds; none: it said nothing
}

// auditor is the state of an audit after some records. Each part judges the records of its kind.
type auditor struct {
	*findings
	past        *past
	authorities *authorities
	members     *members
	contracts   *contracts
	tasks       *tasks
	rights      *entitlement
	recovered   string // digest of the newest recovery; empty: there was none
}

func newAuditor(o Options) *auditor {
	f := &findings{opts: o, report: &Report{}}
	p := &past{findings: f}
	auth := &authorities{findings: f, bundles: x509bundle.NewSet()}
	orders := &orders{findings: f, past: p, authorities: auth, nonces: map[string]uint64{}}
	m := &members{findings: f, authorities: auth, orders: orders, nodes: map[string]*ledger.Registration{}, hosts: map[hostKey]bool{}, banned: map[string]string{}, invited: map[string]ledger.Invitation{}}
	return &auditor{
		findings: f, past: p, authorities: auth, members: m, rights: &entitlement{findings: f, orders: orders}, tasks: newTasks(f, orders, m),
		contracts: &contracts{findings: f, past: p, orders: orders, members: m, courses: map[string]*course{}, floors: []uint64{0}},
	}
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
	if a.past.head.Length == 0 {
		a.seq = 1
		a.bad("line", "the file is empty")
	} else if o.Head != "" && a.past.head.Hash != o.Head {
		a.bad("hash", "it is %s, the head to be checked for is %s: records at the end were changed, or the copy is older or newer", a.past.head.Hash, o.Head)
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
	head, err := ledger.Follow(a.past.head, line)
	if err != nil {
		field := "prev"
		if record.Seq != a.past.head.Length+1 {
			field = "seq"
		}
		a.bad(field, "%v", err)
		return false
	}
	if _, swarm := body.(ledger.Swarm); swarm != (a.seq == 1) {
		a.bad("kind", "the record of the swarm's founding is the first one and no other")
		return false
	}
	a.at(record.AtMS)
	a.judge(body)
	a.past.add(head)
	if a.opts.Each != nil {
		a.opts.Each(record.Seq, record.AtMS, body)
	}
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
		a.members.founded(b)
	case ledger.Bundle:
		a.authorities.bundle(b)
	case ledger.Registration:
		a.members.registration(b)
	case ledger.Forget:
		a.members.forget(b)
	case ledger.Round:
		a.contracts.round(b)
	case ledger.Over:
		a.contracts.over(b)
	case ledger.Reset:
		a.contracts.reset(b)
	case ledger.Deleted:
		a.contracts.deleted(b)
	case ledger.Program:
		a.contracts.program(b)
	case ledger.Pause:
		a.contracts.halt(&swarmv1.PauseContractRequest{}, ledger.Halt(b))
	case ledger.Resume:
		a.contracts.halt(&swarmv1.ResumeContractRequest{}, ledger.Halt(b))
	case ledger.End:
		a.contracts.halt(&swarmv1.EndContractRequest{}, ledger.Halt(b))
	case ledger.LostModel:
		a.contracts.lost(b)
	case ledger.AdoptedRound:
		a.contracts.adopted(b)
	case ledger.Ban:
		a.members.ban(b)
	case ledger.Unban:
		a.members.unban(b)
	case ledger.Admission:
		a.members.admission(b)
	case ledger.Invitation:
		a.members.invitation(b)
	case ledger.Fetch:
		a.contracts.fetch(b)
	case ledger.Rules:
		a.contracts.rules(b)
	case ledger.Recovery:
		a.recovery(b)
	case ledger.Rights:
		a.rights.set(b)
	default:
		a.tasks.judge(b)
	}
}

// finish sums up.
func (a *auditor) finish() *Report {
	r := a.report
	r.Records, r.Bytes, r.Head = a.past.head.Length, a.past.head.Bytes, a.past.head.Hash
	r.Unwitnessed = r.Records - min(a.past.witnessed, r.Records)
	for _, name := range a.contracts.order {
		c := a.contracts.courses[name].shown
		divide(c.Participants)
		for _, run := range c.Runs {
			divide(run.Participants)
		}
		r.Contracts = append(r.Contracts, c)
	}
	return r
}
