package raftnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
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

// Whoever has known no leader has lost none.
func TestFirstElectionIsNoWarning(t *testing.T) {
	for leader, shown := range map[raft.ServerID]bool{"": false, "sn-2": true} {
		var out bytes.Buffer
		NewLog(slog.New(slog.NewTextHandler(&out, nil)), "raft").Warn("heartbeat timeout reached, starting election", "last-leader-addr", raft.ServerAddress(leader), "last-leader-id", leader)
		if got := strings.Contains(out.String(), "starting election"); got != shown {
			t.Errorf("last leader %q: shown is %v, want %v", leader, got, shown)
		}
	}
}
