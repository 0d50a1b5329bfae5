package launch

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// FuzzSplitLines holds that how the bytes arrive does not change the lines, and that lines are bounded.
func FuzzSplitLines(f *testing.F) {
	f.Add([]byte("a\nb\r\nc\rd\n\n\r\r\nend"))
	f.Add(bytes.Repeat([]byte("x"), maxLine+1))
	f.Fuzz(func(t *testing.T, b []byte) {
		var whole, single []string
		splitLines(bytes.NewReader(b), func(l string) { whole = append(whole, l) })
		splitLines(iotest.OneByteReader(bytes.NewReader(b)), func(l string) { single = append(single, l) })
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
