package rendezvous

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
)

// Bounds of names, in bytes. A scope has the name of a host, and what Horovod adds to that.
const (
	maxScope = 512
	maxKey   = 64
)

// errOther says that a rank's key has another value, errOfOther that a key is of whoever has put it there.
var (
	errOther   = errors.New("it has another value, and ranks say once where they are")
	errOfOther = errors.New("it was put there from another address")
)

// errFull says that a store takes no more.
var errFull = errors.New("the store has no room for it")

// Store keeps values that ranks tell each other, by scope and key, within bounds that follow from how many ranks there are. It is safe for
// concurrent use.
type Store struct {
	maxKeys, maxValue, maxBytes int

	mu     sync.Mutex
	scopes map[string]map[string]value
	keys   int // of all scopes
	bytes  int // of all values
}

// value is what a rank at an address has put there.
type value struct {
	bytes []byte
	by    netip.Addr
}

// NewStore returns an empty store for a number of ranks. In each scope a rank leaves its address for each other one, of some 140 bytes, and its host's name;
// there are a scope of all, one of each host, and one across hosts, and as many again for each set of ranks that a program makes.
func NewStore(ranks int) *Store {
	most := 4<<10 + 256*ranks
	return &Store{maxKeys: 256 + 64*ranks, maxValue: most, maxBytes: min(1<<20+4*ranks*most, 512<<20), scopes: map[string]map[string]value{}}
}

// Put sets the value of a key, which the store keeps, for a rank at an address. It refuses what is larger than ranks need, what is of a rank at another
// address, and another value for where a rank is.
func (s *Store) Put(scope, key string, by netip.Addr, data []byte) error {
	if len(scope) > maxScope || len(key) > maxKey || scope == "" || key == "" {
		return fmt.Errorf("names of scopes have 1 to %d bytes, and of keys 1 to %d", maxScope, maxKey)
	}
	if len(data) > s.maxValue {
		return fmt.Errorf("a value has %d bytes at most", s.maxValue)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, is := s.scopes[scope][key]
	switch {
	case is && old.by != by:
		return errOfOther
	case is && (isRank(key) || strings.HasPrefix(key, "rank_")) && !bytes.Equal(old.bytes, data):
		return errOther
	case !is && s.keys == s.maxKeys || s.bytes-len(old.bytes)+len(data) > s.maxBytes:
		return errFull
	}
	if !is {
		s.keys++
	}
	s.bytes += len(data) - len(old.bytes)
	if s.scopes[scope] == nil {
		s.scopes[scope] = map[string]value{}
	}
	s.scopes[scope][key] = value{data, by}
	return nil
}

// Get returns the value of a key, which is not to be changed, and whether there is one.
func (s *Store) Get(scope, key string) (data []byte, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, is := s.scopes[scope][key]
	return v.bytes, is
}

// Delete removes what a rank at an address has left under its own number, which no other rank needs any more: Horovod asks for that when all ranks of a
// scope are connected. With the last of these the scope goes. It refuses what is of a rank at another address.
func (s *Store) Delete(scope, key string, by netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, is := s.scopes[scope][key]
	if is && v.by != by {
		return errOfOther
	}
	s.drop(scope, key)
	if !is || !isRank(key) {
		return nil
	}
	for k := range s.scopes[scope] {
		if isRank(k) {
			return nil
		}
	}
	for k := range s.scopes[scope] {
		s.drop(scope, k)
	}
	delete(s.scopes, scope)
	return nil
}

func (s *Store) drop(scope, key string) {
	v, is := s.scopes[scope][key]
	if !is {
		return
	}
	s.keys--
	s.bytes -= len(v.bytes)
	delete(s.scopes[scope], key)
}

// isRank reports whether a key is a rank's number alone, which has its addresses.
func isRank(key string) bool { return strings.Trim(key, "0123456789") == "" }
