// Package spill keeps on disk, encrypted, what contributors have sent and an owner has not merged yet.
package spill

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
	"github.com/swarmd/swarmd/merge/exchange/scratch"
)

// File keeps leaves of the task as contributors sent them, in a scratch file that is made when the first one comes.
// It is encrypted. For each leaf of the shard the contributors' bytes lie one behind the other: nobody can fill more than its own places.
type File struct {
	layout *merge.Layout
	shard  leafset.Runs // own leaves, and those of which this node is a witness
	place  []int        // by participant: which of the others' contributions its is; -1: it has none here
	others int

	mu   sync.Mutex // guards all below
	open func(bytes int64) (scratch.File, error)
	file scratch.File
	err  error            // why there is none
	have []leafset.Bitmap // by place, over the shard; nil before there is a file
}

// ErrNoRoom is returned where no file is given: it is why a leaf can't be kept.
var ErrNoRoom = errors.New("no scratch space is given")

// New returns one for leaves of a task of this layout that come from these of n participants.
func New(l *merge.Layout, task leafset.Runs, n int, from []int) *File {
	s := &File{layout: l, shard: task, place: slices.Repeat([]int{-1}, n), others: len(from)}
	for k, i := range from {
		s.place[i] = k
	}
	return s
}

// Use sets how the file is made, from now on; nil: not.
func (s *File) Use(open func(bytes int64) (scratch.File, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = scratch.Encrypted(open)
}

// Bytes returns the file's size, or an error if no file could be so large.
func (s *File) Bytes() (int64, error) {
	each := s.shard.Bytes(s.layout)
	if each > 0 && int64(s.others) > math.MaxInt64/each {
		return 0, fmt.Errorf("%d contributions of %d bytes", s.others, each)
	}
	return int64(s.others) * each, nil
}

// Ensure makes the file unless it is there. Once it could not be made it is not tried again.
func (s *File) Ensure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ensureLocked()
}

func (s *File) ensureLocked() error {
	if s.file != nil || s.err != nil {
		return s.err
	}
	size, err := s.Bytes()
	if err == nil && size == 0 {
		return nil
	}
	if err == nil && s.open == nil {
		return ErrNoRoom
	}
	var f scratch.File
	if err == nil {
		f, err = s.open(size)
	}
	if err != nil {
		s.err = err
		return err
	}
	s.file, s.have = f, make([]leafset.Bitmap, s.others)
	for k := range s.have {
		s.have[k] = leafset.NewBitmap(s.shard.Count())
	}
	return nil
}

// offset returns where participant i's leaf lies.
func (s *File) offset(i, leaf int) int64 {
	before := s.shard.Offset(s.layout, s.shard.Index(leaf))
	return before*int64(s.others) + int64(s.place[i])*int64(s.layout.LeafLen(leaf))
}

// Put keeps participant i's leaf. After an error nothing more is kept, but what was is there still.
func (s *File) Put(i, leaf int, b []byte) error {
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
	s.have[s.place[i]].Set(s.shard.Index(leaf))
	return nil
}

// Has reports whether participant i's leaf is kept.
func (s *File) Has(i, leaf int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.have != nil && s.have[s.place[i]].Get(s.shard.Index(leaf))
}

// Get reads what put wrote; b has the leaf's length.
func (s *File) Get(i, leaf int, b []byte) error {
	s.mu.Lock()
	f := s.file
	s.mu.Unlock()
	n, err := f.ReadAt(b, s.offset(i, leaf))
	switch {
	case n == len(b):
		return nil
	case err == nil, errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// Union adds the leaves of participant i that are kept to a bitmap of the shard.
func (s *File) Union(i int, m leafset.Bitmap) leafset.Bitmap {
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

// Release closes and thereby removes the file. Nothing is kept any more.
func (s *File) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		_ = s.file.Close() // It is scratch, and nobody could do anything about an error.
	}
	s.file, s.have, s.err = nil, nil, ErrNoRoom
}
