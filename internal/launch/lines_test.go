package launch

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzSplitLines holds that how the bytes arrive does not change the lines, and that lines are bounded.
func FuzzSplitLines(f *testing.F) {
	f.Add([]byte("a\nb\r\nc\rd\n\n\r\r\nend"))
	f.Add(bytes.Repeat([]byte("x"), maxLine+1))
	f.Fuzz(func(t *testing.T, b []byte) {
		var whole, single []string
		all := splitter{fn: func(l string) { whole = append(whole, l) }}
		all.write(b)
		all.flush()
		bytewise := splitter{fn: func(l string) { single = append(single, l) }}
		for i := range b {
			bytewise.write(b[i : i+1])
		}
		bytewise.flush()
		if diff := cmp.Diff(whole, single); diff != "" {
			t.Errorf("lines differ (-whole +byte by byte):\n%s", diff)
		}
		for _, l := range whole {
			if len(l) > 3*maxLine || strings.ContainsAny(l, "\r\n") {
				t.Errorf("bad line of %d bytes", len(l))
			}
		}
	})
}

func TestSplitLines(t *testing.T) {
	var got []string
	s := splitter{fn: func(l string) { got = append(got, l) }}
	s.write([]byte("a\nb\r\nc\rd\n\nend"))
	if diff := cmp.Diff(got, []string{"a", "b", "c", "d", ""}); diff != "" {
		t.Errorf("lines before the flush (-got +want):\n%s", diff)
	}
	s.flush()
	s.flush()
	if diff := cmp.Diff(got, []string{"a", "b", "c", "d", "", "end"}); diff != "" {
		t.Errorf("lines (-got +want):\n%s", diff)
	}
}
