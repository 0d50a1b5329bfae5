package component_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// TestPodman does at Podman's socket what the other tests do at Docker's.
func TestPodman(t *testing.T) {
	host := enginetest.Podman(t)
	t.Setenv("DOCKER_HOST", host)
	e, err := engine.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	b := &bench{t: t, engine: e, scope: enginetest.Scope(t)}
	code, err := b.run(b.shell("n", `echo out; echo err >&2; touch "$SWARM_STATE_DIR/x"; stat -c '%u %a' "$SWARM_STATE_DIR"; exit 7`, func(s *component.Spec) {
		s.User = "1234:1234"
	}))
	if err != nil || code != 7 || b.out.String() != "out\n1234 700\n" || b.errors.String() != "err\n" {
		t.Errorf("exit code %d, %v, output %q, errors %q", code, err, b.out.String(), b.errors.String())
	}
	id := b.detached(b.shell("n", `echo up; exec sleep 1000`, func(s *component.Spec) { s.User = "1234:1234" }))
	b.await("the component", func() bool { return strings.Contains(b.logs(id), "up") })
	if _, err := b.run(b.shell("n", "true", nil)); err == nil || !strings.Contains(err.Error(), "runs already in container "+id[:12]) {
		t.Errorf("runs already: %v", err)
	}
	out, err := component.LocalExec()(t.Context(), id, []string{"echo", "hello"})
	if err != nil || string(out) != "hello\n" {
		t.Errorf("exec: %q, %v", out, err)
	}
}
