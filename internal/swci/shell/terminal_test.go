package shell_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal: what a user types is written to user, and what they see is read from it.
func terminal(t *testing.T) (user, tty *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return user, tty
}

// screen collects what is shown.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{}
}

func (s *screen) follow(r io.Reader) {
	buf := make([]byte, 1024)
	for {
		n, err := r.Read(buf)
		s.mu.Lock()
		s.text.Write(buf[:n])
		s.mu.Unlock()
		select {
		case s.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// await returns when text has been shown so many times.
func (s *screen) await(t *testing.T, text string, times int) {
	t.Helper()
	late := time.After(10 * time.Second)
	for {
		s.mu.Lock()
		all := s.text.String()
		s.mu.Unlock()
		if strings.Count(all, text) >= times {
			return
		}
		select {
		case <-s.more:
		case <-late:
			t.Fatalf("no %q on the screen:\n%q", text, all)
		}
	}
}

func TestTerminal(t *testing.T) {
	user, tty := terminal(t)
	seen := &screen{more: make(chan struct{}, 1)}
	go seen.follow(user)
	f := setup("")
	f.cfg.In, f.cfg.Out, f.cfg.TTY, f.cfg.History = tty, tty, true, filepath.Join(t.TempDir(), "history")
	f.cfg.Complete = func(_ context.Context, head string) []string {
		if head == "say gr" {
			return []string{"great", "hello"}
		}
		return []string{"hello", "great"}
	}
	ended := make(chan error, 1)
	go func() { ended <- f.start(t.Context()) }()

	write := func(keys string) {
		t.Helper()
		if _, err := user.WriteString(keys); err != nil {
			t.Fatal(err)
		}
	}
	seen.await(t, "SWCI:0 > ", 1)
	write("typed wrongly\x03say hello\r") // Ctrl-C forgets what is typed
	seen.await(t, "    hello", 1)
	seen.await(t, "SWCI:1 > ", 1)
	write("\x1b[A\r") // the last line again
	seen.await(t, "    hello", 2)
	seen.await(t, "SWCI:2 > ", 1)
	write("hang\r")
	<-f.running
	f.interrupt() // Ctrl-C while a command runs is a signal
	seen.await(t, "ERROR : interrupted", 1)
	seen.await(t, "SWCI:3 > ", 1)
	write("say gr\t\r") // the one word that may stand there
	seen.await(t, "    great", 1)
	seen.await(t, "SWCI:4 > ", 1)
	write("say \t")
	seen.await(t, "great  hello\r\nSWCI:4 > say ", 1)
	write("\x03\x04")
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Ctrl-D does not end the prompt")
	}
	if kept, err := os.ReadFile(f.cfg.History); err != nil || string(kept) != "say hello\nhang\nsay great \n" {
		t.Errorf("history: %v, %q", err, kept)
	}
}
