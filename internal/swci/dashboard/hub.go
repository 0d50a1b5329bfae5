package dashboard

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

const (
	// period is the time between two questions for a document that pages show.
	period = 2 * time.Second
	// seldom is that time for a document of which a change would be told, and soon the least time behind a question before a change has the
	// document asked for again. It grows up to period while changes come that were none of that document.
	seldom = 5 * period
	soon   = period / 4
	// refused is that time for a document that a node is asked for, and which it did not give.
	refused = 6 * seldom
	// followAgain is the pause before the swarm's state is followed again, where that is not possible.
	followAgain = 15 * time.Second
	// maxAsking bounds the questions that are under way, and maxSlow those for slow documents.
	maxAsking = 4
	maxSlow   = 3
	// maxSilence is how long an SN may take to answer what says whether the swarm can be asked, before a page is told that none does: until the
	// question is given up more time goes by.
	maxSilence = 6 * time.Second
	// maxFailed is how often a document may fail to come while the swarm answers, before a page is told why.
	maxFailed = 3
)

// hub asks for the documents that pages show, once for all pages, and tells each page what has changed.
type hub struct {
	docs  Documents
	now   func() time.Time
	wake  chan struct{}
	slot  chan struct{} // of questions
	slow  chan struct{} // of those for slow documents
	vital chan struct{} // of those that say whether the swarm can be asked: no other keeps them waiting

	// mu guards what follows.
	mu      sync.Mutex
	shown   map[string]*shown
	readers map[*reader]bool
	link    Link
	lost    map[string]error // why the swarm could not be asked, by the documents that say so
	follows bool             // changes of the swarm's state are told
	told    time.Time        // when one was last
	version uint64           // of histories, counted up with each answer
	tally   tally
}

// shown is a document that pages show.
type shown struct {
	doc     Document
	due     time.Time     // when it is asked for next
	asked   time.Time     // when it was last
	after   time.Duration // the least time behind asked before a change has it asked for again
	asking  bool
	failed  int // times in a row that it did not come
	readers int
}

// reader is one page: what it has yet to be told.
type reader struct {
	names  []string
	fresh  map[string]bool // documents that have changed; guarded by the hub's mu
	moved  bool            // the link has changed; guarded by the hub's mu
	notify chan struct{}
}

func newHub(docs Documents, now func() time.Time) *hub {
	h := &hub{
		docs: docs, now: now, wake: make(chan struct{}, 1), slot: make(chan struct{}, maxAsking), slow: make(chan struct{}, maxSlow), vital: make(chan struct{}, maxAsking), shown: map[string]*shown{}, readers: map[*reader]bool{},
		lost: map[string]error{}, tally: newTally(),
	}
	h.link = Link{State: "live", Since: h.stamp()}
	return h
}

func (h *hub) stamp() string { return h.now().UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// run asks until ctx ends.
func (h *hub) run(ctx context.Context) {
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { h.follow(ctx) })
	tick := time.NewTicker(period / 4)
	defer tick.Stop()
	for {
		h.noteSilence()
		for name, s := range h.due() {
			asking.Go(func() { h.renew(ctx, name, s) })
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-h.wake:
		}
	}
}

// due are the documents to be asked for now, which are taken to be asked for.
func (h *hub) due() map[string]*shown {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, out := h.now(), map[string]*shown{}
	for name, s := range h.shown {
		if s.readers > 0 && !s.asking && !now.Before(s.due) {
			s.asking, s.asked, s.due = true, now, now.Add(h.pause(name, s))
			out[name] = s
		}
	}
	return out
}

// noteSilence tells pages that no SN answers, where a question about the swarm goes on for long.
func (h *hub) noteSilence() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for name, s := range h.shown {
		if s.asking && now.Sub(s.asked) >= maxSilence && h.lost[name] == nil && h.docs.Kind(name).Link {
			h.linked(name, exit.New(exit.TimedOut, "see whether the SNs run and can be reached; they are asked until one answers", "no SN has answered for %d s", maxSilence/time.Second))
		}
	}
}

