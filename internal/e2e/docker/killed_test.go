package docker_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// An SL whose daemon is killed in its container in the middle of training, once so that the restart policy starts it again
// and once by hand: its program notices no more than a pause. All are started in the wrong order, those that wait for others
// first, whose names nobody knows yet.
func TestDaemonKilledInItsContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to kill what the engine runs")
	}
	s := newSite(t)
	s.makeNet()
	identity := "--identity=embedded=" + s.path("ca")
	e2etest.Start(t, "authority", s.dir, nil, "swarmd", "run-authority", "--dir", s.path("ca")).Sees("embedded authority started")
	sentinel, second, sls := s.name("sn1"), s.name("sn2"), []string{s.name("sl1"), s.name("sl2")}
	for i, name := range sls {
		model := s.path(name)
		(&e2etest.Swarm{T: t, Dir: s.dir}).CopyProgram(model)
		if err := os.Chmod(model, 0o777); err != nil { // the program's user is not ours
			t.Fatal(err)
		}
		s.runs("run-sl", "-d", "--restart", "on-failure", "--name", name, "--network", s.net, "--host-ip", name, "--sn-ip", []string{second, sentinel}[i], identity,
			"--model-dir", model, "--model-program", "train.py", "--ml-image", enginetest.TestImage, "--ml-user", "4242:4242", "-e", "SEED="+name[2:3], "-e", "BATCHES=40")
	}
	s.says(sls[0], "waiting for the swarm", 1)
	sn := []string{"-d", "--network", s.net, "--sentinel-ip", sentinel, identity}
	s.runs("run-sn", append(sn, "--name", second, "--host-ip", second)...)
	s.says(second, "cannot reach an SN yet; trying again", 1)
	s.runs("run-sn", append(sn, "--name", sentinel, "--host-ip", sentinel)...)

	s.says(sls[0], "model handed to the program", 1)
	c, err := s.engine.ContainerInspect(t.Context(), sls[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(c.State.Pid, syscall.SIGKILL); err != nil { // the engine's own kill is a wish that policies respect
		t.Fatal(err)
	}
	s.says(sls[0], "session of this node's previous run is adopted", 1)
	s.says(sls[0], "model handed to the program", 3)
	if err := s.engine.ContainerKill(t.Context(), sls[0], "KILL"); err != nil {
		t.Fatal(err)
	}
	if err := s.engine.ContainerStart(t.Context(), sls[0], container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	s.says(sls[0], "session of this node's previous run is adopted", 2)

	var digests []string
	for _, name := range sls {
		code, log := s.waits(name)
		if code != 0 {
			t.Fatalf("%s ended with exit code %d:\n%s", name, code, log)
		}
		if n := strings.Count(log, "program started"); n != 1 {
			t.Errorf("%s started its program %d times", name, n)
		}
		digests = append(digests, finalDigest(t, name, log))
	}
	if digests[0] != digests[1] {
		t.Errorf("the final models differ: %v", digests)
	}
	s.stopsClean()
}

// says waits until a container has said something so many times.
func (s *site) says(name, what string, times int) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(e2etest.Timeout)
	for strings.Count(s.log(name), what) < times {
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("%s does not say %q %d times; it says:\n%s", name, what, times, e2etest.Last(s.log(name), 40))
		}
	}
}
