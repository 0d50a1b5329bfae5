package exchange

import (
	"bytes"
	"testing"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// add keeps a frame with this payload.
func add(r *recent, leaf uint32, payload ...byte) {
	l, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{1}}})
	if err != nil {
		panic(err)
	}
	f := newFrame(l, wire.Header{Kind: wire.KindLeaf, Arg: leaf, Length: uint32(len(payload))})
	copy(f.payload(), payload)
	r.add(f)
}

func TestRecentKeepsTheLastLeaves(t *testing.T) {
	var r recent
	for leaf := range recentLeaves + 2 {
		add(&r, uint32(leaf), byte(leaf), 7)
	}
	if r.take(0) != nil || r.take(1) != nil {
		t.Error("the oldest leaves are still there")
	}
	f := r.take(2)
	if f == nil {
		t.Fatal("a leaf is gone too early")
	}
	want := append(wire.Header{Kind: wire.KindLeaf, Arg: 2, Length: 2}.Append(nil), 2, 7)
	add(&r, recentLeaves+2, 1) // drops leaf 2, which is in use
	r.close()
	if !bytes.Equal(*f.buf, want) {
		t.Errorf("the frame in use is %x, want %x", *f.buf, want)
	}
	r.drop(f)
	if f.buf != nil {
		t.Error("its buffer was not given back")
	}
	add(&r, 1, 1)
	if r.take(1) != nil || r.take(recentLeaves) != nil {
		t.Error("there are leaves after the end")
	}
}
