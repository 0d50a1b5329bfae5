package history

import (
	"reflect"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/internal/text"
)

// gap are rounds between two others that the ledger is to tell of: they were committed between two looks at the state, or before this SN began.
type gap struct {
	contract           string
	run, after, before uint64
}

// reading is how far the ledger was read for gaps. Those that are noted meanwhile wait for the next time, which begins where the first of them can be.
type reading struct {
	seen uint64 // records that there were at the last look

	gaps     []gap
	at, to   uint64 // records that were read, and that there must be
	next     []gap
	from, is uint64 // of next

	rests time.Time // until when nothing is read, as what it tells could not be kept a moment ago
}

// maxGaps bounds the gaps that wait. Further ones become one with the last of their contract, or are left to other SNs to tell of.
const maxGaps = 1000

// note has the ledger read for a gap, from a record on, up to as many as there are.
func (b *reading) note(g gap, from, to uint64) {
	if len(b.next) == 0 {
		b.from = from
	}
	b.from, b.is = min(b.from, from), max(b.is, to)
	for i := range b.next {
		if have := &b.next[i]; have.contract == g.contract && have.run == g.run {
			have.after, have.before = min(have.after, g.after), max(have.before, g.before)
			return
		}
	}
	if len(b.next) < maxGaps {
		b.next = append(b.next, g)
	}
}

// has reports whether a record is of a round that is looked for.
func (b *reading) has(of ledger.Round) bool {
	for _, g := range b.gaps {
		if g.contract == of.Contract && g.run == of.Run && g.after < of.Round && of.Round < g.before {
			return true
		}
	}
	return false
}

// fill reads a part of the ledger for rounds in gaps. It reports whether there is more to read now.
func (r *Recorder) fill() (more bool) {
	b := &r.behind
	if len(b.gaps) == 0 {
		b.gaps, b.at, b.to = b.next, b.from, b.is
		b.next, b.is = nil, 0
	}
	if len(b.gaps) == 0 || r.resting() || time.Now().Before(b.rests) {
		return false
	}
	data, err := r.swarm.LedgerAfter(b.at)
	if err != nil {
		return false // it is fetched from other SNs
	}
	if len(data) == 0 && b.at < b.to {
		return false // the state is ahead
	}
	if len(data) == 0 {
		b.gaps = nil
		return len(b.next) > 0
	}
	for len(data) > 0 {
		line, behind, ok := ledger.CutLine(data)
		if !ok {
			r.log.Warn("the ledger ends within a record: rounds may be missing in curves; check it with: swarmctl verify ledger", "record", b.at)
			b.gaps = nil
			return false
		}
		record, body, err := ledger.Parse(line)
		if of, ok := body.(ledger.Round); err == nil && ok && b.has(of) && r.proven(record, of) != nil {
			b.rests = time.Now().Add(rest)
			return false
		}
		b.at++
		data = behind
	}
	return true
}

// proven keeps what the ledger says of a round.
func (r *Recorder) proven(record ledger.Record, of ledger.Round) error {
	t := r.seen[of.Contract]
	if t == nil || t.run != of.Run {
		return nil
	}
	out := t.open[of.Round]
	opened := out != nil
	if !opened {
		var err error
		if out, err = r.kept(of.Contract, of.Run, of.Round); err != nil {
			return err
		}
	}
	if out == nil {
		out = &Round{Round: of.Round}
	}
	if out.whole() {
		return nil
	}
	names := make([]string, 0, len(of.Participants))
	for _, x := range of.Participants {
		names = append(names, x.Node)
	}
	before := out.clone()
	out.own(of.Attempt, names, r.knows)
	out.Attempt, out.Digest, out.Record, out.Method = of.Attempt, of.Model, record.Seq, text.Clip(text.Line(of.Method), maxMethod)
	if out.CommittedMS == 0 {
		out.CommittedMS = record.AtMS
	}
	for _, x := range of.Participants {
		if p := out.peer(x.Node); p != nil {
			p.Weight, p.Contributed = &x.Weight, x.Weight > 0
		}
	}
	out.sort()
	if reflect.DeepEqual(before, out) {
		return nil // it has not all that there is in other ledgers
	}
	if opened {
		t.dirty[of.Round] = true
		return nil
	}
	return r.keep(of.Contract, of.Run, out)
}
