package exchange

import (
	"bytes"
	"testing"
)

func TestRecentKeepsTheLastLeaves(t *testing.T) {
	var r recent
	for leaf := range recentLeaves + 2 {
		r.add(header{kindLeaf, uint32(leaf), 2}, []byte{byte(leaf), 7})
	}
	if r.take(0) != nil || r.take(1) != nil {
		t.Error("the oldest leaves are still there")
	}
	f := r.take(2)
	if f == nil {
		t.Fatal("a leaf is gone too early")
	}
	want := append(header{kindLeaf, 2, 2}.append(nil), 2, 7)
	r.add(header{kindLeaf, recentLeaves + 2, 1}, []byte{1}) // drops leaf 2, which is in use
	r.close()
	if !bytes.Equal(*f.buf, want) {
		t.Errorf("the frame in use is %x, want %x", *f.buf, want)
	}
	r.drop(f)
	if f.buf != nil {
		t.Error("its buffer was not given back")
	}
	r.add(header{kindLeaf, 1, 1}, []byte{1})
	if r.take(1) != nil || r.take(recentLeaves) != nil {
		t.Error("there are leaves after the end")
	}
}
