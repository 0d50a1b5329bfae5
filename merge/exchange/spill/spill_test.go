package spill

import (
	"bytes"
	"errors"
	"testing"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
	"github.com/swarmd/swarmd/merge/exchange/scratch"
)

// inRAM is a scratch file.
type inRAM []byte

func (m inRAM) ReadAt(p []byte, off int64) (int, error)  { return copy(p, m[off:]), nil }
func (m inRAM) WriteAt(p []byte, off int64) (int, error) { return copy(m[off:], p), nil }
func (m inRAM) Close() error                             { return nil }

// closing is a scratch file that knows whether it was closed.
type closing struct {
	inRAM
	closed *int
}

func (c closing) Close() error { *c.closed++; return nil }

func TestASpillKeepsEachContributorApart(t *testing.T) {
	l, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{5*merge.MaxLeafSize/4 + 3}}})
	if err != nil {
		t.Fatal(err)
	}
	l = l.WithLeafSize(merge.MaxLeafSize)
	s := New(l, leafset.Runs{{First: 2, Leaves: 4}}, 4, []int{0, 3})
	made, closed := 0, 0
	s.Use(func(n int64) (scratch.File, error) {
		made++
		return closing{make(inRAM, n), &closed}, nil
	})
	leafOf := func(i, leaf int) []byte { return bytes.Repeat([]byte{byte(10*i + leaf)}, l.LeafLen(leaf)) }
	if s.Has(0, 2) || !bytes.Equal(s.Union(0, leafset.NewBitmap(4)), leafset.NewBitmap(4)) {
		t.Error("there are leaves before any came")
	}
	for _, i := range []int{3, 0} {
		for _, leaf := range []int{5, 2, 3} {
			if err := s.Put(i, leaf, leafOf(i, leaf)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if size, err := s.Bytes(); err != nil || size != 2*(3*merge.MaxLeafSize+12) || made != 1 {
		t.Errorf("%d files of %d bytes, %v; want one of twice the shard", made, size, err)
	}
	for _, i := range []int{0, 3} {
		for leaf := 2; leaf < 6; leaf++ {
			if s.Has(i, leaf) != (leaf != 4) {
				t.Errorf("participant %d, leaf %d: kept: %v", i, leaf, s.Has(i, leaf))
			}
			b := make([]byte, l.LeafLen(leaf))
			err := s.Get(i, leaf, b)
			if leaf == 4 && err == nil || leaf != 4 && (err != nil || !bytes.Equal(b, leafOf(i, leaf))) {
				t.Errorf("participant %d, leaf %d: %v, or other bytes than were kept", i, leaf, err)
			}
		}
		if m := s.Union(i, leafset.Bitmap{4}); m[0] != 4|1|2|8 {
			t.Errorf("participant %d: held %b, want what was given and what is kept", i, m)
		}
	}
	if m := s.Union(2, leafset.NewBitmap(4)); m[0] != 0 {
		t.Errorf("one that contributes nothing: %b", m)
	}
	s.Release()
	s.Release()
	if closed != 1 || s.Has(0, 2) || !errors.Is(s.Put(0, 2, leafOf(0, 2)), ErrNoRoom) || made != 1 {
		t.Errorf("closed %d times, made %d times, want once each and nothing more", closed, made)
	}
}

func TestASpillThatCanNotBeMadeIsNotTriedAgain(t *testing.T) {
	l, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{5}}})
	if err != nil {
		t.Fatal(err)
	}
	s := New(l, leafset.Runs{{Leaves: l.Leaves()}}, 2, []int{1})
	tries, full := 0, errors.New("full")
	s.Use(func(int64) (scratch.File, error) { tries++; return nil, full })
	for range 3 {
		if err := s.Ensure(); !errors.Is(err, full) {
			t.Errorf("got %v, want that it is full", err)
		}
	}
	if tries != 1 {
		t.Errorf("it was tried %d times", tries)
	}
}
