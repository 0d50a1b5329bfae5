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

	"github.com/charmbracelet/x/vt"
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
	mu    sync.Mutex
	text  strings.Builder
	glass *vt.Emulator // what is seen now
	more  chan struct{}
}

// Watch collects what user's terminal shows, of 80 columns and 24 lines until Resize.
func Watch(user io.Reader) *Screen {
	s := &Screen{glass: vt.NewEmulator(80, 24), more: make(chan struct{}, 1)}
	go func() { _, _ = io.Copy(io.Discard, s.glass) }() // answers to questions, which nobody wants, until follow closes them
	go s.follow(user)
	return s
}

// Resize has what is seen another size, as the terminal has.
func (s *Screen) Resize(rows, columns int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.glass.Resize(columns, rows)
}

// Now is what is seen now, line by line.
func (s *Screen) Now() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.glass.String()
}

// follow reads until r ends.
func (s *Screen) follow(r io.Reader) {
	buf := make([]byte, 1024)
	for {
		n, err := r.Read(buf)
		s.mu.Lock()
		s.text.Write(buf[:n])
		_, _ = s.glass.Write(buf[:n]) // it fails only if it is closed, which nobody does
		s.mu.Unlock()
		select {
		case s.more <- struct{}{}:
		default:
		}
		if err != nil {
			if answers, ok := s.glass.InputPipe().(io.Closer); ok { // Close of the emulator itself is not safe beside Read
				_ = answers.Close()
			}
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
