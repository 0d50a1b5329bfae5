// Package terminaltest has pseudo-terminals for tests.
package terminaltest

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Open opens a pseudo-terminal until the test ends: what a user types is written to user, and what they see is read from it.
func Open(t *testing.T) (user, tty *os.File) {
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

// Screen collects what is shown.
type Screen struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{}
}

// Watch collects what user's terminal shows.
func Watch(user io.Reader) *Screen {
	s := &Screen{more: make(chan struct{}, 1)}
	go s.follow(user)
	return s
}

// follow reads until r ends.
func (s *Screen) follow(r io.Reader) {
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

func (s *Screen) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// Has reports whether text has been shown.
func (s *Screen) Has(text string) bool { return strings.Contains(s.all(), text) }

// Await returns when text has been shown so many times.
func (s *Screen) Await(t *testing.T, text string, times int) {
	t.Helper()
	late := time.After(10 * time.Second)
	for {
		all := s.all()
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
