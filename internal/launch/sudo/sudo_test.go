package sudo_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/launch/sudo"
)

func TestAgain(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var called []string
	fake := sudo.Sudo{
		Find: func() (string, error) { return "/bin/sudo", nil },
		Exec: func(path string, argv, _ []string) error {
			called = append([]string{path}, argv...)
			return errors.New("not replaced")
		},
	}
	environ := []string{"HOME=/home/u", "SWARM_SCOPE=a b", "DOCKER_HOST=unix:///x", "LD_PRELOAD=evil.so", "SWARM_RUN_DIR=/early", "PATH=/evil", "SPIFFE_ENDPOINT_SOCKET=y", "SWARM_SPIRE_JOIN_TOKEN=hush", "DOCKER_AUTH_CONFIG=hush"}
	err = fake.Again([]string{"stop", "--sl", "--sudo", "--keep"}, environ, "SWARM_RUN_DIR=/run/u")
	if err == nil || err.Error() != "--sudo: not replaced" {
		t.Errorf("got %v", err)
	}
	want := []string{
		"/bin/sudo", "/bin/sudo", "--preserve-env=SWARM_SPIRE_JOIN_TOKEN", "--", "env", "SWARM_SCOPE=a b", "DOCKER_HOST=unix:///x", "SWARM_RUN_DIR=/early", "SPIFFE_ENDPOINT_SOCKET=y",
		"SWARM_RUN_DIR=/run/u", self, "stop", "--sl", "--keep",
	}
	if d := cmp.Diff(called, want); d != "" {
		t.Errorf("called (-got +want):\n%s", d)
	}
	fake.Find = func() (string, error) { return "", errors.New("none") }
	if err := fake.Again(nil, nil); err == nil || !strings.Contains(err.Error(), "there is no sudo on this machine") {
		t.Errorf("got %v", err)
	}
}

// Sudo is tried by itself only where it can answer.
func TestHelps(t *testing.T) {
	for _, tt := range []struct {
		uid                    int
		sudo, silent, terminal bool
		want                   bool
	}{
		{0, true, true, true, false},
		{1000, false, true, true, false},
		{1000, true, false, false, false},
		{1000, true, true, false, true},
		{1000, true, false, true, true},
	} {
		s := sudo.Sudo{
			UID: func() int { return tt.uid }, Silent: func(context.Context, string) bool { return tt.silent },
			Find: func() (string, error) {
				if !tt.sudo {
					return "", errors.New("none")
				}
				return "/bin/sudo", nil
			},
		}
		if got := s.Helps(t.Context(), tt.terminal); got != tt.want {
			t.Errorf("%+v: got %v", tt, got)
		}
	}
}
