package terminal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/terminal"
	"github.com/swarmd/swarmd/internal/terminal/terminaltest"
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

func TestColumns(t *testing.T) {
	t.Parallel()
	user, tty := terminaltest.Open(t)
	if got := terminal.Columns(tty, 80); got != 80 {
		t.Errorf("a terminal that does not say has %d columns", got)
	}
	if err := unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 40}); err != nil {
		t.Fatal(err)
	}
	if got := terminal.Columns(tty, 80); got != 40 {
		t.Errorf("got %d columns, want 40", got)
	}
	if got := terminal.Columns(&bytes.Buffer{}, 7); got != 7 {
		t.Errorf("what is no terminal has %d columns", got)
	}
}
