package leafio

import (
	"bytes"
	"testing"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// add keeps a frame with this payload.
func add(r *Cache, leaf uint32, payload ...byte) {
	l, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{1}}})
	if err != nil {
		panic(err)
	}
	f := NewFrame(l, wire.Header{Kind: wire.KindLeaf, Arg: leaf, Length: uint32(len(payload))})
	copy(f.Payload(), payload)
	r.Add(f)
}

func TestCacheKeepsTheLastLeaves(t *testing.T) {
	r := NewCache(0)
	for leaf := range CachedLeaves + 2 {
		add(r, uint32(leaf), byte(leaf), 7)
	}
	if r.Take(0) != nil || r.Take(1) != nil {
		t.Error("the oldest leaves are still there")
	}
	f := r.Take(2)
	if f == nil {
		t.Fatal("a leaf is gone too early")
	}
	want := append(wire.Header{Kind: wire.KindLeaf, Arg: 2, Length: 2}.Append(nil), 2, 7)
	add(r, CachedLeaves+2, 1) // drops leaf 2, which is in use
	r.Close()
	if !bytes.Equal(*f.buf, want) {
		t.Errorf("the frame in use is %x, want %x", *f.buf, want)
	}
	r.Drop(f)
	if f.buf != nil {
		t.Error("its buffer was not given back")
	}
	add(r, 1, 1)
	if r.Take(1) != nil || r.Take(CachedLeaves) != nil {
		t.Error("there are leaves after the end")
	}
}
