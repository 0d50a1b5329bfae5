package delta

import (
	"bytes"
	"compress/flate"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

const (
	// keptUpdates bounds how many differences are kept for watchers that are behind.
	keptUpdates = 16
	// deflateFrom is the least view that is compressed, in bytes.
	deflateFrom = 8 << 10
)

// Feeds are the feeds of the contracts that are watched. The zero value has none. Its methods are safe for concurrent use.
type Feeds struct {
	mu    sync.Mutex
	feeds map[string]*joined
}

type joined struct {
	feed     Feed
	watchers int
}

// Join returns the feed that all watchers of a contract share. The caller calls leave when it no longer watches.
func (f *Feeds) Join(contract string) (feed *Feed, leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j := f.feeds[contract]
	if j == nil {
		if f.feeds == nil {
			f.feeds = map[string]*joined{}
		}
		j = &joined{}
		f.feeds[contract] = j
	}
	j.watchers++
	return &j.feed, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if j.watchers--; j.watchers == 0 {
			delete(f.feeds, contract)
		}
	}
}

// Feed makes what watchers of one contract are sent: once for each change, whatever their number. The zero value is ready.
// Its methods are safe for concurrent use.
type Feed struct {
	mu      sync.Mutex
	now     *Snapshot
	of      any // what now was made from
	index   uint64
	updates [][]byte // those that led to now, the last one to its revision
}

// Take returns the view as of an index, or a later one if another watcher has brought that. The view is made by build, which
// is called only if state, of which views are made, is not the one of the last call; it is not modified once it was returned.
func (f *Feed) Take(state any, index uint64, build func() *swarmv1.ContractView) (*Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now != nil && (f.of == state || index < f.index) {
		return f.at(f.index), nil
	}
	v := build()
	var before *view
	if f.now != nil {
		before = f.now.parts
	}
	parts, err := split(v, before)
	if err != nil {
		return nil, err
	}
	if before == nil || !parts.equal(before) {
		if err := f.advance(parts, v); err != nil {
			return nil, err
		}
	}
	f.of, f.index = state, index
	return f.at(index), nil
}

// advance makes a view the newest one. The caller holds mu.
func (f *Feed) advance(parts *view, v *swarmv1.ContractView) error {
	next := &Snapshot{made: &made{plain: v, parts: parts, revision: 1}}
	if f.now != nil {
		next.revision = f.now.revision + 1
		diff, err := parts.update(f.now.parts, f.now.revision, next.revision)
		if err != nil {
			return err
		}
		f.updates = append(f.updates[max(0, len(f.updates)+1-keptUpdates):len(f.updates):len(f.updates)], diff)
	}
	next.updates = f.updates
	f.now = next
	return nil
}

// at is the newest view with the index up to which it holds. The caller holds mu.
func (f *Feed) at(index uint64) *Snapshot { return &Snapshot{made: f.now.made, index: index} }

// Snapshot is a contract's view at one index.
type Snapshot struct {
	*made
	index uint64
}

// made is what was made of one view for all watchers.
type made struct {
	plain    *swarmv1.ContractView
	parts    *view
	revision uint64
	updates  [][]byte

	once     sync.Once
	whole    []byte
	inflated uint32
	err      error
}

// Revision counts the feed's views. It is never 0.
func (s *Snapshot) Revision() uint64 { return s.revision }

// Plain returns the view as it is. The caller owns it.
func (s *Snapshot) Plain() *swarmv1.ContractView {
	out := proto.CloneOf(s.plain)
	out.Index = s.index
	return out
}

// Packed returns what brings a watcher from the view of a revision to this one, 0 if it has none. What it returns shares
// memory with what others get: it must not be modified.
func (s *Snapshot) Packed(have uint64) (*swarmv1.ContractView, error) {
	p := &swarmv1.PackedView{Revision: s.revision}
	out := &swarmv1.ContractView{Index: s.index, Packed: p}
	if behind := s.revision - have; have != 0 && behind <= uint64(len(s.updates)) {
		p.Updates = s.updates[uint64(len(s.updates))-behind:]
		if size(p.Updates) <= s.parts.size() {
			return out, nil
		}
	}
	s.once.Do(s.makeWhole)
	p.Updates, p.Inflated = [][]byte{s.whole}, s.inflated
	return out, s.err
}

func size(list [][]byte) (n int) {
	for _, b := range list {
		n += len(b)
	}
	return n
}

// size is about how long the encoding of the whole view is, in bytes.
func (v *view) size() int {
	n := len(v.head)
	for _, list := range [][]element{v.sessions, v.planned, v.committed} {
		for _, e := range list {
			n += len(e.body)
		}
	}
	return n
}

func (m *made) makeWhole() {
	plain, err := m.parts.update(nil, 0, m.revision)
	if err != nil || len(plain) < deflateFrom {
		m.whole, m.err = plain, err
		return
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err == nil {
		_, err = w.Write(plain)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		m.err = fmt.Errorf("compress view: %w", err)
		return
	}
	m.whole, m.inflated = packed.Bytes(), uint32(len(plain)) //nolint:gosec // a view is no longer than the state
}