// pause is the time until a document is asked for again without a reason; the caller holds mu.
func (h *hub) pause(name string, s *shown) time.Duration {
	switch kind := h.docs.Kind(withoutPoints(name)); {
	case kind.Seldom && s.doc.Error != "":
		return refused
	case kind.Seldom, kind.Agreed && h.follows:
		return seldom
	}
	return period
}

// follow has documents asked for when the swarm's state has changed, until ctx ends. Where no changes are told, as by an SN of an earlier
// version, all are asked for as often as what changes without them.
func (h *hub) follow(ctx context.Context) {
	for {
		_ = h.docs.Follow(ctx, h.changed) // why it can't is told by the documents, if it matters
		h.mu.Lock()
		h.follows = false
		h.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(followAgain):
		}
	}
}

// changed has what may have changed asked for soon. Nobody says what it was. So of changes that come close together those documents are
// asked for often that have changed with the ones before, and the others as often as without a change; the first one after a pause may be of
// any. What takes long, what is no part of the swarm's state, or what a node is asked for, has its own time.
func (h *hub) changed() {
	h.mu.Lock()
	now := h.now()
	alone := now.Sub(h.told) > period
	h.follows, h.told = true, now
	for name, s := range h.shown {
		if kind := h.docs.Kind(withoutPoints(name)); kind.Slow || kind.Apart || kind.Seldom {
			continue
		}
		if alone {
			s.after = soon
		}
		if next := s.asked.Add(s.after); next.Before(s.due) {
			s.due = next
		}
	}
	h.mu.Unlock()
	h.stir()
}

// refresh has all that is shown asked for now.
func (h *hub) refresh() {
	h.mu.Lock()
	for _, s := range h.shown {
		s.due = time.Time{}
	}
	h.mu.Unlock()
	h.stir()
}

