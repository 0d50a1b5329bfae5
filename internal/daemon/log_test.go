package daemon_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/daemon"
)

// lines returns what is written without the time.
func lines(b *bytes.Buffer) []string {
	var out []string
	for line := range strings.Lines(b.String()) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), " : ")
		out = append(out, text)
	}
	return out
}

func TestLogHasTheOriginalsForm(t *testing.T) {
	var b bytes.Buffer
	log := daemon.NewLogger(&b, "swarm.SN", slog.LevelInfo)
	log.Debug("not shown")
	log.With("logger", "swarm.blCnt").Info("Starting SWARM-API-SERVER on port: 30304")
	log.Warn("odd", "why", "a b", "empty", "")
	want := []string{
		"swarm.blCnt : INFO : Starting SWARM-API-SERVER on port: 30304",
		`swarm.SN : WARNING : odd why="a b" empty=""`,
	}
	if got := lines(&b); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLibrariesAreHeardOnceAMinute(t *testing.T) {
	var b bytes.Buffer
	log := daemon.NewLogger(&b, "swarm.SN", slog.LevelInfo)
	raft, streams := log.With("part", "raft"), log.With("part", "raft_net")
	for range 100 {
		raft.Error("failed to heartbeat to", "peer", "sn-1", "error", "refused")
		raft.Error("failed to heartbeat to", "peer", "sn-2", "error", "refused")
		streams.Error("failed to decode incoming command", "error", "stream reset")
	}
	for range 2 {
		log.Error("our own", "err", "every time")
	}
	want := []string{
		"swarm.SN : WARNING : failed to heartbeat to part=raft peer=sn-1 error=refused",
		"swarm.SN : WARNING : failed to heartbeat to part=raft peer=sn-2 error=refused",
		`swarm.SN : ERROR : our own err="every time"`,
		`swarm.SN : ERROR : our own err="every time"`,
	}
	if got := lines(&b); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
	b.Reset()
	loud := daemon.NewLogger(&b, "swarm.SN", slog.LevelDebug).With("part", "raft_net")
	for range 3 {
		loud.Error("failed to decode incoming command")
	}
	if got := lines(&b); len(got) != 3 {
		t.Errorf("at debug: got %q, want all", got)
	}
}

func TestErrorsCarryTheirRemedy(t *testing.T) {
	taken := &client.Error{Message: "the name sl-1 is taken", Remedy: "choose another --name"}
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"plain", errors.New("no"), "swarmd: no"},
		{"of the API", fmt.Errorf("register: %w", taken), "swarmd: register: the name sl-1 is taken: choose another --name"},
		{"two", errors.Join(errors.New("a"), errors.New("b")), "swarmd: a\nswarmd: b"},
		{"last words", errors.New("exit code 1; last lines:\n  x\n  y"), "swarmd: exit code 1; last lines:\n  x\n  y"},
	} {
		if got := daemon.Explain(c.err); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
