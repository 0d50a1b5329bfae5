package jobs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

const (
	apiMarker = "swarm.blCnt : INFO : Starting SWARM-API-SERVER on port: 30304"
	operator  = 90 // the place of who types commands
)

func TestMain(m *testing.M) { os.Exit(e2etest.Main(m)) }

// hosts are those of SWOPs, and SNs on others, all joined by one switch.
type hosts struct {
	*e2etest.Swarm

	authority *e2etest.Proc
	sns       map[int]*e2etest.Proc
	swops     map[int]*e2etest.Proc
	before    []string // words that start a SWOP; none: it is started as it is
}

// newHosts starts the authority and SNs 1 to n, which serve then.
func newHosts(t *testing.T, n int) *hosts {
	t.Helper()
	t.Parallel()
	h := &hosts{sns: map[int]*e2etest.Proc{}, swops: map[int]*e2etest.Proc{}}
	h.Swarm = e2etest.NewSwarm(t, func(string, int) []string { return []string{"--identity", "embedded=" + h.Path("ca")} })
	h.InNamespaces()
	h.authority = e2etest.Start(t, "authority", h.Dir, nil, "swarmd", "run-authority", "--dir", h.Path("ca"))
	h.authority.Sees("embedded authority started")
	for i := 1; i <= n; i++ {
		h.sns[i] = h.SN(i)
	}
	for _, p := range h.sns {
		p.Sees(apiMarker)
	}
	h.Addr(operator)
	return h
}

// policies of hosts: who may have what carried out there.
const (
	anything   = "sentences:\n- Allow spiffe://swarm.learning/swarm/swci to use host where all {task.type='RUN_JOB'}\n"
	hostsOwn   = anything + "limits:\n  networks: [host, lab]\n"
	profileFor = "groupname: g\ntaskrunner: %s\npolicyuri: policy.yaml\nnetwork: none\nresourcemgr:\napls:\napisrv:\n  locator: {host: %s, port: null, service: null}\nenvvars: null\n" +
		"nodes:\n- slnodedef: {idx: 0, identity: null, slhostname: null, usrhostname: null, privatedata: null, slenvvars: null, usrenvvars: null}\n"
)

// swop starts the SWOP of host i.
func (h *hosts) swop(i int, policy string, extra ...string) {
	h.T.Helper()
	dir := h.Path(fmt.Sprintf("usr%d", i))
	if err := errors.Join(
		os.MkdirAll(dir, 0o700), os.WriteFile(dir+"/profile.yaml", fmt.Appendf(nil, profileFor, task.DefaultTaskrunner, h.Addr(1)), 0o600), os.WriteFile(dir+"/policy.yaml", []byte(policy), 0o600),
	); err != nil {
		h.T.Fatal(err)
	}
	name := fmt.Sprintf("swop-%d", i)
	args := []string{"swarmd", "run-swop", "--name", name, "--host-ip", h.Addr(20 + i), "--usr-dir", dir, "--profile-file-name", "profile.yaml", "--state-dir", h.Path(name)}
	for n := range h.sns {
		args = append(args, "--sn-ip", h.Addr(n))
	}
	if len(h.before) > 0 {
		args[0] = filepath.Join(e2etest.BinDir, args[0])
		args = slices.Concat(h.before, args)
	}
	h.swops[i] = h.Start(20+i, name, append(append(args, h.Identity("swop", i)...), extra...)...)
}

// serve waits until all SWOPs take tasks.
func (h *hosts) serve() {
	h.T.Helper()
	for _, p := range h.swops {
		p.Sees("Ready for Task Execution!")
	}
}

// looks waits for what takes its time, and costs the machine something to look at.
func (h *hosts) looks(what string, is func() bool) {
	h.T.Helper()
	h.UntilWithin(3*e2etest.Timeout, what, func() bool {
		<-time.After(100 * time.Millisecond)
		return is()
	})
}

// swarmctl starts a command. Any SN may be down.
func (h *hosts) swarmctl(args ...string) *e2etest.Proc {
	h.T.Helper()
	args = append(append([]string{"swarmctl"}, args...), h.Identity("swci", 1)...)
	for n := range h.sns {
		args = append(args, "--sn", h.Addr(n)+":30304")
	}
	return h.Start(operator, "swarmctl", args...)
}

// says runs a command, and holds its exit code and what it prints.
func (h *hosts) says(code int, command string, wants ...string) string {
	h.T.Helper()
	p := h.swarmctl(strings.Fields(command)...)
	if got := p.Exits(); got != code {
		h.T.Errorf("%s: exit code %d, want %d\n%s", command, got, code, p.Output())
	}
	h.holds(command, p.Output(), wants...)
	return p.Output()
}

func (h *hosts) holds(command, out string, wants ...string) {
	h.T.Helper()
	for _, want := range wants {
		if !strings.Contains(out, want) {
			h.T.Errorf("%s: %q is missing:\n%s", command, want, out)
		}
	}
}

// job writes the file of a job that has one program, p.py.
func (h *hosts) job(name, program, lines string) string {
	h.T.Helper()
	file := h.Path(name, "job.yaml")
	if err := errors.Join(
		os.MkdirAll(h.Path(name, "source"), 0o700), os.WriteFile(h.Path(name, "source", "p.py"), []byte(program), 0o600),
		os.WriteFile(file, []byte("name: "+name+"\nsource: source\n"+lines), 0o600),
	); err != nil {
		h.T.Fatal(err)
	}
	return file
}

// stop ends all that still runs, and holds that nothing is left of it. Those that were killed have left their sockets.
func (h *hosts) stop(killed ...int) {
	h.T.Helper()
	for _, i := range killed {
		if err := os.Remove(h.Path(fmt.Sprintf("swop-%d", i), "health.sock")); err != nil {
			h.T.Error(err)
		}
		delete(h.swops, i)
	}
	for _, p := range h.swops {
		p.Stop()
	}
	for _, p := range h.sns {
		p.Stop()
	}
	h.authority.Stop()
}
