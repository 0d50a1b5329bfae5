package runner

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program that is started by hand needs the bridge and, unless the daemon is in a container whose files it does not see, the package.
func TestProgramByHand(t *testing.T) {
	for _, contained := range []bool{false, true} {
		state := t.TempDir()
		var out bytes.Buffer
		r, err := New(t.Context(), Config{
			Spec: Spec{Attach: true, Contained: contained, BridgeDir: "/run/b", Stdout: &out}, Node: "sl-1", StateDir: state, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if code, err := r.Run(ctx, nil); code != 0 || err != context.Canceled {
			t.Errorf("ended with %d, %v", code, err)
		}
		line := strings.TrimSuffix(out.String(), "\n")
		before, packages, found := strings.Cut(strings.TrimSuffix(line, `"${PYTHONPATH:+:$PYTHONPATH}"`), " PYTHONPATH=")
		if before != "export SWARM_BRIDGE_DIR=/run/b SWARM_PEER=sl-1" || found == contained {
			t.Errorf("contained %v: says %q", contained, line)
		}
		if contained {
			continue
		}
		if _, err := os.Stat(filepath.Join(packages, "swarmlearning", "pyt.py")); err != nil || !strings.HasPrefix(packages, state) {
			t.Errorf("PYTHONPATH is %s: %v", packages, err)
		}
	}
}
