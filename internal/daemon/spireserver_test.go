package daemon_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/daemon"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// spireServer puts the real spire-server first on PATH.
func spireServer(t *testing.T) string {
	t.Helper()
	path := e2etest.Spire(t, "spire-server")
	t.Setenv("PATH", filepath.Dir(path)+":"+os.Getenv("PATH"))
	return path
}

// TestServerOptions compares the table with what the real server says of itself.
func TestServerOptions(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), spireServer(t), "run", "-help").CombinedOutput()
	if len(out) == 0 {
		t.Fatal(err)
	}
	have := map[string]bool{} // name: takes a value
	for _, m := range regexp.MustCompile(`(?m)^  -(\w+)( \w+)?$`).FindAllStringSubmatch(string(out), -1) {
		have[m[1]] = m[2] != ""
	}
	if len(have) < 5 {
		t.Fatalf("can't read the help:\n%s", out)
	}
	if diff := cmp.Diff(have, daemon.ServerOptions()); diff != "" {
		t.Errorf("options of spire-server run (-server +table):\n%s", diff)
	}
}

// output is a writer that can be watched.
type output struct {
	mu   sync.Mutex
	b    bytes.Buffer
	more chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.more <- struct{}{}:
	default:
	}
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// runServer runs `swarmd run-spire-server` until the test ends, and returns when it is ready.
func runServer(t *testing.T, home string, args ...string) *output {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	out := &output{more: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	go func() {
		done <- daemon.Main(append([]string{
			"swarmd", "run-spire-server", "-bindAddress", "127.0.0.1", "--serverPort=" + strconv.Itoa(l.Addr().(*net.TCPAddr).Port),
		}, args...), daemon.Env{
			Stdout: out, Stderr: out,
			Getenv:  func(k string) string { return map[string]string{"HOME": home, "XDG_STATE_HOME": home}[k] },
			Signals: func(context.Context) (context.Context, context.CancelFunc) { return ctx, cancel },
		})
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-done; code != 0 {
			t.Errorf("run-spire-server ended with %d:\n%s", code, out)
		}
	})
	limit := time.After(time.Minute)
	for !strings.Contains(out.String(), "SPIRE server is ready") {
		select {
		case <-out.more:
		case code := <-done:
			done <- 0
			t.Fatalf("run-spire-server ended with %d:\n%s", code, out)
		case <-limit:
			t.Fatalf("not ready:\n%s", out)
		}
	}
	return out
}

