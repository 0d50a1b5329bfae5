package raftnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// What a stop brings with it is no warning; everything else stays one.
func TestWarningsOfAStop(t *testing.T) {
	for _, tt := range []struct {
		msg   string
		err   error
		shown bool
	}{
		{"failed to heartbeat to", errors.New("connection refused"), true},
		{"failed to heartbeat to", fmt.Errorf("dial sn-2: %w", context.Canceled), false},
		{"failed to make requestVote RPC", errors.New("dial sn-2: context canceled"), false},
		{"rejecting vote request since we have a leader", errors.New("x"), false},
	} {
		var out bytes.Buffer
		NewLog(slog.New(slog.NewTextHandler(&out, nil)), "raft").Warn(tt.msg, "target", "sn-2", "error", tt.err)
		if got := strings.Contains(out.String(), tt.msg); got != tt.shown {
			t.Errorf("%s: %v: shown is %v, want %v", tt.msg, tt.err, got, tt.shown)
		}
	}
}
