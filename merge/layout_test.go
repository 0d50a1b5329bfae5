package merge_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/mergetest"
)

func TestCanonicalLayout(t *testing.T) {
	l := layoutOf(t,
		merge.Tensor{Name: "fc.weight", DType: merge.Float32, Shape: []int64{10, 64}},
		merge.Tensor{Name: "flag\"s\\", DType: merge.Bool, Shape: []int64{3}},
		merge.Tensor{Name: "none", DType: merge.Int8, Shape: []int64{0, 5}},
		merge.Tensor{Name: "steps", DType: merge.Int64})
	want := `{"version":1,"tensors":[{"name":"fc.weight","dtype":"float32","shape":[10,64]},` +
		`{"name":"flag\"s\\","dtype":"bool","shape":[3]},{"name":"none","dtype":"int8","shape":[0,5]},` +
		`{"name":"steps","dtype":"int64","shape":[]}]}`
	if got := string(l.Canonical()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if d := cmp.Diff(l.Offsets(), []int64{0, 2560, 2563, 2568}); d != "" {
		t.Errorf("offsets: got, want:\n%s", d)
	}
	if l.Bytes() != 2576 || l.Digest() != merge.Sum([]byte(want)) {
		t.Errorf("got %d bytes, digest %s", l.Bytes(), l.Digest())
	}
	back, err := merge.ParseLayout([]byte(want))
	if err != nil || back.Digest() != l.Digest() {
		t.Errorf("parse: got %v", err)
	}
}

func TestLayoutsThatAreRefused(t *testing.T) {
	one := func(name, dtype, shape string) string {
		return fmt.Sprintf(`{"version":1,"tensors":[{"name":%q,"dtype":%q,"shape":%s}]}`, name, dtype, shape)
	}
	tests := []struct{ name, in, want string }{
		{"complex", one("fft", "complex64", "[1]"), `"fft"`},
		{"fp8", one("q.weight", "float8_e4m3fn", "[1]"), `"q.weight"`},
		{"negative", one("a", "bool", "[-1]"), "out of range"},
		{"overflow", one("a", "bool", "[1099511627776,1099511627776]"), "elements"},
		{"overflow beside zero", one("a", "bool", "[1099511627776,0,1099511627776]"), "elements"},
		{"space", one("a", "bool", "[1, 2]"), "canonical"},
		{"null shape", one("a", "bool", "null"), "canonical"},
		{"version", `{"version":2,"tensors":[]}`, "version 2"},
		{"empty", `{"version":1,"tensors":[]}`, "0 tensors"},
		{"no name", one("", "bool", "[]"), "name has 0 bytes"},
		{"long name", one(strings.Repeat("x", 513), "bool", "[]"), "name has 513 bytes"},
		{"control", one("a\nb", "bool", "[]"), "control character"},
		{"twice", `{"version":1,"tensors":[{"name":"a","dtype":"bool","shape":[]},{"name":"a","dtype":"bool","shape":[]}]}`, "both named"},
		{"extra key", `{"version":1,"x":0,"tensors":[{"name":"a","dtype":"bool","shape":[]}]}`, "canonical"},
		{"large", strings.Repeat(" ", merge.MaxLayoutBytes+1), "bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := merge.ParseLayout([]byte(tt.in))
			if !errors.Is(err, merge.ErrLayout) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want ErrLayout with %q", err, tt.want)
			}
		})
	}
}

