package rendezvous_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/swarmd/swarmd/internal/rendezvous"
)

// TestScopesEnd: what ranks have left goes with the last of them that is connected, and they can meet there again.
func TestScopesEnd(t *testing.T) {
	s := rendezvous.NewStore(2)
	for range 1000 { // more than there is room for
		for _, key := range []string{"0", "rank_0", "1", "rank_1"} {
			if err := s.Put("global", key, []byte(key)); err != nil {
				t.Fatal(err)
			}
		}
		if v, is := s.Get("global", "rank_1"); !is || string(v) != "rank_1" {
			t.Fatal(v, is)
		}
		s.Delete("global", "0")
		if _, is := s.Get("global", "0"); is {
			t.Fatal("it is still there")
		}
		if _, is := s.Get("global", "rank_0"); !is {
			t.Fatal("the scope is gone, and rank 1 was not done with it")
		}
		s.Delete("global", "1")
		s.Delete("global", "1") // again, as its answer was lost
		if _, is := s.Get("global", "rank_0"); is {
			t.Fatal("the scope is still there")
		}
	}
}

// TestStoreIsBounded: by how many ranks there are, in keys, in each value and in all.
func TestStoreIsBounded(t *testing.T) {
	s := rendezvous.NewStore(2)
	large := bytes.Repeat([]byte("x"), 4<<10)
	for _, tt := range []struct {
		scope, key string
		value      []byte
	}{
		{"", "0", nil},
		{"global", "", nil},
		{string(bytes.Repeat([]byte("s"), 513)), "0", nil},
		{"global", string(bytes.Repeat([]byte("k"), 65)), nil},
		{"global", "0", bytes.Repeat([]byte("x"), 4<<10+2*256+1)},
	} {
		if err := s.Put(tt.scope, tt.key, tt.value); err == nil {
			t.Errorf("it takes %.20s/%.20s with %d bytes", tt.scope, tt.key, len(tt.value))
		}
	}
	keys := 0
	for ; s.Put("global", fmt.Sprint(keys), large) == nil; keys++ {
		if keys > 1000 {
			t.Fatal("it takes any number of keys")
		}
	}
	if keys < 200 {
		t.Errorf("it takes %d values alone", keys)
	}
	if err := s.Put("global", "0", large); err != nil { // again, as its answer was lost
		t.Error(err)
	}
	if err := s.Put("global", "0", []byte("y")); err == nil {
		t.Error("a rank's address is replaced")
	}
	full := rendezvous.NewStore(1024)
	n := 0
	for value := make([]byte, 256<<10); full.Put("global", fmt.Sprint(n), value) == nil; n++ {
	}
	if n != 2048 { // 512 MiB, which is all that a thousand ranks need
		t.Errorf("it takes %d values", n)
	}
}
