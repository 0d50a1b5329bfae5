package docker_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// ann asks for tasks, bob approves them, and eve would like to.
const ann, bob, eve = 1, 2, 3

// newNamedHosts is newHosts where each has a certificate of its own, so that it is known who asks and who approves.
func newNamedHosts(t *testing.T, sns, n int) *hosts {
	t.Helper()
	h, issued := &hosts{}, map[string]bool{}
	h.Swarm = e2etest.NewSwarm(t, func(role string, i int) []string {
		name := fmt.Sprintf("%s-%d", role, i)
		if role == "swci" {
			name = []string{ann: "ann", bob: "bob", eve: "eve"}[i]
		}
		if !issued[name] {
			e2etest.Start(t, "cert", h.Dir, nil, "swarmctl", "cert", "issue", role+"/"+name, "--dir", h.Path("ca"), "--out", h.Path("certs")).Ends(e2etest.Timeout)
			issued[name] = true
		}
		file := h.Path("certs", role+"-"+name)
		return []string{"--cert", file + "-cert.pem", "--key", file + "-key.pem", "--cacert", h.Path("ca", "ca.pem")}
	})
	e2etest.Start(t, "cert", h.Dir, nil, "swarmctl", "cert", "init", h.Path("ca")).Ends(e2etest.Timeout)
	h.begin(sns, n)
	return h
}

// TestConsentOfAHost: its owner's policy refuses a task, allows one for the digest of its image, and asks about the same when its tag stands for
// another image, which is then refused, and then approved; all by swarmctl, which says who decided. The host has what was allowed and approved, and
// nothing else.
func TestConsentOfAHost(t *testing.T) {
	h := newNamedHosts(t, 1, 1)
	l, err := h.Host(21).Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := enginetest.NewRegistryAt(t, l)
	host := h.seesReady(1, "--policy", h.writes("consent/policy.yaml", "<DIGEST>", r.Digest))
	pull := "OrgAndReg : " + r.Address + "/org\nRepoName : img\nTag : " + r.Tag + "\nAuth : null\n"
	h.taskOfImage()
	h.task("run", task.RunSwarm, "user_env_task", "Entrypoint : python3\nCommand : x.py\nWorkingDir : /w\nEnvvars : null\nPrivateContent : null\nSharedContent : null\n")
	h.task("pull", task.PullImage, "ROOTTASK", pull)
	const peer = "swop-1"

	h.assigns("run", "2")
	h.ends(task.Failed, peer+" refused: swop-1 refuses it to spiffe://swarm.learning/swarm/swci/ann: ")
	h.images(1, 2) // those that the host had

	h.assigns("pull", "1")
	h.ends(task.Succeeded, "")
	h.images(1, 3)

	r.Move(t)
	h.assigns("pull", "1")
	h.asks("pull", peer)
	h.says(bob, 0, "refused on swop-1", "refuse", "task", "pull", "on", peer, "because", "the image is unknown here")
	h.ends(task.Failed, peer+" refused: refused by spiffe://swarm.learning/swarm/swci/bob: the image is unknown here")
	h.images(1, 3)

	h.assigns("pull", "1")
	h.asks("pull", peer)
	h.says(ann, exit.Failed, "has asked for", "approve", "task", "pull", "on", peer)
	h.says(eve, 0, "approved on swop-1", "approve", "task", "pull", "on", peer) // the host knows who may
	h.until("the host to say what it takes that for", func(assignment) bool {
		return strings.Contains(h.orders("list", "taskrunner", "peers", task.DefaultTaskrunner), "does not count")
	})
	h.images(1, 3)
	h.says(bob, 0, "approved on swop-1", "approve", "task", "pull", "on", peer)
	h.ends(task.Succeeded, "")
	h.images(1, 4)
	h.empty(1)
	for _, p := range []*e2etest.Proc{host, h.sns[0]} {
		p.Stop()
	}
}

// assigns has ann hand a task to the host.
func (h *hosts) assigns(name, peers string) {
	h.T.Helper()
	h.says(ann, 0, "task "+name+" is assigned", "assign", "task", name, "to", task.DefaultTaskrunner, "with", peers, "peers")
}

// says runs a command as an operator, and wants this exit code and text.
func (h *hosts) says(who, code int, want string, args ...string) {
	h.T.Helper()
	if got, out := h.swarmctl(who, args...); got != code || !strings.Contains(out, want) {
		h.T.Errorf("swarmctl %s: exit code %d, want %d and %q:\n%s", strings.Join(args, " "), got, code, want, out)
	}
}

// asks waits until a host asks about a task, and says so to who looks.
func (h *hosts) asks(name, host string) {
	h.T.Helper()
	h.until(host+" to ask about "+name, func(assignment) bool {
		out := h.orders("list", "taskrunner", "peers", task.DefaultTaskrunner)
		return strings.Contains(out, "asked") && strings.Contains(out, host)
	})
}

// ends waits for the end of the last assignment, and holds it to its verdict and how its reason begins.
func (h *hosts) ends(verdict task.Verdict, reason string) {
	h.T.Helper()
	a := h.until("an end", func(a assignment) bool { return a.Phase == string(task.Over) })
	if a.Verdict != string(verdict) || !strings.HasPrefix(a.Reason, reason) {
		h.T.Errorf("it ended as %s, %q; want %s, %q", a.Verdict, a.Reason, verdict, reason)
	}
}
