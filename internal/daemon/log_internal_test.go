package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
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
		newLogger(&out, "swarm", slog.LevelInfo).Info("said", "node", tt.value)
		if !strings.HasSuffix(out.String(), tt.want) {
			t.Errorf("%q was logged as %q, want an end %q", tt.value, out.String(), tt.want)
		}
	}
}
