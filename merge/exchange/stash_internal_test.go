package exchange

import (
	"bytes"
	"errors"
	"testing"

	"github.com/swarmd/swarmd/merge"
)

// closing is a scratch file that knows whether it was closed.
type closing struct {
	memory
	closed *int
}

func (c closing) Close() error { *c.closed++; return nil }

func TestAStashKeepsEachContributorApart(t *testing.T) {
	l, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{5*merge.MaxLeafSize/4 + 3}}})
	if err != nil {
		t.Fatal(err)
	}
	l = l.WithLeafSize(merge.MaxLeafSize)
	a := &Attempt{Layout: l, Self: 1, Participants: []Participant{
		{Node: "a", Weight: 1}, {Node: "b", Weight: 2, Shard: merge.Shard{First: 2, Leaves: 4}}, {Node: "c"}, {Node: "d", Weight: 3},
	}}
	s := newTestStash(a)
	made, closed := 0, 0
	s.use(func(n int64) (Spool, error) {
		made++
		return closing{make(memory, n), &closed}, nil
	})
	leafOf := func(i, leaf int) []byte { return bytes.Repeat([]byte{byte(10*i + leaf)}, l.LeafLen(leaf)) }
	if s.has(0, 2) || !bytes.Equal(s.held(0, newBitmap(4)), newBitmap(4)) {
		t.Error("there are leaves before any came")
	}
	for _, i := range []int{3, 0} {
		for _, leaf := range []int{5, 2, 3} {
			if err := s.put(i, leaf, leafOf(i, leaf)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if size, err := s.bytes(); err != nil || size != 2*(3*merge.MaxLeafSize+12) || made != 1 {
		t.Errorf("%d files of %d bytes, %v; want one of twice the shard", made, size, err)
	}
	for _, i := range []int{0, 3} {
		for leaf := 2; leaf < 6; leaf++ {
			if s.has(i, leaf) != (leaf != 4) {
				t.Errorf("participant %d, leaf %d: kept: %v", i, leaf, s.has(i, leaf))
			}
			b := make([]byte, l.LeafLen(leaf))
			err := s.get(i, leaf, b)
			if leaf == 4 && err == nil || leaf != 4 && (err != nil || !bytes.Equal(b, leafOf(i, leaf))) {
				t.Errorf("participant %d, leaf %d: %v, or other bytes than were kept", i, leaf, err)
			}
		}
		if m := s.held(i, bitmap{4}); m[0] != 4|1|2|8 {
			t.Errorf("participant %d: held %b, want what was given and what is kept", i, m)
		}
	}
	if m := s.held(2, newBitmap(4)); m[0] != 0 {
		t.Errorf("one that contributes nothing: %b", m)
	}
	s.release()
	s.release()
	if closed != 1 || s.has(0, 2) || !errors.Is(s.put(0, 2, leafOf(0, 2)), errNoStash) || made != 1 {
		t.Errorf("closed %d times, made %d times, want once each and nothing more", closed, made)
	}
}

func TestAStashThatCanNotBeMadeIsNotTriedAgain(t *testing.T) {
	s := newTestStash(crowd(t))
	tries, full := 0, errors.New("full")
	s.use(func(int64) (Spool, error) { tries++; return nil, full })
	for range 3 {
		if err := s.ensure(); !errors.Is(err, full) {
			t.Errorf("got %v, want that it is full", err)
		}
	}
	if tries != 1 {
		t.Errorf("it was tried %d times", tries)
	}
}

func newTestStash(a *Attempt) *stash { return newStash(a, a.Participants[a.Self].runs()) }
