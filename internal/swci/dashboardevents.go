package swci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/internal/swci/deeds"
	"github.com/swarmd/swarmd/internal/text"
)

const (
	// maxEvents bounds the events of a document.
	maxEvents = 1000
	// eventsAgain is the least time between two readings of the ledger for events. It is read for a twentieth of the time at most, whether that
	// succeeds or not; but eventsLate is the longest pause.
	eventsAgain = 5 * time.Second
	eventsLate  = 5 * time.Minute
	// maxElsewhere is how often in a row an SN may have no record where the reading ended, as one that is behind for a minute: then its ledger is read
	// anew, and it is said that it is another one, or shorter.
	maxElsewhere = 12
)

// ledgerFrom writes the ledger of an SN from an offset in bytes on.
type ledgerFrom func(ctx context.Context, offset int64, w io.Writer) (int64, error)

// eventReader reads what happened from the ledger and from what SNs have noticed. Of the ledger it goes on where it has ended: a long ledger is read once, also in several goes.
type eventReader struct {
	ledger ledgerFrom
	judge  audit.Options
	clock  func() time.Time
	turn   chan struct{} // whoever has it reads, and has what follows

	auditor   *audit.Auditor
	events    []eventJSON // oldest first
	older     uint64
	recorded  recordedRounds
	elsewhere int
	changed   string // the ledger did not go on as it was; else empty

	noticed noticedEvents

	value json.RawMessage // what the last reading came to, until it is due again
	err   error
	until time.Time
}

// noticedEvents are those that SNs have noticed.
type noticedEvents struct {
	get  func(ctx context.Context, most uint32, known uint64) (*swarmv1.GetEventsResponse, error) // nil: they are not asked for
	said *swarmv1.GetEventsResponse                                                               // the last time that there were new ones
	err  error                                                                                    // why they could not be asked for
}

func newEventReader(from ledgerFrom, judge audit.Options, clock func() time.Time) *eventReader {
	r := &eventReader{ledger: from, judge: judge, clock: clock, turn: make(chan struct{}, 1)}
	r.judge.Each = r.take
	r.begin()
	return r
}

// begin has the ledger read from its start.
func (r *eventReader) begin() {
	r.auditor, r.events, r.older, r.elsewhere = audit.New(r.judge), nil, 0, 0
	r.recorded = newRecordedRounds()
}

func (r *eventReader) take(record uint64, atMS int64, body ledger.Body) {
	r.recorded.take(r.auditor.Bytes(), record, atMS, body)
	x, ok := deeds.FromRecord(record, atMS, body)
	if !ok {
		return
	}
	if len(r.events) == 2*maxEvents {
		r.older += maxEvents
		r.events = slices.Delete(r.events, 0, maxEvents)
	}
	r.events = append(r.events, eventToJSON(&x))
}