func TestSpireServerAndToken(t *testing.T) {
	bin := spireServer(t)
	if args := os.Getenv("SWARMD_TEST_MAIN"); args != "" { // swarmd on the other side of ssh
		os.Exit(daemon.Main(append([]string{"swarmd"}, strings.Fields(args)...), daemon.OS()))
	}
	home, err := os.MkdirTemp("", "swarmd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	dir := filepath.Join(home, "server")
	socket := filepath.Join(dir, "api.sock")
	out := runServer(t, home, "--state-dir", dir, "-trustDomain", "a.example", "--node=sl/hospital-a", "-logLevel=debug", "--runtime", "process", "--metrics", unused(t))
	for _, want := range []string{
		"socket=" + socket, "trust_domain=a.example", "swarmd spire-token --server-socket " + socket + " sl/hospital-a", " : DEBUG : ",
		"entry_id=swarm.sl.hospital-a", " : spire-server : INFO : ", "metrics are served",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}

	told := scrape(t, out.String())
	for _, want := range []string{"\nswarmd_spire_server_up 1\n", "\nswarmd_spire_registration_entries 6\n", "\nswarmd_spire_agents 0\n", "\nswarmd_ca_expiry_timestamp_seconds ", "\nswarmd_node_info{name=\"spire-server\",role=\"spire-server\"} 1\n"} {
		if !strings.Contains(told, want) {
			t.Errorf("its metrics lack %q:\n%s", want, told)
		}
	}

	code, token, errs := swarmd(t, home, "spire-token", "--server-socket", socket, "sl/hospital-a", "swci")
	if code != 0 || !regexp.MustCompile(`^[0-9a-f-]{36}\n$`).MatchString(token) {
		t.Fatalf("spire-token: %d %q %q", code, token, errs)
	}
	shown, err := exec.CommandContext(t.Context(), bin, "entry", "show", "-socketPath", socket,
		"-parentID", "spiffe://a.example/spire/agent/join_token/"+strings.TrimSpace(token)).CombinedOutput()
	for _, alias := range []string{"/swarm/sl-agent/hospital-a\n", "/swarm/swci-agent\n"} {
		if err != nil || !strings.Contains(string(shown), alias) {
			t.Errorf("no alias %q: %v\n%s", alias, err, shown)
		}
	}

	// Nobody gets the weaker identity unasked.
	for _, tc := range []struct {
		args      []string
		code      int
		says      string
		path      string // of the agent
		noTokenIn bool
	}{
		{args: []string{"sl/hospital-b"}, code: 1, says: "sl/hospital-b has no registration entry of its own: --create makes it", noTokenIn: true},
		{args: []string{"--json", "sl/hospital-b"}, code: 1, says: "--shared gives it the one that all nodes of role sl share", noTokenIn: true},
		{args: []string{"--create", "--shared", "sl/hospital-b"}, code: 1, says: "give one of the two", noTokenIn: true},
		{args: []string{"--shared", "--json", "sl/hospital-b"}, says: "the token is for the one that all nodes of role sl share", path: "/swarm/sl-agent"},
		{args: []string{"--create", "--json", "sl/hospital-b"}, says: "the registration entry of sl/hospital-b is made", path: "/swarm/sl-agent/hospital-b"},
		{args: []string{"--json", "sl/hospital-b"}, path: "/swarm/sl-agent/hospital-b"},
	} {
		code, out, errs := swarmd(t, home, append([]string{"spire-token", "--server-socket", socket}, tc.args...)...)
		if code != tc.code || !strings.Contains(errs, tc.says) || tc.noTokenIn != (out == "") || !strings.Contains(out, `"agent":"`+tc.path+`"`) && tc.path != "" {
			t.Errorf("spire-token %v: %d, stdout %q, stderr %q", tc.args, code, out, errs)
		}
	}

	// The same over ssh: a fake ssh drops its own options and lets a shell do the rest, as sshd does.
	fake := t.TempDir()
	script(t, fake, "ssh", `echo "$@" > `+fake+`/args; while [ "$1" != -- ]; do shift; done; shift; shift; exec sh -c "$*"`)
	script(t, fake, "swarmd", `SWARMD_TEST_MAIN="$1 --server-socket `+socket+` $2 $3 $4" exec `+os.Args[0]+` -test.run='^TestSpireServerAndToken$'`)
	t.Setenv("PATH", fake+":"+os.Getenv("PATH"))
	source := spire.TokenSource{ServerAddress: "server.example", SSHUser: "bob", SSHPort: 2222}
	join, err := source.Join(t.Context(), identity.RoleSL, "hospital-a")
	if err != nil {
		t.Fatal(err)
	}
	if join.TrustDomain != "a.example" || !bytes.Contains(join.Bundle, []byte("BEGIN CERTIFICATE")) || len(join.Token) != 36 || !strings.Contains(join.Origin, "bob@server.example:2222") {
		t.Errorf("got %+v", join)
	}
	args, _ := os.ReadFile(filepath.Join(fake, "args"))
	if want := "-o BatchMode=yes -o ConnectTimeout=10 -p 2222 -l bob -- server.example swarmd spire-token --json --shared sl/hospital-a\n"; string(args) != want {
		t.Errorf("ssh got %q, want %q", args, want)
	}
}

// script writes an executable shell script.
func script(t *testing.T, dir, name, body string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestSpireMistakes(t *testing.T) {
	home := t.TempDir()
	t.Setenv("PATH", home)
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{[]string{"run-spire-server", "-serverPrt", "1"}, []string{"unknown option -serverPrt", "--serverPort"}},
		{[]string{"run-spire-server", "-serverPort"}, []string{"-serverPort: missing argument"}},
		{[]string{"run-spire-server", "--runtime", "podman"}, []string{"--runtime podman"}},
		{[]string{"run-spire-server", "--log-level", "loud"}, []string{"--log-level loud"}},
		{[]string{"run-spire-server", "--state-dir", home}, []string{"spire-server", "make spire"}},
		{[]string{"run-spire-server", "--state-dir", home, "--node", "cook/a"}, []string{"--node", "cook"}},
		{[]string{"spire-token"}, []string{"sl/hospital-a"}},
		{[]string{"spire-token", "cook/a"}, []string{"cook/a", "sn, sl, swop, swci"}},
		{[]string{"spire-token", "--server-socket", home + "/none.sock", "sl"}, []string{home + "/none.sock", "running on this machine"}},
	} {
		code, out, errs := swarmd(t, home, tc.args...)
		if code != 1 || out != "" || slices.ContainsFunc(tc.want, func(w string) bool { return !strings.Contains(errs, w) }) {
			t.Errorf("%v: %d, stdout %q, stderr %q, want %q in it", tc.args, code, out, errs, tc.want)
		}
	}
}
