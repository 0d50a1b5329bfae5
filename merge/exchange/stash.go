package exchange

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/scratch"
)

// stash keeps leaves of the task as contributors sent them, in a scratch file that is made when the first one comes.
// It is encrypted. For each leaf of the shard the contributors' bytes lie one behind the other: nobody can fill more than its own places.
type stash struct {
	layout *merge.Layout
	shard  runs  // own leaves, and those of which this node is a witness
	place  []int // by participant: which of the others' contributions its is; -1: it has none here
	others int

	mu   sync.Mutex // guards all below
	open func(bytes int64) (Spool, error)
	file Spool
	err  error    // why there is none
	have []bitmap // by place, over the shard; nil before there is a file
}

// errNoStash is why a leaf can't be kept.
var errNoStash = errors.New("no scratch space is given")

func newStash(a *Attempt, task runs) *stash {
	s := &stash{layout: a.Layout, shard: task, place: make([]int, len(a.Participants))}
	for i, p := range a.Participants {
		s.place[i] = -1
		if p.Weight > 0 && i != a.Self {
			s.place[i] = s.others
			s.others++
		}
	}
	return s
}

// use sets how the file is made, from now on; nil: not.
func (s *stash) use(open func(bytes int64) (Spool, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = scratch.Encrypted(open)
}

// bytes returns the file's size, or an error if no file could be so large.
func (s *stash) bytes() (int64, error) {
	each := s.shard.bytes(s.layout)
	if each > 0 && int64(s.others) > math.MaxInt64/each {
		return 0, fmt.Errorf("%d contributions of %d bytes", s.others, each)
	}
	return int64(s.others) * each, nil
}

// ensure makes the file unless it is there. Once it could not be made it is not tried again.
func (s *stash) ensure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ensureLocked()
}

func (s *stash) ensureLocked() error {
	if s.file != nil || s.err != nil {
		return s.err
	}
	size, err := s.bytes()
	if err == nil && size == 0 {
		return nil
	}
	if err == nil && s.open == nil {
		return errNoStash
	}
	var f Spool
	if err == nil {
		f, err = s.open(size)
	}
	if err != nil {
		s.err = err
		return err
	}
	s.file, s.have = f, make([]bitmap, s.others)
	for k := range s.have {
		s.have[k] = newBitmap(s.shard.count())
	}
	return nil
}

// offset returns where participant i's leaf lies.
func (s *stash) offset(i, leaf int) int64 {
	before := s.shard.offset(s.layout, s.shard.index(leaf))
	return before*int64(s.others) + int64(s.place[i])*int64(s.layout.LeafLen(leaf))
}

// put keeps participant i's leaf. After an error nothing more is kept, but what was is there still.
func (s *stash) put(i, leaf int, b []byte) error {
	s.mu.Lock()
	err := s.ensureLocked()
	f := s.file
	s.mu.Unlock()
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, s.offset(i, leaf))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.err = err
		return err
	}
	s.have[s.place[i]].set(s.shard.index(leaf))
	return nil
}

// has reports whether participant i's leaf is kept.
func (s *stash) has(i, leaf int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.have != nil && s.have[s.place[i]].get(s.shard.index(leaf))
}

// get reads what put wrote; b has the leaf's length.
func (s *stash) get(i, leaf int, b []byte) error {
	s.mu.Lock()
	f := s.file
	s.mu.Unlock()
	if n, err := f.ReadAt(b, s.offset(i, leaf)); n < len(b) {
		return short(err)
	}
	return nil
}

// held adds the leaves of participant i that are kept to a bitmap of the shard.
func (s *stash) held(i int, m bitmap) bitmap {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.have == nil || s.place[i] < 0 {
		return m
	}
	for k, b := range s.have[s.place[i]] {
		m[k] |= b
	}
	return m
}

// release closes and thereby removes the file. Nothing is kept any more.
func (s *stash) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		_ = s.file.Close() // It is scratch, and nobody could do anything about an error.
	}
	s.file, s.have, s.err = nil, nil, errNoStash
}
