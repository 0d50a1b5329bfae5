package text_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/text"
)

// TestLines holds that lines are the same whatever the pieces in which they are written, and bounded.
func TestLines(t *testing.T) {
	long := strings.Repeat("x", text.MaxLine)
	for size := 1; size < 9; size++ {
		var got []string
		l := &text.Lines{Emit: func(line string) error {
			got = append(got, line)
			return nil
		}}
		for piece := range slices.Chunk([]byte("one\n\ntwo\n"+long+"yz\nthe rest"), size) {
			if n, err := l.Write(piece); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
		whole := len(got)
		if err := errors.Join(l.Rest(), l.Rest()); err != nil || whole != 5 || !slices.Equal(got, []string{"one", "", "two", long, "yz", "the rest"}) {
			t.Errorf("in pieces of %d: %d lines, then %.40q, %v", size, whole, got, err)
		}
	}
	failed := errors.New("full")
	l := &text.Lines{Emit: func(string) error { return failed }}
	if _, err := l.Write([]byte("one\ntwo\n")); !errors.Is(err, failed) {
		t.Error(err)
	}
}
