package docker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/volume"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// nodesImage is what SLs in containers are started from.
const nodesImage = "swarmd:latest"

// twoHosts are hosts with an engine each, in network namespaces that are joined by a switch, an SN on a third, and who types commands on a
// fourth.
type twoHosts struct {
	*e2etest.Swarm

	engines []*enginetest.PrivateEngine // of host 1 and 2
	sn      *e2etest.Proc
}

func newTwoHosts(t *testing.T) *twoHosts {
	t.Helper()
	enginetest.NeedImage(t, enginetest.Engine(t), nodesImage, "scripts/images swarmd")
	h := &twoHosts{}
	h.Swarm = e2etest.NewSwarm(t, func(string, int) []string { return []string{"--identity", "embedded=" + h.Path("ca")} })
	h.InNamespaces()
	e2etest.Start(t, "authority", h.Dir, nil, "swarmd", "run-authority", "--dir", h.Path("ca")).Sees("embedded authority started")
	h.sn = h.SN(1)
	h.sn.Sees("Starting SWARM-API-SERVER on port: 30304")
	for i := 1; i <= 2; i++ {
		h.engines = append(h.engines, enginetest.Private(t, enginetest.In(h.Host(20+i).Namespace()), enginetest.Images(nodesImage, enginetest.TestImage)))
	}
	return h
}

// writes makes a file of the test's folder of one in testdata, with what differs from test to test filled in as users do.
func (h *twoHosts) writes(name string, with ...string) string {
	h.T.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	file := h.Path(name)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755)
	}
	if err == nil {
		err = os.WriteFile(file, []byte(strings.NewReplacer(with...).Replace(string(raw))), 0o644)
	}
	if err != nil {
		h.T.Fatal(err)
	}
	return file
}

// swop starts the SWOP of a host, with the engine that is there.
func (h *twoHosts) swop(i int) *e2etest.Proc {
	h.T.Helper()
	for sl := 2*i - 1; sl <= 2*i; sl++ {
		dir := h.Path(fmt.Sprintf("sl%d", sl), "app-data")
		if err := os.MkdirAll(dir, 0o777); err != nil {
			h.T.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil { // the program's user is not ours
			h.T.Fatal(err)
		}
	}
	h.writes("swop/policy.yaml", "<CURRENT-PATH>", h.Dir)
	profile := fmt.Sprintf("swop%d_profile.yaml", i)
	usr := filepath.Dir(h.writes(filepath.Join("swop", profile), "<CURRENT-PATH>", h.Dir, "<SN-IP>", h.Addr(1), "<HOST-IP>", h.Addr(20+i)))
	return h.Start(20+i, fmt.Sprintf("swop-%d", i), append([]string{
		"swarmd", "run-swop", "--name", fmt.Sprintf("swop-%d", i), "--host-ip", h.Addr(20 + i), "--usr-dir", usr, "--profile-file-name", profile,
		"--state-dir", h.Path(fmt.Sprintf("swop%d", i)), "--ml-runtime", "docker", "--docker-socket-file", strings.TrimPrefix(h.engines[i-1].Host(), "unix://"),
	}, h.Identity("swop", i)...)...)
}

// swci runs a script of SWCI, and returns what it says.
func (h *twoHosts) swci(file string) string {
	h.T.Helper()
	p := h.Start(40, "swci", append([]string{"swarmctl", "-f", file, "--sn", h.Addr(1) + ":30304"}, h.Identity("swci", 1)...)...)
	p.Ends(4 * e2etest.Timeout)
	return p.Output()
}

// empty wants that host i's engine has no container, and no volume but those with the keys of its SLs.
func (h *twoHosts) empty(i int) {
	h.T.Helper()
	e := h.engines[i-1].Engine()
	all, err := e.ContainerList(h.T.Context(), container.ListOptions{All: true})
	if err != nil {
		h.T.Fatal(err)
	}
	for _, c := range all {
		h.T.Errorf("on host %d container %v is left (%s)", i, c.Names, c.Status)
	}
	volumes, err := e.VolumeList(h.T.Context(), volume.ListOptions{})
	if err != nil {
		h.T.Fatal(err)
	}
	for _, v := range volumes.Volumes {
		if !strings.Contains(v.Name, fmt.Sprintf("swop-%d-sl-", i)) {
			h.T.Errorf("on host %d volume %s is left", i, v.Name)
		}
	}
}

// TestRunSwarmOnTwoHosts: files in the original's style, with the oddities that its users write, start two SLs on each of two hosts, which have
// an engine each and nothing in common but a network; they train to one model, and nothing is left.
func TestRunSwarmOnTwoHosts(t *testing.T) {
	h := newTwoHosts(t)
	h.CopyProgram(h.Path("model"))
	first, second := h.swop(1), h.swop(2)
	for _, p := range []*e2etest.Proc{first, second} {
		p.Sees("Ready for Task Execution!")
	}
	for _, name := range []string{"taskdefs/user_env_task.yaml", "taskdefs/swarm_task.yaml"} {
		h.writes(name, "<CURRENT-PATH>", h.Dir)
	}
	out := h.swci(h.writes("swci-init", "<CURRENT-PATH>", h.Dir, "<SN-IP>", h.Addr(1)))
	for _, want := range []string{`TASK_STATE +: COMPLETE`, `COMPLETED_PEERS +: 4`, `Envvars stands in line 10 too`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("SWCI does not say %q:\n%s", want, out)
		}
	}
	for i := 1; i <= 4; i++ {
		if err := os.Rename(h.Path(fmt.Sprintf("sl%d", i), "app-data", "metrics"), h.Metrics(i)); err != nil {
			t.Fatal(err)
		}
	}
	h.Agree(1, 2, 3, 4)
	h.empty(1)
	h.empty(2)
	for _, p := range []*e2etest.Proc{first, second, h.sn} {
		p.Stop()
	}
}
