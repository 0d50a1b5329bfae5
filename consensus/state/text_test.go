package state_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
)

// TestClipWords: a digest is there in whole or not at all, and what is missing is marked.
func TestClipWords(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	for _, test := range []struct {
		text  string
		limit int
		want  string
	}{
		{"it is " + digest, 77, "it is " + digest},
		{"the image that was asked about is not the one which is there now: " + digest + ": assign the task again", 256, "the image that was asked about is not the one which is there now: " + digest + ": assign the task again"},
		{"the image that was asked about is not the one which is there now: " + digest, 136, "the image that was asked about is not the one which is there now: …"},
		{strings.Repeat("x", 80), 40, strings.Repeat("x", 36) + "…"},
		{"a " + digest, 40, "a " + digest[:34] + "…"},
		{"<<<< <<<< <<<<", 70, "<<<< <<<< …"},
		{"éé éé éé", 11, "éé …"},
	} {
		got := state.ClipWords(test.text, test.limit)
		if got != test.want || state.Clip(got, test.limit) != got || state.ClipWords(got, test.limit) != got {
			t.Errorf("%q within %d: %q, want %q", test.text, test.limit, got, test.want)
		}
	}
}
