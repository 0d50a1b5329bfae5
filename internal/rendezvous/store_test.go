package rendezvous_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"github.com/swarmd/swarmd/internal/rendezvous"
)

// first and second are addresses of ranks.
var first, second = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")

// TestScopesEnd: what ranks have left goes with the last of them that is connected, and they can meet there again.
func TestScopesEnd(t *testing.T) {
	s := rendezvous.NewStore(2)
	for range 1000 { // more than there is room for
		for _, key := range []string{"0", "rank_0", "1", "rank_1"} {
			if err := s.Put("global", key, first, []byte(key)); err != nil {
				t.Fatal(err)
			}
		}
		if v, is := s.Get("global", "rank_1"); !is || string(v) != "rank_1" {
			t.Fatal(v, is)
		}
		if err := s.Delete("global", "0", first); err != nil {
			t.Fatal(err)
		}
		if _, is := s.Get("global", "0"); is {
			t.Fatal("it is still there")
		}
		if _, is := s.Get("global", "rank_0"); !is {
			t.Fatal("the scope is gone, and rank 1 was not done with it")
		}
		if err := s.Delete("global", "1", first); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete("global", "1", first); err != nil { // again, as its answer was lost
			t.Fatal(err)
		}
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
		if err := s.Put(tt.scope, tt.key, first, tt.value); err == nil {
			t.Errorf("it takes %.20s/%.20s with %d bytes", tt.scope, tt.key, len(tt.value))
		}
	}
	keys := 0
	for ; s.Put("global", fmt.Sprint(keys), first, large) == nil; keys++ {
		if keys > 1000 {
			t.Fatal("it takes any number of keys")
		}
	}
	if keys < 200 {
		t.Errorf("it takes %d values alone", keys)
	}
	if err := s.Put("global", "0", first, large); err != nil { // again, as its answer was lost
		t.Error(err)
	}
	if err := s.Put("global", "0", first, []byte("y")); err == nil {
		t.Error("a rank's address is replaced")
	}
	full := rendezvous.NewStore(1024)
	n := 0
	for value := make([]byte, 256<<10); full.Put("global", fmt.Sprint(n), first, value) == nil; n++ {
	}
	if n != 2048 { // 512 MiB, which is all that a thousand ranks need
		t.Errorf("it takes %d values", n)
	}
}

// TestAKeyHasOneOwner: in a scope of a set of ranks, whose keys say nothing of who they are, a host that speaks first has a key, and keeps it.
func TestAKeyHasOneOwner(t *testing.T) {
	s := rendezvous.NewStore(2)
	const scope, refused = "global_process_set_hash_1", "it was put there from another address"
	for _, key := range []string{"1", "rank_1", "other"} {
		if err := s.Put(scope, key, first, []byte("mine")); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{
			"the same value": s.Put(scope, key, second, []byte("mine")), "another": s.Put(scope, key, second, []byte("theirs")), "none": s.Delete(scope, key, second),
		} {
			if fmt.Sprint(err) != refused {
				t.Errorf("%s of %s: %v, want %s", what, key, err, refused)
			}
		}
		if v, _ := s.Get(scope, key); string(v) != "mine" {
			t.Errorf("%s has %q", key, v)
		}
	}
	if err := s.Delete(scope, "1", first); err != nil {
		t.Error(err)
	}
	if err := s.Put(scope, "1", second, []byte("theirs")); err != nil { // the scope was over
		t.Error(err)
	}
}
