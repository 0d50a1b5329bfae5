package docker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// TestOriginalsClientInContainers: two programs of each release that speaks another way, each in a container without network and
// with a root that can not be written, started in several ways, merge twelve times and at their ends, and come to the same model.
func TestOriginalsClientInContainers(t *testing.T) {
	s := newSite(t)
	w := e2etest.NewSwarm(t, func(string, int) []string { return []string{"--identity", "embedded=" + s.path("ca")} })
	e2etest.Start(t, "authority", s.dir, nil, "swarmd", "run-authority", "--dir", s.path("ca")).Sees("embedded authority started")
	w.SN(1).Sees("Starting SWARM-API-SERVER on port: 30304")
	for first, dialect := range map[int]string{1: "2.0", 3: "2.2", 5: "2.3"} {
		var sls []*e2etest.Proc
		for i, how := range [][]string{
			{"--ml-client=original", "--ml-cmd", "python3 /platform/swarmml/model/train.py " + dialect},
			{"--model-program", "program.py"}, // beside which there is the original's package
		} {
			s.originalBeside(first+i, dialect)
			sls = append(sls, s.containedSL(w, first+i, how...))
		}
		var digests []string
		for i, p := range sls {
			if code := p.Exits(); code != 0 {
				t.Fatalf("release %s: exit code %d", dialect, code)
			}
			digests = append(digests, s.mergedTwelveTimes(first+i))
		}
		if digests[0] != digests[1] {
			t.Errorf("release %s: the final models differ: %v", dialect, digests)
		}
	}
	s.nothingLeft()
}

// TestOriginalsClientOutlivesItsDaemon: one that is killed and started again takes the session up, and the client notices no more than a
// pause.
func TestOriginalsClientOutlivesItsDaemon(t *testing.T) {
	s := newSite(t)
	w := e2etest.NewSwarm(t, func(string, int) []string { return []string{"--identity", "embedded=" + s.path("ca")} })
	e2etest.Start(t, "authority", s.dir, nil, "swarmd", "run-authority", "--dir", s.path("ca")).Sees("embedded authority started")
	w.SN(1).Sees("Starting SWARM-API-SERVER on port: 30304")
	how := []string{"--model-program", "program.py", "-e", "ROUNDS=150"}
	var sls []*e2etest.Proc
	for i := 1; i <= 2; i++ {
		s.originalBeside(i, "2.3")
		sls = append(sls, s.containedSL(w, i, how...))
	}
	sls[0].Sees("round=20 ")
	sls[0].Kill()
	sls[0] = s.containedSL(w, 1, how...)
	sls[0].Sees("session of this node's previous run is adopted")
	for _, p := range sls {
		if code := p.Exits(); code != 0 {
			t.Fatalf("%s: exit code %d", p.Name, code)
		}
	}
	if a, b := s.mergedTwelveTimes(1), s.mergedTwelveTimes(2); a != b {
		t.Errorf("the final models differ: %s, %s", a, b)
	}
	s.nothingLeft()
}

// originalBeside makes SL i's model directory, with a program and what tells the original's package from others.
func (s *site) originalBeside(i int, dialect string) {
	s.t.Helper()
	model := s.path(fmt.Sprintf("model%d", i))
	err := errors.Join(os.CopyFS(model, os.DirFS("../testdata/original")), os.Mkdir(filepath.Join(model, "swarmlearning"), 0o755))
	for name, text := range map[string]string{
		"program.py":                   "import sys, train; sys.argv[1:] = ['" + dialect + "']; train.main()\n",
		"swarmlearning/__init__.py":    "",
		"swarmlearning/swifrpc_pb2.py": "",
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(model, name), []byte(text), 0o644))
	}
	if err = errors.Join(err, os.Chmod(model, 0o777)); err != nil { // the program's user is not ours
		s.t.Fatal(err)
	}
}

// containedSL starts SL i as a process, and its program in a container.
func (s *site) containedSL(w *e2etest.Swarm, i int, how ...string) *e2etest.Proc {
	s.t.Helper()
	model := s.path(fmt.Sprintf("model%d", i))
	args := append([]string{
		"swarmd", "run-sl", "--name", fmt.Sprintf("sl-%d", i), "--host-ip", w.Addr(10 + i), "--sn-ip", w.Addr(1), "--identity", "embedded=" + s.path("ca"),
		"--state-dir", s.path(fmt.Sprintf("sl%d", i)), "--bridge-dir", s.path(fmt.Sprintf("br%d", i)), "--model-dir", model, "--sl-platform", "PYT",
		"--ml-runtime", "docker", "--ml-image", enginetest.TestImage, "--ml-user", "4242:4242",
		"-e", fmt.Sprintf("PEER=%d", i), "-e", "POLL=0.05", "-e", fmt.Sprintf("CONTRACT=pair-%d", (i+1)/2),
	}, how...)
	return e2etest.Start(s.t, fmt.Sprintf("sl-%d", i), s.dir, []string{"SWARM_SCOPE=" + s.scope, "DOCKER_HOST=" + os.Getenv("DOCKER_HOST")}, args...)
}

// mergedTwelveTimes returns the digest of what SL i's program has at its end.
func (s *site) mergedTwelveTimes(i int) string {
	s.t.Helper()
	var r struct {
		SHA256 string `json:"sha256"`
		Merges int    `json:"merges"`
	}
	content, err := os.ReadFile(filepath.Join(s.path(fmt.Sprintf("model%d", i)), "result.json"))
	if err == nil {
		err = json.Unmarshal(content, &r)
	}
	if err != nil || r.Merges < 12 || r.SHA256 == "" {
		s.t.Fatalf("sl-%d: %+v, %v", i, r, err)
	}
	return r.SHA256
}
