package docker_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

func TestMain(m *testing.M) { os.Exit(e2etest.Main(m)) }

// site is what one test has at the engine: a scope, a network and names of its own.
type site struct {
	t      *testing.T
	engine *engine.Engine
	scope  string
	dir    string
	net    string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, engine: enginetest.Engine(t), dir: t.TempDir()}
	t.Cleanup(func() { // after the containers in it are gone, which Scope sees to
		if err := s.engine.NetworkRemove(context.Background(), s.net); err != nil && !errdefs.IsNotFound(err) {
			t.Error(err)
		}
	})
	s.scope = enginetest.Scope(t)
	s.net = s.name("net")
	return s
}

// makeNet makes the network that users make for their nodes; it is not ours.
func (s *site) makeNet() {
	s.t.Helper()
	if _, err := s.engine.NetworkCreate(s.t.Context(), s.net, network.CreateOptions{Driver: "bridge"}); err != nil {
		s.t.Fatal(err)
	}
}

// name is a name that no other test has.
func (s *site) name(of string) string { return of + "-" + s.scope }

// script starts one of the project's scripts, as a user does.
func (s *site) script(name string, args ...string) *e2etest.Proc {
	s.t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		s.t.Fatal(err)
	}
	path := os.Getenv("PATH")
	return e2etest.Start(s.t, name, s.dir, []string{"SWARM_SCOPE=" + s.scope, "PATH=" + e2etest.BinDir + ":" + path, "DOCKER_HOST=" + os.Getenv("DOCKER_HOST")},
		append([]string{filepath.Join(root, "scripts", name)}, args...)...)
}

// runs wants a script to end well, and returns what it said.
func (s *site) runs(name string, args ...string) string {
	s.t.Helper()
	p := s.script(name, args...)
	p.Ends(2 * e2etest.Timeout)
	if s.t.Failed() {
		s.t.Fatalf("%s %s said:\n%s", name, strings.Join(args, " "), p.Output())
	}
	return p.Output()
}
