package launch_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/launch"
)

func TestCheckArgs(t *testing.T) {
	for want, args := range map[string][]string{
		"":                           {"", "--lr", "0.1", "$HOME; rm -rf /", "two\nlines", "größe"},
		"1025 arguments, at most":    slices.Repeat([]string{"a"}, 1025),
		"16385 bytes, at most":       {strings.Repeat("a", 16_000), strings.Repeat("a", 385)},
		`"a\x00b" holds a NUL`:       {"a\x00b"},
		`"caf\xe9" holds a NUL char`: {"caf\xe9"},
	} {
		if err := launch.CheckArgs(args); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestArgsFitAMountNamespace holds that what CheckArgs takes fits into one argument of Linux, as which it goes to who makes a mount namespace.
func TestArgsFitAMountNamespace(t *testing.T) {
	args := slices.Repeat([]string{strings.Repeat("\x01", 16)}, 1024)
	if err := launch.CheckArgs(args); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(args)
	if err != nil || len(text) > 120<<10 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