// begins waits until nobody else reads; end has others read.
func (r *eventReader) begins(ctx context.Context) (end func(), err error) {
	select {
	case r.turn <- struct{}{}:
		return func() { <-r.turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("read events: %w", ctx.Err())
	}
}

// now is the document: read on to the end of the ledger, unless that was done just before.
func (r *eventReader) now(ctx context.Context) (json.RawMessage, error) {
	end, err := r.begins(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return r.current(ctx)
}

func (r *eventReader) current(ctx context.Context) (json.RawMessage, error) {
	if r.clock().Before(r.until) {
		return r.value, r.err
	}
	began := r.clock()
	value, err := r.read(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, err // the page has gone
	}
	took := r.clock().Sub(began)
	r.value, r.err, r.until = value, err, r.clock().Add(min(max(eventsAgain, 20*took), eventsLate))
	return value, err
}

func (r *eventReader) read(ctx context.Context) (json.RawMessage, error) {
	if r.auditor.Ended() { // perhaps another SN is asked now
		r.begin()
	}
	from := r.auditor.Bytes()
	_, err := r.ledger(ctx, int64(from), r.auditor) //nolint:gosec // as long as a file at most
	r.auditor.Drop()
	r.elsewhere++
	switch {
	case err == nil || errors.Is(err, audit.ErrEnded):
		r.elsewhere = 0
	case connect.CodeOf(err) == connect.CodeInvalidArgument && from > 0:
		if r.elsewhere >= maxElsewhere {
			r.differs()
			r.begin()
			return r.read(ctx)
		}
	default:
		r.elsewhere = 0
		return nil, fmt.Errorf("read events: %w", err)
	}
	if r.auditor.Ended() && from > 0 && r.auditor.Bytes() == from {
		r.differs()
	}
	r.noticed.ask(ctx)
	return r.document()
}

// ask asks what SNs have noticed. What was known stays where they do not say it.
func (n *noticedEvents) ask(ctx context.Context) {
	if n.get == nil {
		return
	}
	said, err := n.get(ctx, maxEvents, n.said.GetVersion())
	if n.err = err; err == nil && (n.said == nil || said.GetVersion() != n.said.GetVersion()) {
		n.said = said
	}
}

// differs notes that the ledger is not what was read before.
func (r *eventReader) differs() {
	r.changed = fmt.Sprintf("at %s it did not go on as it was read before: SNs were restored from a backup, or one of them has another ledger, or a shorter one", dated(r.clock().UnixMilli()))
}

// document says what was read, newest first.
func (r *eventReader) document() (json.RawMessage, error) {
	report := r.auditor.Report()
	shown := slices.Clone(r.events[max(0, len(r.events)-maxEvents):])
	slices.Reverse(shown)
	out := eventsJSON{
		Events: newestFirst(shown, r.noticed.shown()), Records: report.Records, Older: r.older + uint64(len(r.events)-len(shown)), //nolint:gosec // it is not negative
		Good: report.Good() && r.changed == "", Signed: !r.judge.Unsigned, Problem: r.changed, ReportedOlder: r.noticed.said.GetOlder(),
	}
	if r.noticed.err != nil {
		out.Unreported = text.Line(apiError(r.noticed.err).Error())
	}
	if len(report.Problems) > 0 && r.changed == "" {
		p := problemsToJSON(report)[0]
		out.Problem = text.Line(fmt.Sprintf("record %d: %s", p.Record, p.What))
	}
	return json.Marshal(out)
}

// shown is what SNs have noticed, newest first.
func (n *noticedEvents) shown() (out []eventJSON) {
	list := n.said.GetEvents()
	for _, m := range list[:min(len(list), maxEvents)] {
		e := noticedToJSON(m)
		x := eventJSON{Source: "reported", SN: e.By, Time: e.At, What: e.What, Kind: "node", About: e.Node, Text: e.Text}
		if e.Contract != "" {
			x.Kind, x.About = "contract", e.Contract
		}
		out = append(out, x)
	}
	return out
}

// newestFirst puts two lists together that are so each by itself.
func newestFirst(a, b []eventJSON) []eventJSON {
	out := make([]eventJSON, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].Time != nil && (b[0].Time == nil || *a[0].Time >= *b[0].Time) {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return slices.Concat(out, a, b)
}

// eventToJSON says what somebody did, for people.
func eventToJSON(d *deeds.Deed) eventJSON {
	out := eventJSON{Source: "recorded", Record: d.Record, Time: stamp(d.AtMS), Who: d.By, What: d.Does, Text: text.Line(strings.TrimSuffix(d.Does+" "+d.What()+": "+d.Why(), ": "))}
	switch {
	case d.Task != "":
		out.Kind, out.About = "task", d.Task
	case d.Round > 0:
		out.Kind, out.About = "model", d.Contract
	case d.Contract != "":
		out.Kind, out.About = "contract", d.Contract
	case len(d.Sentences) > 0 || d.Does == "set rights":
		out.Kind = "rights"
	default:
		out.Kind, out.About = "node", first(d.Node, d.PeerID)
	}
	return out
}
