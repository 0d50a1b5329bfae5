package spire_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity/spire/spiretest"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/invitation"
)

// The commands of docs/operations/invite.md: one on the SPIRE server's machine, one on the new host. It joins a training that runs,
// without a restart of anything, and one line is carried.
func TestInvitation(t *testing.T) {
	t.Parallel()
	e2etest.NeedPython(t)
	w := newInviting(t)
	sn := w.sns(1)[0]
	sls := w.sls(2, "BATCHES=150", "BATCH_SECONDS=0.1", "MIN_PEERS=2")
	for _, p := range sls {
		p.Sees("round=2 ")
	}

	file := w.Path("hospital-d.invite")
	said := w.invites("sl/hospital-d", "--expires", "1h", "--out", file)
	line := read(t, file)
	i, err := invitation.Decode(line)
	if err != nil {
		t.Fatal(err)
	}
	fingerprint, _ := i.Fingerprint()
	for _, want := range []string{fingerprint, "swarmd run-sl --invite " + file, "--allow-peer spiffe://swarm.learning/swarm/sl/hospital-d", "registration entry made"} {
		if !strings.Contains(said, want) {
			t.Errorf("invite does not say %q:\n%s", want, said)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the invitation has mode %v, %v", info.Mode(), err)
	}
	args := w.hospital("hospital-d", 3, "-e", "MIN_PEERS=2", "-e", "BATCHES=20", "-e", "BATCH_SECONDS=0.1")
	sl := w.Start(13, "hospital-d", append(args, "--invite", file)...)
	sl.Sees("fingerprint="+fingerprint, "spiffe://swarm.learning/swarm/sl/hospital-d", "contributed=true")
	w.nowhere(i.Token)
	finish(t, append(sls, sl)...)
	w.Agree(1, 2, 3)

	// A restart needs no invitation, and none does harm.
	for _, more := range [][]string{{"--invite", file}, nil} {
		again := w.Start(13, "again", append(w.hospital("hospital-d", 3, "-e", "CONTRACT=other"), more...)...)
		again.Sees("registered with the swarm")
		again.Signal(15)
		again.Exits()
	}
	w.refusals(line, i)
	sn.Stop()
}

// One invitation for the components of one host: they share the agent, whoever starts it. Operators admit the swarm's SNs, and the line
// carries that for the host's, so that nobody types another command.
func TestInvitationOfSeveralComponents(t *testing.T) {
	t.Parallel()
	w := newInviting(t)
	w.SN(1, "--admit", "operator").Sees(apiMarker)
	file := w.Path("host.invite")
	if said := w.invites("sn/sn-2", "sl/hospital-e", "swci", "--out", file); !strings.Contains(said, "is admitted as SN sn-2 (invitation 1 of the ledger)") {
		t.Errorf("invite says %q", said)
	}
	i, err := invitation.Decode(read(t, file))
	if err != nil || i.Admission == nil {
		t.Fatalf("the line admits nobody: %v", err)
	}
	sl := w.Start(14, "hospital-e", append(w.attached("hospital-e", 4), "--invite", file)...)
	sn := w.Start(2, "sn-2", "swarmd", "run-sn", "--host-ip", w.Addr(2), "--state-dir", w.Path("host", "sn"), "--invite", file)
	sn.Sees(apiMarker)
	if strings.Contains(sn.Output(), "waits until an operator admits it") {
		t.Error("the SN waits for an operator")
	}
	w.nowhere(base64.RawURLEncoding.EncodeToString(i.Admission))
	sl.Sees("registered with the swarm")
	ctl(t, w.Dir, "create", "context", "e", "--invite", file)
	if out := ctl(t, w.Dir, "list", "nodes", "--context", "e"); !strings.Contains(out, "sn-2") || !strings.Contains(out, "hospital-e") {
		t.Errorf("list nodes says %q", out)
	}
	w.audited(i, `"invitation":1,"claim":`, "--context", "e")
	runs, uses := sn, sl
	if strings.Contains(sn.Output(), "of another component on this host is used") {
		runs, uses = sl, sn
	}
	uses.Sees("the SPIRE agent of another component on this host is used")
	runs.Signal(15)
	runs.Exits()
	uses.Sees("this one runs it from now on", "workload API answers again")
	uses.Signal(15)
	uses.Exits()

	lone := w.Start(9, "sn-9", append([]string{"swarmd", "run-sn", "--host-ip", w.Addr(9), "--sentinel-ip", w.Addr(9), "--no-found", "--state-dir", w.Path("sn9")}, w.Identity("sn", 9)...)...)
	lone.Fails("--no-found", "would found a NEW swarm", "--join HOST")
}

// A SWOP joins by one line, and the SLs that it starts for a task get their identities by it too.
func TestInvitationOfASWOP(t *testing.T) {
	t.Parallel()
	e2etest.NeedPython(t)
	w := newInviting(t)
	sn := w.sns(1)[0]
	file := w.Path("host.invite")
	said := w.invites("swop/hospital-f", "swci", "--out", file)
	if !strings.Contains(said, "swarmd run-swop --invite "+file+" --usr-dir DIR --profile-file-name PROFILE") {
		t.Errorf("invite says %q", said)
	}
	w.CopyProgram(w.Path("private"))
	for name, text := range map[string]string{
		"policy.yaml": "sentences:\n- Allow spiffe://swarm.learning/swarm/swci to use host where all {runtime='process'}\n",
		"profile.yaml": fmt.Sprintf("groupname: g\ntaskrunner: defaulttaskbb.taskdb.sml.hpe\npolicyuri: policy.yaml\nnetwork: none\nresourcemgr:\napls:\napisrv:\nenvvars: null\nnodes:\n"+
			"  - slnodedef:\n      idx: 0\n      identity: null\n      slhostname: null\n      usrhostname: null\n      slhostip: %s\n      slport: null\n"+
			"      privatedata: { src: %s, mType: BIND }\n      slenvvars: null\n      usrenvvars: null\n", w.Addr(15), w.Path("private")),
		"run.yaml": fmt.Sprintf("Name: train\nTaskType: RUN_SWARM\nAuthor: me\nPrereq: ROOTTASK\nOutcome: none\nBody:\n  Entrypoint: %s\n  Command: train.py\n  WorkingDir: /platform/private\n"+
			"  PrivateContent: /platform/private\n  SharedContent: null\n  Envvars: [MIN_PEERS: 1]\n", e2etest.Python),
	} {
		if err := os.WriteFile(w.Path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	swop := w.Start(15, "swop", "swarmd", "run-swop", "--host-ip", w.Addr(15), "--state-dir", w.Path("swop-host", "swop"), "--usr-dir", w.Path(), "--profile-file-name", "profile.yaml", "--invite", file)
	swop.Sees("Ready for Task Execution!")
	ctl(t, w.Dir, "create", "context", "f", "--invite", file)
	for _, words := range []string{
		"create task from " + w.Path("run.yaml"), "finalize task train", "assign task train to defaulttaskbb.taskdb.sml.hpe with all peers", "wait for taskrunner defaulttaskbb.taskdb.sml.hpe",
	} {
		ctl(t, w.Dir, append([]string{"--context", "f"}, strings.Fields(words)...)...)
	}
	if out := ctl(t, w.Dir, "--context", "f", "list", "nodes"); !strings.Contains(out, "hospital-f-sl-0") {
		t.Errorf("list nodes says %q", out)
	}
	swop.Stop()
	sn.Stop()
}

// inviting is a swarm whose SPIRE server is one of swarmd's, without entries for nodes.
type inviting struct {
	*swarm
	socket, port string
}

func newInviting(t *testing.T) *inviting {
	t.Helper()
	for _, name := range []string{"spire-server", "spire-agent"} {
		e2etest.Spire(t, name)
	}
	dir, port := spiretest.TempDir(t), fmt.Sprint(spiretest.FreePort(t))
	w := &inviting{socket: dir + "/server/api.sock", port: port}
	server := e2etest.Start(t, "run-spire-server", dir, nil, "swarmd", "run-spire-server", "--state-dir", dir+"/server", "-bindAddress", "127.0.0.1", "-serverPort", port)
	server.Sees("SPIRE server is ready")
	options := []string{"-serverAddress", "127.0.0.1", "-serverPort", port, "-genJoinToken", "--spire-server-socket", w.socket}
	w.swarm = &swarm{Swarm: e2etest.NewSwarm(t, func(string, int) []string { return options })}
	return w
}

// invites runs `swarmctl invite` as nobody in particular, on the server's machine, and returns what it said.
func (w *inviting) invites(args ...string) string {
	w.T.Helper()
	return ctl(w.T, w.Dir, append([]string{"invite", "--server-socket", w.socket, "--server", "127.0.0.1:" + w.port, "--sn", w.Addr(1)}, args...)...)
}

// attached is an SL of a host of its own, whose state is beside nobody's but that host's.
func (w *inviting) attached(name string, i int) []string {
	return []string{"swarmd", "run-sl", "--host-ip", w.Addr(10 + i), "--state-dir", w.Path("host", name), "--bridge-dir", w.Bridge(i), "--attach"}
}

// hospital is an SL with the program of SL i.
func (w *inviting) hospital(name string, i int, extra ...string) []string {
	w.T.Helper()
	w.CopyProgram(w.Path("model-" + name))
	args := w.attached(name, i)
	args = append(args[:len(args)-1], "--model-dir", w.Path("model-"+name), "--model-program", "train.py", "--sl-platform", "PYT", "--python", e2etest.Python,
		"-e", fmt.Sprintf("SEED=%d", i), "-e", "SWARM_METRICS_FILE="+w.Metrics(i))
	return append(args, extra...)
}

// audited verifies a copy of the swarm's ledger against the bundle of an invitation, and wants a text in it.
func (w *inviting) audited(i *invitation.Invitation, want string, swarm ...string) {
	w.T.Helper()
	bundle, copied := w.Path("bundle.pem"), w.Path("ledger.jsonl")
	if err := os.WriteFile(bundle, i.BundlePEM(), 0o600); err != nil {
		w.T.Fatal(err)
	}
	ctl(w.T, w.Dir, append([]string{"get", "ledger", "--out", copied}, swarm...)...)
	if out := ctl(w.T, w.Dir, "verify", "ledger", copied, "--bundle", bundle); !strings.Contains(out, "verified: the chain of") {
		w.T.Errorf("verify ledger says %q", out)
	}
	if lines := read(w.T, copied); !strings.Contains(lines, want) {
		w.T.Errorf("the ledger has no %s:\n%s", want, lines)
	}
}

// nowhere wants no process of this machine to show a secret of a line on its command line.
func (w *inviting) nowhere(secret string) {
	w.T.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	if len(files) == 0 {
		w.T.Fatal("no process is seen")
	}
	for _, f := range files {
		if raw, err := os.ReadFile(f); err == nil && strings.Contains(string(raw), secret) {
			w.T.Errorf("%s shows the secret", f)
		}
	}
}

// refusals tries an invitation that was used, and others that can't be.
func (w *inviting) refusals(line string, i *invitation.Invitation) {
	w.T.Helper()
	end := *i
	end.Expires = time.Now().Add(-time.Hour).Truncate(time.Second)
	expired, err := end.Encode()
	if err != nil {
		w.T.Fatal(err)
	}
	half := len(line) / 2
	altered := line[:half] + map[bool]string{true: "B", false: "A"}[line[half] == 'A'] + line[half+1:]
	for name, tt := range map[string]struct {
		line string
		want string
	}{
		"used":    {line, "the invitation of sl/hospital-d was used already, or taken back"},
		"expired": {expired, "the invitation of sl/hospital-d expired at "},
		"altered": {altered, "this invitation was altered on its way"},
		"cut":     {line[:half], "this invitation is cut off"},
	} {
		file := w.Path(name + ".invite")
		if err := os.WriteFile(file, []byte(tt.line), 0o600); err != nil {
			w.T.Fatal(err)
		}
		// Another host: its state is beside nobody else's.
		p := w.Start(13, name, "swarmd", "run-sl", "--attach", "--host-ip", w.Addr(13), "--state-dir", w.Path(name, "sl"), "--bridge-dir", w.Bridge(3), "--invite", file)
		if said := p.Fails(tt.want, "swarmctl invite"); strings.Contains(said, i.Token) {
			w.T.Errorf("%s: it says the join token", name)
		}
	}
	p := w.Start(13, "role", "swarmd", "run-sn", "--host-ip", w.Addr(13), "--state-dir", w.Path("role", "sn"), "--invite", w.Path("used.invite"))
	p.Fails("this invitation is for sl/hospital-d and not for an SN", "swarmctl invite sn/NAME")
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}
