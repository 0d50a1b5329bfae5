package docker_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
)

// The compose file as its page says: three organisations, real SPIRE, a join token for each node, a PyTorch program behind
// isolation at each SL.
func TestCompose(t *testing.T) {
	s := newSite(t)
	compose, err := exec.LookPath("docker-compose")
	if err != nil {
		t.Skip("needs docker-compose: run scripts/ci-deps")
	}
	s.shards(3)
	for i, site := range []string{"a", "b", "c"} {
		s.moves("shards/"+string(rune('0'+i)), "sites/"+site+"/data")
		s.moves("model"+string(rune('0'+i)), "sites/"+site+"/model")
	}
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command(compose, append([]string{"-f", "../../../deploy/compose/compose.yaml", "-p", s.scope}, args...)...)
		cmd.Env = append(os.Environ(), "SITES="+s.path("sites"), "SWARM_SCOPE="+s.scope, "SPILL_PREFIX=swarmd-"+s.scope, "MAX_EPOCHS=2", "ML_USER=0:0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("docker-compose %v: %v\n%s", args, err, out)
		}
	}
	t.Cleanup(func() { run("down", "-v", "--remove-orphans") })
	run("up", "-d")
	var digests []string
	for _, name := range []string{"sl-a", "sl-b", "sl-c"} {
		id := s.service(name)
		code, log := s.waits(id)
		if code != 0 {
			t.Fatalf("%s ended with exit code %d:\n%s", name, code, log)
		}
		digests = append(digests, finalDigest(t, name, log))
	}
	if digests[0] != digests[1] || digests[1] != digests[2] {
		t.Errorf("the final models differ: %v", digests)
	}
	s.nothingLeft() // of the programs; what compose made is compose's
}

// service is the container that compose made for a service.
func (s *site) service(name string) string {
	s.t.Helper()
	found, err := s.engine.ContainerList(s.t.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", "com.docker.compose.project="+s.scope), filters.Arg("label", "com.docker.compose.service="+name),
	)})
	if err != nil || len(found) != 1 {
		s.t.Fatalf("service %s has %d containers, %v; want one", name, len(found), err)
	}
	return found[0].ID
}

func (s *site) moves(from, to string) {
	s.t.Helper()
	err := os.MkdirAll(filepath.Dir(s.path(to)), 0o755)
	if err == nil {
		err = os.Rename(s.path(from), s.path(to))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}
