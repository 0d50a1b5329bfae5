package docker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	s := &site{t: t, engine: enginetest.Engine(t), scope: enginetest.Scope(t), dir: t.TempDir()}
	s.net = s.name("net")
	return s
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
	p.Ends(2 * e2etest.Patience)
	if s.t.Failed() {
		s.t.Fatalf("%s %s said:\n%s", name, strings.Join(args, " "), p.Output())
	}
	return p.Output()
}
