package pickle_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/bridge/original/array"
	"github.com/swarmd/swarmd/internal/bridge/original/pickle"
	"github.com/swarmd/swarmd/merge"
)

// little is numbers as numpy has them in memory.
func little(t *testing.T, numbers any) []byte {
	t.Helper()
	b, err := binary.Append(nil, binary.LittleEndian, numbers)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func rising[T float32 | float64](n int) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = T(i)
	}
	return list
}

// values reads all arrays of a pickle.
func values(t *testing.T, content []byte) ([]array.Value, string) {
	t.Helper()
	w, err := pickle.Read(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	var list []array.Value
	for _, a := range w.Arrays {
		v := array.Value{Name: a.Name, DType: a.DType, Shape: a.Shape, Data: make([]byte, a.Bytes())}
		if err := a.ReadInto(v.Data); err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	return list, w.Module
}

func golden(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestReadsWhatNumpyWrites holds the pickles of testdata/make.py, of each protocol and of both generations of numpy, to what it put there.
func TestReadsWhatNumpyWrites(t *testing.T) {
	c := little(t, rising[float32](12))
	want := []array.Value{
		{Name: "c", DType: merge.Float32, Shape: []int64{3, 4}, Data: c},
		{Name: "fortran", DType: merge.Float64, Shape: []int64{2, 3, 4}, Data: little(t, rising[float64](24))},
		{Name: "view", DType: merge.Float32, Shape: []int64{3, 2}, Data: little(t, []float32{0, 2, 4, 6, 8, 10})},
		{Name: "scalar", DType: merge.Int64, Data: little(t, int64(7))},
		{Name: "half", DType: merge.Float16, Shape: []int64{2}, Data: little(t, []uint16{0x3e00, 0xc000})},
		{Name: "bool", DType: merge.Bool, Shape: []int64{3}, Data: []byte{1, 0, 1}},
		{Name: "bytes", DType: merge.Uint8, Shape: []int64{4}, Data: []byte{0, 127, 128, 255}},
		{Name: "signed", DType: merge.Int8, Shape: []int64{2}, Data: []byte{0xff, 0x80}},
		{Name: "empty", DType: merge.Float32, Shape: []int64{0, 3}, Data: []byte{}},
		{Name: "long", DType: merge.Int64, Shape: []int64{2}, Data: little(t, []int64{math.MaxInt64, math.MinInt64})},
		{Name: "tied", DType: merge.Float32, Shape: []int64{3, 4}, Data: c},
		{Name: "ünï", DType: merge.Float32, Shape: []int64{1}, Data: little(t, []float32{1})},
	}
	for _, name := range []string{"p2.pkl", "p3.pkl", "p4.pkl", "p5.pkl"} {
		content := golden(t, name)
		got, module := values(t, content)
		if diff := cmp.Diff(got, want); diff != "" || module != "numpy.core.numeric" {
			t.Errorf("%s: module %s (-got +want):\n%s", name, module, diff)
		}
		// numpy 2 has the same functions in other modules.
		newer := content
		for _, m := range []string{"numeric", "multiarray"} {
			short, long := "numpy.core."+m, "numpy._core."+m
			newer = bytes.ReplaceAll(newer, []byte("c"+short+"\n"), []byte("c"+long+"\n"))
			newer = bytes.ReplaceAll(newer, append([]byte{0x8c, byte(len(short))}, short...), append([]byte{0x8c, byte(len(long))}, long...))
		}
		got, module = values(t, newer)
		if diff := cmp.Diff(got, want); diff != "" || module != "numpy._core.numeric" {
			t.Errorf("%s of numpy 2: module %s (-got +want):\n%s", name, module, diff)
		}
	}
	// numpy 2.4 itself made this one.
	newest, module := values(t, golden(t, "numpy2.pkl"))
	want = []array.Value{
		{Name: "w", DType: merge.Float32, Shape: []int64{2, 3}, Data: little(t, rising[float32](6))},
		{Name: "F", DType: merge.Float64, Shape: []int64{2, 3}, Data: little(t, rising[float64](6))},
		{Name: "v", DType: merge.Int64, Shape: []int64{5}, Data: little(t, []int64{0, 2, 4, 6, 8})},
		{Name: "n", DType: merge.Int64, Data: little(t, int64(3))},
	}
	if diff := cmp.Diff(newest, want); diff != "" || module != "numpy._core.numeric" {
		t.Errorf("numpy 2: module %s (-got +want):\n%s", module, diff)
	}
	if got, _ := values(t, golden(t, "readonly.pkl")); len(got) != 1 || !bytes.Equal(got[0].Data, little(t, rising[float32](300))) {
		t.Errorf("an array that can not be written: %v", got)
	}
}

// TestReadsWhatItWrites: numbers of every type and shape, and what the other end may then do with them.
func TestReadsWhatItWrites(t *testing.T) {
	want, _ := values(t, golden(t, "p5.pkl"))
	var out bytes.Buffer
	if err := pickle.Write(&out, "numpy._core.numeric", want); err != nil {
		t.Fatal(err)
	}
	got, module := values(t, out.Bytes())
	if diff := cmp.Diff(got, want); diff != "" || module != "numpy._core.numeric" {
		t.Errorf("module %s (-got +want):\n%s", module, diff)
	}
	if err := pickle.Write(io.Discard, module, []array.Value{{Name: "b", DType: merge.BFloat16}}); err == nil || !strings.Contains(err.Error(), "bfloat16") {
		t.Errorf("a type that numpy has not: %v", err)
	}
}

// TestRefuses what is no dict of arrays. Each error says so in one line.
func TestRefuses(t *testing.T) {
	good := string(golden(t, "p5.pkl"))
	for name, tt := range map[string]struct{ content, want string }{
		"a call":              {"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R.", "names posix.system"},
		"a call, protocol 2":  {"\x80\x02cos\nsystem\n(X\x02\x00\x00\x00idtR.", "names os.system"},
		"a nasty name":        {"c\x1b[2J\nx\n.", "names ?[2J.x"},
		"numpy's evaluator":   {"\x80\x04\x8c\x05numpy\x8c\x04load\x93.", "names numpy.load"},
		"a class of builtins": {"\x80\x02c__builtin__\neval\n.", "names __builtin__.eval"},
		"a dict of text":      {"\x80\x04}\x8c\x01a\x8c\x01bs.", "\"a\" is not a numpy array"},
		"a list":              {"\x80\x04].", "instruction 0x5d"},
		"a number":            {"K\x01.", "no pickle of a dict"},
		"two dicts":           {"}}.", "no pickle of a dict"},
		"cut off":             {good[:len(good)/2], "cut off"},
		"nothing":             {"", "cut off"},
		"announced, not come": {"\x96\xff\xff\xff\xff\xff\xff\xff\xff", "cut off"},
		"another protocol":    {"\x80\x06}.", "protocol 6"},
		"a big-endian array":  {strings.Replace(good, "\x8c\x01<", "\x8c\x01>", 1), "not little-endian"},
		"complex numbers":     {strings.Replace(good, "\x8c\x02f4", "\x8c\x02c8", 1), "type c8"},
		"a shape too large":   {strings.Replace(good, "K\x03K\x04\x86", "K\x03K\x05\x86", 1), "bytes of its shape"},
		"the same name twice": {strings.Replace(good, "\x8c\x04tied", "\x8c\x04view", 1), "\"view\" is there twice"},
		"a deep stack":        {strings.Repeat("N", 1<<17), "nests too deeply"},
		"no name":             {strings.Replace(good, "\x8c\x04view", "\x8c\x00", 1), ""},
	} {
		_, err := pickle.Read(strings.NewReader(tt.content), int64(len(tt.content)))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%s: %v, want one line with %q", name, err, tt.want)
		}
	}
}

// FuzzRead holds that any file is read within the bounds or refused in one line, and that what is read can be written and read again.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"p2.pkl", "p3.pkl", "p4.pkl", "p5.pkl", "readonly.pkl"} {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		w, err := pickle.Read(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("not one line: %q", err)
			}
			return
		}
		total := int64(0)
		for _, a := range w.Arrays {
			total += a.Bytes()
		}
		if total > 1<<20 {
			return // one buffer under many names
		}
		list, module := values(t, content)
		var out bytes.Buffer
		if err := pickle.Write(&out, module, list); err != nil {
			t.Fatal(err)
		}
		if again, _ := values(t, out.Bytes()); !cmp.Equal(again, list) {
			t.Errorf("read %v, wrote, read %v", list, again)
		}
	})
}