func TestDiff(t *testing.T) {
	a := layoutOf(t, merge.Tensor{Name: "x", DType: merge.Bool}, merge.Tensor{Name: "fc.weight", DType: merge.Float32, Shape: []int64{10, 64}})
	b := layoutOf(t, merge.Tensor{Name: "x", DType: merge.Bool}, merge.Tensor{Name: "fc.weight", DType: merge.Float32, Shape: []int64{10, 32}})
	c := layoutOf(t, merge.Tensor{Name: "x", DType: merge.Bool})
	for _, tt := range []struct {
		here, there *merge.Layout
		want        string
	}{
		{a, a, ""},
		{a, b, `tensor 1 "fc.weight" is float32[10,64] here and float32[10,32] in the contract`},
		{a, c, `there are 2 tensors here and 1 in the contract: the first extra one is "fc.weight"`},
		{c, a, `there are 1 tensors here and 2 in the contract: the first missing one is "fc.weight"`},
	} {
		if got := merge.Diff(tt.here, tt.there); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestShards(t *testing.T) {
	got, err := mergetest.EqualShards(8, []bool{true, false, true, true})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(got, []merge.Shard{{0, 3}, {3, 0}, {3, 3}, {6, 2}}); d != "" {
		t.Errorf("got, want:\n%s", d)
	}
	if _, err := mergetest.EqualShards(8, []bool{false}); !errors.Is(err, merge.ErrShards) {
		t.Errorf("no owner: got %v, want ErrShards", err)
	}
	for name, tt := range map[string]struct {
		shards []merge.Shard
		ok     bool
	}{
		"in order":     {[]merge.Shard{{0, 5}, {5, 3}}, true},
		"out of order": {[]merge.Shard{{5, 3}, {2, 0}, {0, 5}}, true},
		"gap":          {[]merge.Shard{{0, 4}, {5, 3}}, false},
		"overlap":      {[]merge.Shard{{0, 6}, {5, 3}}, false},
		"short":        {[]merge.Shard{{0, 7}}, false},
		"beyond":       {[]merge.Shard{{0, 9}}, false},
		"negative":     {[]merge.Shard{{-1, 9}}, false},
		"huge":         {[]merge.Shard{{8, int(^uint(0) >> 1)}, {0, 8}}, false},
	} {
		if err := merge.CheckShards(8, tt.shards); (err == nil) != tt.ok {
			t.Errorf("%s: got %v, want ok %v", name, err, tt.ok)
		}
	}
}

func FuzzParseLayout(f *testing.F) {
	f.Add([]byte(`{"version":1,"tensors":[{"name":"a","dtype":"float32","shape":[10,64]},{"name":"é","dtype":"bool","shape":[]}]}`))
	f.Add([]byte(`{"version":1,"tensors":[{"name":"a","dtype":"int8","shape":[262145]},{"name":"b","dtype":"float64","shape":[0]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := merge.ParseLayout(b)
		if err != nil {
			return
		}
		if !bytes.Equal(l.Canonical(), b) {
			t.Fatal("a layout that is not canonical was accepted")
		}
		for i := range l.Len() {
			if l.Offset(i)%int64(l.Tensor(i).DType.Size()) != 0 {
				t.Fatalf("tensor %d is not aligned", i)
			}
		}
		for _, leaf := range slices.Compact([]int{0, l.Leaves() - 1}) {
			if leaf < 0 || leaf >= l.Leaves() {
				continue
			}
			at := 0
			for _, s := range l.AppendSegments(nil, leaf) {
				if s.Start < at || s.End <= s.Start || s.End > l.LeafLen(leaf) || (s.End-s.Start)%s.DType.Size() != 0 {
					t.Fatalf("leaf %d has segment %+v", leaf, s)
				}
				at = s.End
			}
		}
	})
}

func TestLeavesFollowTheModelsSize(t *testing.T) {
	for _, tt := range []struct {
		bytes        int64
		size, leaves int
	}{
		{1, 1 << 10, 1},
		{1 << 10, 1 << 10, 1},
		{64 << 10, 1 << 10, 64},
		{256 << 10, 1 << 10, 256},
		{256<<10 + 1, 2 << 10, 129},
		{4 << 20, 16 << 10, 256},
		{64 << 20, 256 << 10, 256},
		{100 << 20, 256 << 10, 400},
	} {
		l := layoutOf(t, merge.Tensor{Name: "w", DType: merge.Uint8, Shape: []int64{tt.bytes}})
		if l.LeafSize() != tt.size || l.Leaves() != tt.leaves {
			t.Errorf("%d bytes: %d leaves of %d, want %d of %d", tt.bytes, l.Leaves(), l.LeafSize(), tt.leaves, tt.size)
		}
	}
}