func (h *hub) stir() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// question makes one document, with an error if the swarm could not be asked.
func (h *hub) question(ctx context.Context, name string) (doc Document, lost error) {
	doc = Document{Name: name, At: h.stamp()}
	if _, lost = h.docs.Link(); lost != nil {
		return doc.failed(lost), lost
	}
	slot, limit := h.slot, askTime
	switch kind := h.docs.Kind(withoutPoints(name)); {
	case kind.Slow:
		slot, limit = h.slow, slowTime
	case kind.Link:
		slot = h.vital
	}
	var err error
	select {
	case slot <- struct{}{}:
		asked, cancel := context.WithTimeout(ctx, limit)
		doc.Value, err = h.docs.Get(asked, name)
		cancel()
		<-slot
		if doc.Value != nil || ctx.Err() == nil { // else who asked has gone
			h.count(name, doc.Value != nil)
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	if exit.IsLost(err) {
		lost = err
	}
	if doc.Value == nil && err != nil {
		doc = doc.failed(err)
	}
	return doc, lost
}

// history makes the document of a history: of one that is known it asks for what is new.
func (h *hub) history(ctx context.Context, name string, s *shown) (doc Document, lost error) {
	has, version := h.known(s)
	if after := has.goesOn(h.now()); after > 0 {
		doc, lost = h.question(ctx, behind(name, after))
		doc.Name = name
		doc.past = has.with(readPast(doc.Value, version, h.now()), after)
		if doc.Value == nil || doc.past != nil {
			return doc, lost
		}
	}
	doc, lost = h.question(ctx, name)
	doc.past = readPast(doc.Value, version, h.now()).again(has)
	return doc, lost
}

// known is what pages know of a history, nil if none does, and the version of what is asked for next.
func (h *hub) known(s *shown) (has *past, version uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.version++
	return s.doc.past, h.version
}

func (d Document) failed(err error) Document {
	d.Error, d.Remedy, d.Gone = text.Line(err.Error()), text.Line(exit.Hint(err)), exit.Code(err) == exit.NotFound
	return d
}

// linked notes how the swarm was found by a document that says so; the caller holds mu. Others may fail while the swarm is well.
func (h *hub) linked(name string, problem error) {
	if h.lost[name] = problem; problem == nil {
		delete(h.lost, name)
	}
	h.relink()
}

// relink has the link be what is known of the swarm, and tells it if that is news; the caller holds mu.
func (h *hub) relink() {
	now := Link{State: "live", Since: h.link.Since}
	now.SN, _ = h.docs.Link()
	for _, name := range slices.Sorted(maps.Keys(h.lost)) {
		now.State, now.Problem, now.Remedy = "stale", text.Line(h.lost[name].Error()), text.Line(exit.Hint(h.lost[name]))
	}
	if now.State == "stale" && h.link.State == "stale" {
		now.SN = h.link.SN // which one is asked next, and in vain, is no news
	}
	if now == h.link {
		return
	}
	if now.State != h.link.State || now.SN != h.link.SN {
		now.Since = h.stamp()
	}
	h.link = now
	for r := range h.readers {
		r.moved = true
		r.stir()
	}
}

// renew asks for a document that is shown. While the swarm can't be asked what was known last stays, and for some time if only the document
// does not come. What was left and joined again meanwhile is asked for anew.
func (h *hub) renew(ctx context.Context, name string, s *shown) {
	var doc Document
	var lost error
	if isHistory(name) {
		doc, lost = h.history(ctx, name, s)
	} else {
		doc, lost = h.question(ctx, name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shown[name] != s {
		return
	}
	s.asking = false
	if ctx.Err() != nil {
		return
	}
	if h.docs.Kind(withoutPoints(name)).Link {
		h.linked(name, lost)
	}
	s.failed++
	if lost == nil || doc.Value != nil {
		s.failed = 0
	}
	stays := s.failed > 0 && (h.link.State == "stale" || s.failed < maxFailed)
	same := sameDocument(doc, s.doc)
	if s.after = min(2*s.after, period); !same {
		s.after = soon
	}
	if s.doc.Name != "" && (stays || same) {
		if doc.past != nil {
			s.doc.past = doc.past // which may be read anew
		}
		return
	}
	s.doc = doc
	for r := range h.readers {
		if slices.Contains(r.names, name) {
			r.fresh[name] = true
			r.stir()
		}
	}
}

func sameDocument(a, b Document) bool {
	if a.past != nil && b.past != nil {
		return a.past.same(b.past)
	}
	return bytes.Equal(a.Value, b.Value) && a.Error == b.Error && a.Remedy == b.Remedy
}

// join adds a page that shows these documents, until leave.
func (h *hub) join(names []string) (r *reader, leave func()) {
	r = &reader{names: names, fresh: map[string]bool{}, moved: true, notify: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readers[r] = true
	for _, name := range names {
		s := h.shown[name]
		if s == nil {
			s = &shown{after: soon}
			h.shown[name] = s
		}
		s.readers++
		r.fresh[name] = s.doc.Name != ""
	}
	r.stir()
	h.stir()
	return r, func() { h.leave(r) }
}

func (h *hub) leave(r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.readers, r)
	for _, name := range r.names {
		if s := h.shown[name]; s.readers > 1 {
			s.readers--
		} else {
			delete(h.shown, name)
			delete(h.lost, name)
		}
	}
	h.relink() // whoever said that the swarm can't be asked may be gone
}

// news returns what a page is to be told now.
func (h *hub) news(r *reader) (link *Link, docs []Document) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.moved {
		l := h.link
		link, r.moved = &l, false
	}
	for _, name := range r.names {
		if r.fresh[name] {
			r.fresh[name] = false
			docs = append(docs, h.shown[name].doc)
		}
	}
	return link, docs
}

func (r *reader) stir() {
	select {
	case r.notify <- struct{}{}:
	default:
	}
}
