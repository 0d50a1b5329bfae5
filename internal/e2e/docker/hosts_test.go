package docker_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/volume"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// nodesImage is what SLs in containers are started from.
const nodesImage = "swarmd:latest"

// hosts are those of SWOPs, with an engine each, in network namespaces that are joined by a switch; SNs are on others, and who types commands
// is on one more.
type hosts struct {
	*e2etest.Swarm

	engines []*enginetest.PrivateEngine // of host 1 and so on
	sns     []*e2etest.Proc
	swops   []*e2etest.Proc // those that tests stop and start again
}

// newHosts makes so many hosts, and SNs that serve.
func newHosts(t *testing.T, sns, n int) *hosts {
	t.Helper()
	h := &hosts{}
	h.Swarm = e2etest.NewSwarm(t, func(string, int) []string { return []string{"--identity", "embedded=" + h.Path("ca")} })
	e2etest.Start(t, "authority", h.Dir, nil, "swarmd", "run-authority", "--dir", h.Path("ca")).Sees("embedded authority started")
	h.begin(sns, n)
	return h
}

// begin starts what newHosts makes, with the identities that there are.
func (h *hosts) begin(sns, n int) {
	h.T.Helper()
	enginetest.NeedImage(h.T, enginetest.Engine(h.T), nodesImage, "scripts/images swarmd")
	h.InNamespaces()
	for i := 1; i <= sns; i++ {
		h.sns = append(h.sns, h.SN(i))
		h.sns[i-1].Sees("Starting SWARM-API-SERVER on port: 30304")
	}
	for i := 1; i <= n; i++ {
		h.engines = append(h.engines, enginetest.Private(h.T, enginetest.In(h.Host(20+i).Namespace()), enginetest.Images(nodesImage, enginetest.TestImage)))
		h.T.Cleanup(func() { h.tell(i) })
	}
}

// tell logs what containers say at a failure.
func (h *hosts) tell(i int) {
	if !h.T.Failed() {
		return
	}
	at := &site{t: h.T, engine: h.engines[i-1].Engine()}
	all, err := at.engine.ContainerList(context.Background(), container.ListOptions{All: true})
	if err != nil {
		h.T.Log(err)
	}
	for _, c := range all {
		out, err := at.logs(context.Background(), c.ID)
		h.T.Logf("---- host %d, %s (%s) %v\n%s", i, c.Names, c.Status, err, e2etest.Last(out, 30))
	}
}

// writes makes a file of the test's folder of one in testdata, with what differs from test to test filled in as users do.
func (h *hosts) writes(name string, with ...string) string {
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
func (h *hosts) swop(i int, extra ...string) *e2etest.Proc {
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
	}, append(h.Identity("swop", i), extra...)...)...)
}

// seesReady starts the SWOP of a host, and waits until it takes tasks.
func (h *hosts) seesReady(i int, extra ...string) *e2etest.Proc {
	h.T.Helper()
	p := h.swop(i, extra...)
	p.Sees("Ready for Task Execution!")
	return p
}

// swarmctl runs a command as operator i, and returns its exit code and what it says. Any SN may be down.
func (h *hosts) swarmctl(i int, args ...string) (int, string) {
	h.T.Helper()
	args = append(append([]string{"swarmctl"}, args...), h.Identity("swci", i)...)
	for n := range h.sns {
		args = append(args, "--sn", h.Addr(n+1)+":30304")
	}
	p := h.Start(40, "swarmctl", args...)
	return p.Exits(), p.Output()
}

// orders wants a command to succeed.
func (h *hosts) orders(args ...string) string {
	h.T.Helper()
	code, out := h.swarmctl(1, args...)
	if code != 0 {
		h.T.Fatalf("swarmctl %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// swci runs a script of SWCI, and returns what it says.
func (h *hosts) swci(file string) string {
	h.T.Helper()
	p := h.Start(40, "swci", append([]string{"swarmctl", "-f", file, "--sn", h.Addr(1) + ":30304"}, h.Identity("swci", 1)...)...)
	p.Ends(4 * e2etest.Timeout)
	return p.Output()
}

// empty wants that host i's engine has no container, and no volume but those with the keys of its SLs, and these.
func (h *hosts) empty(i int, keeps ...string) {
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
		if !strings.Contains(v.Name, fmt.Sprintf("swop-%d-sl-", i)) && !slices.Contains(keeps, v.Name) {
			h.T.Errorf("on host %d volume %s is left", i, v.Name)
		}
	}
}

// task makes a task by commands.
func (h *hosts) task(name, kind, prereq, body string) {
	h.T.Helper()
	file := h.Path(name + ".yaml")
	text := fmt.Sprintf("Name : %s\nTaskType : %s\nAuthor : me\nPrereq : %s\nOutcome : %s\nBody :\n", name, kind, prereq, name)
	for line := range strings.Lines(body) {
		text += "  " + line
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		h.T.Fatal(err)
	}
	h.orders("create", "task", "from", file)
	h.orders("finalize", "task", name)
}

// taskOfImage makes the task "user_env_task", whose outcome the hosts have.
func (h *hosts) taskOfImage() {
	h.T.Helper()
	h.orders("create", "task", "from", h.writes("taskdefs/user_env_task.yaml"))
	h.orders("finalize", "task", "user_env_task")
}
