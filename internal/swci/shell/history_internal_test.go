package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHistoryIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "swarmd", "history")
	h := openHistory(path)
	for _, line := range []string{"list nodes", "list nodes", "", " a secret", "get \x1b[2Jcontract"} {
		h.Add(line)
	}
	again := openHistory(path)
	if again.Len() != 2 || again.At(0) != "get contract" || again.At(1) != "list nodes" {
		t.Errorf("kept: %q", again.lines)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, mode %v", err, info.Mode())
	}
}

func TestHistoryIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, "command number %d\n", i)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	h := openHistory(path)
	h.Add("one more")
	if h.Len() != maxHistory || h.At(0) != "one more" || h.At(maxHistory-1) != fmt.Sprintf("command number %d", 100_000-maxHistory+1) {
		t.Errorf("%d lines, from %q to %q", h.Len(), h.At(h.Len()-1), h.At(0))
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > 30*maxHistory || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %d bytes, mode %v", err, info.Size(), info.Mode())
	}
}

// TestHistoryThatCannotBeKept works in memory.
func TestHistoryThatCannotBeKept(t *testing.T) {
	dir := t.TempDir()
	elsewhere := filepath.Join(dir, "elsewhere")
	if err := os.Symlink(elsewhere, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", dir, filepath.Join(dir, "link"), "/dev/null/history"} {
		h := openHistory(path)
		h.Add("list nodes")
		if h.Len() != 1 || h.At(0) != "list nodes" {
			t.Errorf("%q: %q", path, h.lines)
		}
	}
	if _, err := os.Stat(elsewhere); err == nil {
		t.Error("a link is followed")
	}
}
