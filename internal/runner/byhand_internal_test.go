package runner

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/internal/session"
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
		if code, err := r.Run(ctx, session.New(session.Config{Peer: "sl-1", Log: slog.New(slog.DiscardHandler)})); code != 0 || !errors.Is(err, context.Canceled) {
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

// finished is an engine whose program has the final model, which another peer still wants for a while.
type finished struct {
	outcome session.Outcome
	wanted  time.Duration
}

func (f finished) Outcome() (session.Outcome, error) { return f.outcome, nil }

func (f finished) Linger(ctx context.Context) error {
	select {
	case <-time.After(f.wanted):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A node beside a program that was started by hand is stopped as soon as that ends, when a peer may still need the final model.
func TestStoppedNodeServesTheFinalModel(t *testing.T) {
	for _, tt := range []struct {
		name           string
		engine         finished
		linger, stayed time.Duration
		warns          bool
	}{
		{"nobody wants it", finished{session.Finished, 0}, time.Minute, 0, false},
		{"somebody wants it", finished{session.Finished, 7 * time.Second}, time.Minute, 7 * time.Second, false},
		{"somebody wants it for long", finished{session.Finished, time.Hour}, time.Minute, stopLinger, true},
		{"as the operator wants", finished{session.Finished, time.Hour}, time.Second, time.Second, true},
		{"in the middle of a training", finished{session.Open, time.Hour}, time.Minute, 0, false},
		{"without a program", finished{session.NoSession, time.Hour}, time.Minute, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				r := &Runner{cfg: Config{Spec: Spec{Contained: true, Stdout: io.Discard, Linger: tt.linger}, Log: slog.New(slog.NewTextHandler(&said, nil))}}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				began := time.Now()
				if code, err := r.awaitHand(ctx, tt.engine); code != 0 || !errors.Is(err, context.Canceled) {
					t.Errorf("ended with %d, %v", code, err)
				}
				if stayed := time.Since(began); stayed != tt.stayed {
					t.Errorf("stayed %s, want %s", stayed, tt.stayed)
				}
				if warned := strings.Contains(said.String(), "some peers may not have the final model"); warned != tt.warns {
					t.Errorf("warned: %v: %q", warned, said.String())
				}
			})
		})
	}
}
