package consensus_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// TestServerThatNobodyLetsInSaysSo: a ban is told by the connection before any join is heard.
func TestServerThatNobodyLetsInSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form("a", "b")
		log := &lines{}
		cfg := s.config("c")
		cfg.Log = slog.New(slog.NewTextHandler(log, nil))
		c := s.startWith(cfg)
		if err := c.Join(s.within(30*time.Second), []string{address("a")}, joinRequest("c")); err != nil {
			t.Fatal(err)
		}
		s.net.Cut("idc")
		time.Sleep(10 * time.Minute)
		if n := log.count("no SN lets this node in again"); n != 1 || log.count("no route from idc to ida") == 0 {
			t.Errorf("said %d times, want once:\n%s", n, log.b.String())
		}
		s.net.Heal("idc")
		s.until("it to be back", func() bool { return log.count("rejoined the swarm") == 1 || s.member("a", "c") })
	})
}

// TestServerRejoinsThroughWhomItWasStartedWith: all that its configuration names are gone when it comes back.
func TestServerRejoinsThroughWhomItWasStartedWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form("a", "b")
		c := s.start("c")
		if err := c.Join(s.within(30*time.Second), []string{address("a"), address("d")}, joinRequest("c")); err != nil {
			t.Fatal(err)
		}
		s.net.Cut("idc")
		newer := []string{"d", "e", "f"}
		for _, name := range newer {
			s.join(name, "a")
		}
		for _, old := range []string{"a", "b"} {
			s.stop(old)
			s.until(old+" to be removed", func() bool { return !s.member("d", old) })
		}
		s.until("c to be removed", func() bool { return !s.member("d", "c") })
		s.leader(newer...)
		s.net.Heal("idc")
		s.until("c to be back", func() bool { return s.member("d", "c") })
		s.propose("c", "sl-0")
		s.converged("c", "d", "e", "f")
	})
}
