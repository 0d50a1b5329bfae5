package form_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/logs/form"
)

func TestLogQuotesWhatATerminalObeys(t *testing.T) {
	for _, tt := range []struct{ value, want string }{
		{"sl-0", " node=sl-0\n"},
		{"über", " node=über\n"},
		{"two words", ` node="two words"` + "\n"},
		{"\x1b[2J", ` node="\x1b[2J"` + "\n"},
		{"\u009b2J", ` node="\u009b2J"` + "\n"},
		{"a\u202eb", ` node="a\u202eb"` + "\n"},
		{"a\nb", ` node="a\nb"` + "\n"},
		{"", ` node=""` + "\n"},
	} {
		var out bytes.Buffer
		form.New(&out, "swarm", slog.LevelInfo).Info("said", "node", tt.value)
		if !strings.HasSuffix(out.String(), tt.want) {
			t.Errorf("%q was logged as %q, want an end %q", tt.value, out.String(), tt.want)
		}
	}
}

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
	log := form.New(&b, "swarm.SN", slog.LevelInfo)
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
	log := form.New(&b, "swarm.SN", slog.LevelInfo)
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
	loud := form.New(&b, "swarm.SN", slog.LevelDebug).With("part", "raft_net")
	for range 3 {
		loud.Error("failed to decode incoming command")
	}
	if got := lines(&b); len(got) != 3 {
		t.Errorf("at debug: got %q, want all", got)
	}
}
