package terminal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/swarmd/swarmd/internal/terminal"
)

func TestIs(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "a"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if terminal.Is(f) || terminal.Is(&bytes.Buffer{}) || terminal.Is(nil) {
		t.Error("what is none is a terminal")
	}
	if m, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0); err == nil {
		t.Cleanup(func() { _ = m.Close() })
		if !terminal.Is(m) {
			t.Error("a pseudo-terminal is none")
		}
	}
}
