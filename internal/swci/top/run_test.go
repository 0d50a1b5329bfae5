package top_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/top"
	"github.com/swarmd/swarmd/internal/terminal/terminaltest"
)

// docs are documents of a small swarm.
type docs struct {
	panics atomic.Bool
	ended  atomic.Bool // the identity expired
}

func (d *docs) Link() (string, error) {
	if d.ended.Load() {
		return "sn-1", exit.New(exit.Denied, "have it renewed where it comes from", "the identity spiffe://a.example/swarm/swci expired at noon")
	}
	return "sn-1", nil
}

func (d *docs) Get(_ context.Context, name string) (json.RawMessage, error) {
	if d.panics.Load() {
		panic("a mistake in a document")
	}
	switch name {
	case "nodes":
		return json.RawMessage(`{"nodes":[{"name":"sn-1","role":"sn","state":"alive","leader":true}]}`), nil
	case "contracts":
		return json.RawMessage(`{"contracts":[{"name":"study","phase":"training","open_sessions":1}]}`), nil
	case "contract/study":
		return json.RawMessage(`{"name":"study","run":1,"phase":"training","sessions":[{"node":"sl-0","live":true,"state":"open","phase":"training","epochs_done":1,"total_epochs":4}]}`), nil
	}
	return nil, errors.New("there is none")
}

// onTerminal runs a screen in a pseudo-terminal.
func onTerminal(ctx context.Context, t *testing.T, d *docs) (user *os.File, seen *terminaltest.Screen, ended chan error) {
	t.Helper()
	user, tty := terminaltest.Open(t)
	if err := unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	before, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	seen, ended = terminaltest.Watch(user), make(chan error, 1)
	go func() {
		err := top.Run(ctx, top.Config{Documents: d, Now: time.Now, In: tty, Out: tty, Environment: []string{"TERM=xterm-256color"}})
		if after, problem := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS); problem != nil || *after != *before {
			err = errors.Join(err, errors.New("the terminal is not as it was"), problem)
		}
		ended <- err
	}()
	seen.Await(t, "\x1b[?1049h", 1)
	seen.Await(t, "sl-0", 1)
	return user, seen, ended
}

// TestRestoresTheTerminal: whatever ends the screen, the terminal is as it was, and shows what it showed.
func TestRestoresTheTerminal(t *testing.T) {
	for name, end := range map[string]func(*docs, *os.File, context.CancelFunc) error{
		"q": func(_ *docs, user *os.File, _ context.CancelFunc) error { _, err := user.WriteString("q"); return err },
		"Ctrl-C": func(_ *docs, user *os.File, _ context.CancelFunc) error {
			_, err := user.WriteString("\x03")
			return err
		},
		"a signal": func(_ *docs, _ *os.File, stop context.CancelFunc) error {
			stop()
			return nil
		},
		"a panic": func(d *docs, _ *os.File, _ context.CancelFunc) error {
			d.panics.Store(true)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			d := &docs{}
			user, seen, ended := onTerminal(ctx, t, d)
			if err := end(d, user, stop); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if name == "a panic" {
					if exit.Code(err) != exit.Failed || err.Error() != "the screen broke off" || exit.Hint(err) == "" {
						t.Errorf("it ended with %v", err)
					}
				} else if err != nil {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("it does not end")
			}
			seen.Await(t, "\x1b[?1049l", 1)
			seen.Await(t, "\x1b[?25h", 1)
		})
	}
}

// TestExpiredIdentityOnTheScreen: it is said, with what to do, and what was known stays.
func TestExpiredIdentityOnTheScreen(t *testing.T) {
	d := &docs{}
	user, seen, ended := onTerminal(t.Context(), t, d)
	d.ended.Store(true)
	seen.Await(t, "expired at noon", 1)
	seen.Await(t, "have it renewed", 1)
	if _, err := user.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
