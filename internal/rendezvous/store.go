package rendezvous

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Bounds of names, in bytes. A scope has the name of a host, and what Horovod adds to that.
const (
	maxScope = 512
	maxKey   = 64
)

// errOther says that a rank's key has another value.
var errOther = errors.New("it has another value, and ranks say once where they are")

// errFull says that a store takes no more.
var errFull = errors.New("the store has no room for it")

// Store keeps values that ranks tell each other, by scope and key, within bounds that follow from how many ranks there are. It is safe for
// concurrent use.
type Store struct {
	maxKeys, maxValue, maxBytes int

	mu     sync.Mutex
	scopes map[string]map[string][]byte
	keys   int // of all scopes
	bytes  int // of all values
}

// NewStore returns an empty store for so many ranks. In each scope a rank leaves its address for each other one, of some 140 bytes, and its host's name;
// there are a scope of all, one of each host, and one across hosts, and as many again for each set of ranks that a program makes.
func NewStore(ranks int) *Store {
	value := 4<<10 + 256*ranks
	return &Store{maxKeys: 256 + 64*ranks, maxValue: value, maxBytes: min(1<<20+4*ranks*value, 512<<20), scopes: map[string]map[string][]byte{}}
}

// Put sets the value of a key, which the store keeps. It refuses what is larger than ranks need, and another value for what a rank has said of itself.
func (s *Store) Put(scope, key string, value []byte) error {
	if len(scope) > maxScope || len(key) > maxKey || scope == "" || key == "" {
		return fmt.Errorf("names of scopes have 1 to %d bytes, and of keys 1 to %d", maxScope, maxKey)
	}
	if len(value) > s.maxValue {
		return fmt.Errorf("a value has %d bytes at most", s.maxValue)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, is := s.scopes[scope][key]
	if is && (isRank(key) || strings.HasPrefix(key, "rank_")) && !bytes.Equal(old, value) {
		return errOther
	}
	if !is && s.keys == s.maxKeys || s.bytes-len(old)+len(value) > s.maxBytes {
		return errFull
	}
	if !is {
		s.keys++
	}
	s.bytes += len(value) - len(old)
	if s.scopes[scope] == nil {
		s.scopes[scope] = map[string][]byte{}
	}
	s.scopes[scope][key] = value
	return nil
}

// Get returns the value of a key, which is not to be changed, and whether there is one.
func (s *Store) Get(scope, key string) (value []byte, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, is = s.scopes[scope][key]
	return value, is
}

// Delete removes what a rank has left under its own number, which no other rank needs any more: Horovod asks for that when all ranks of a scope are
// connected. With the last of these the scope goes.
func (s *Store) Delete(scope, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(scope, key)
	for k := range s.scopes[scope] {
		if isRank(k) {
			return
		}
	}
	for k := range s.scopes[scope] {
		s.drop(scope, k)
	}
	delete(s.scopes, scope)
}

func (s *Store) drop(scope, key string) {
	value, is := s.scopes[scope][key]
	if !is {
		return
	}
	s.keys--
	s.bytes -= len(value)
	delete(s.scopes[scope], key)
}

// isRank reports whether a key is a rank's number alone, which has its addresses.
func isRank(key string) bool { return strings.Trim(key, "0123456789") == "" }
