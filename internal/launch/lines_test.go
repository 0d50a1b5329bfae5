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
	for _, tt := range []struct {
		printed    string
		ended      []string // before the stream's end
		unfinished []string // with it
	}{
		{"a\nb\r\n\nend", []string{"a", "b", ""}, []string{"end"}},
		{"  0%|    |\r 50%|##  |\r100%|####|\nnext", []string{"100%|####|"}, []string{"next"}},
		{"  0%|    |\r 50%|##  |", nil, []string{" 50%|##  |"}},
		{"bar\r   \rdone\n", []string{"done"}, nil}, // erased
		{"written\r\r\n\r\nlast\r", []string{"written", ""}, []string{"last"}},
		{strings.Repeat("x", maxLine) + "\n", []string{strings.Repeat("x", maxLine)}, nil},
		{strings.Repeat("x", maxLine) + "y\rz\n", []string{strings.Repeat("x", maxLine), "z"}, nil},
	} {
		var got []string
		s := splitter{fn: func(l string) { got = append(got, l) }}
		s.write([]byte(tt.printed))
		if diff := cmp.Diff(tt.ended, got); diff != "" {
			t.Errorf("%.60q: lines before the flush (-want +got):\n%s", tt.printed, diff)
		}
		got = nil
		s.flush()
		s.flush()
		if diff := cmp.Diff(tt.unfinished, got); diff != "" {
			t.Errorf("%.60q: lines of the flush (-want +got):\n%s", tt.printed, diff)
		}
	}
}
