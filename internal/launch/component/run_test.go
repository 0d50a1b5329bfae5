package component_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// output is what a component or a launcher said so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// bench is an engine, a scope of the test's own, and what launchers say.
type bench struct {
	t                *testing.T
	engine           *engine.Engine
	scope            string
	out, errors, log output
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, engine: enginetest.Engine(t)}
	b.scope = enginetest.Scope(t)
	return b
}

func (b *bench) io(stdin io.Reader) component.IO {
	return component.IO{
		Stdin: stdin, Stdout: &b.out, Stderr: &b.errors, Log: slog.New(slog.NewTextHandler(&b.log, nil)),
		Getenv: func(k string) string {
			if k == "SWARM_IMAGE" {
				return image()
			}
			return os.Getenv(k)
		},
	}
}

func image() string {
	if i := os.Getenv("SWARM_IMAGE"); i != "" {
		return i
	}
	return engine.ImageSwarmd
}

// shell is a component that is a script.
func (b *bench) shell(node, script string, change func(*component.Spec)) component.Spec {
	s := component.Spec{
		Options: component.Options{Attach: true, Image: enginetest.TestImage}, Role: naming.RoleSN, Node: node, Scope: b.scope,
		Program: []string{"sh", "-c"}, Args: []string{script},
	}
	if change != nil {
		change(&s)
	}
	return s
}

func (b *bench) run(s component.Spec) (int, error) {
	b.t.Helper()
	return component.Run(b.t.Context(), b.engine, s, b.io(nil))
}

// detached runs a component in the background and returns its ID.
func (b *bench) detached(s component.Spec) string {
	b.t.Helper()
	s.Attach, s.Detach = false, true
	before := len(b.out.String())
	if _, err := b.run(s); err != nil {
		b.t.Fatalf("%v\n%s", err, b.log.String())
	}
	id := strings.TrimSpace(b.out.String()[before:])
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(id) {
		b.t.Fatalf("printed %q, want the container's ID", id)
	}
	return id
}

// await waits until the condition holds.
func (b *bench) await(what string, ok func() bool) {
	b.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(enginetest.Timeout)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			b.t.Fatalf("waited in vain for %s\nout: %s\nerrors: %s\nlog: %s", what, b.out.String(), b.errors.String(), b.log.String())
		}
	}
}

func (b *bench) left() []string { return enginetest.Left(b.t, b.engine, b.scope) }

// logs are what a container said.
func (b *bench) logs(id string) string {
	b.t.Helper()
	r, err := b.engine.ContainerLogs(b.t.Context(), id, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		return err.Error()
	}
	defer r.Close()
	text, _ := io.ReadAll(r)
	return string(text)
}

func TestAttached(t *testing.T) {
	b := newBench(t)
	code, err := b.run(b.shell("n", `echo out; echo err >&2; echo "$A $0" >&2; exit 7`, func(s *component.Spec) {
		s.Env, s.Remove = []string{"A=x y"}, true
	}))
	if err != nil || code != 7 {
		t.Errorf("exit code %d, %v, want 7", code, err)
	}
	if b.out.String() != "out\n" || b.errors.String() != "err\nx y sh\n" {
		t.Errorf("output %q, errors %q", b.out.String(), b.errors.String())
	}
	// --rm takes the container, the state stays.
	if got, want := b.left(), []string{"volume " + component.StateVolume(b.scope, "n")}; !slices.Equal(got, want) {
		t.Errorf("left: %q, want %q", got, want)
	}
	if _, err := b.run(b.shell("n", "true", nil)); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestAttachedInput(t *testing.T) {
	b := newBench(t)
	s := b.shell("", "read a; echo got $a; cat", func(s *component.Spec) {
		s.Stateless, s.Interactive, s.Remove, s.Role = true, true, true, naming.RoleSWCI
	})
	code, err := component.Run(t.Context(), b.engine, s, b.io(strings.NewReader("one\ntwo\n")))
	if err != nil || code != 0 || b.out.String() != "got one\ntwo\n" {
		t.Errorf("exit code %d, %v, output %q", code, err, b.out.String())
	}
	if left := b.left(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestAttachedStop ends the launcher as a signal does: the component ends first, in its own way.
func TestAttachedStop(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan string)
	go func() {
		code, err := component.Run(ctx, b.engine, b.shell("n", `trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.1; done`, nil), b.io(nil))
		done <- fmt.Sprint(code, err)
	}()
	b.await("the component", func() bool { return strings.Contains(b.out.String(), "up") })
	cancel()
	if got := <-done; got != "3 <nil>" || !strings.Contains(b.out.String(), "bye") {
		t.Errorf("ended with %s, output %q", got, b.out.String())
	}
}

func TestIsolation(t *testing.T) {
	b := newBench(t)
	_, err := b.run(b.shell("n", `
touch /x 2>/dev/null && echo root is writable
touch /tmp/x "$SWARM_STATE_DIR/x" && echo places ok
grep -E '^(CapEff|NoNewPrivs)' /proc/self/status | tr -d '\t'
stat -c '%u %a' "$SWARM_STATE_DIR"; id -u; pwd`, func(s *component.Spec) { s.User = "1234:1234" }))
	want := "places ok\nCapEff:0000000000000000\nNoNewPrivs:1\n1234 700\n1234\n/\n"
	if err != nil || b.out.String() != want {
		t.Errorf("%v, got\n%swant\n%s%s", err, b.out.String(), want, b.errors.String())
	}
	_, err = b.run(b.shell("n", "true", nil))
	if err == nil || !strings.Contains(err.Error(), "holds files of user 1234:1234") {
		t.Errorf("another user: %v", err)
	}
}

// TestFiles holds that a key of the caller's can be read inside, at the path that it has outside.
func TestFiles(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	key, state := filepath.Join(dir, "key.pem"), filepath.Join(dir, "state")
	if err := os.WriteFile(key, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(key, 4321, 4321); err != nil {
		t.Skipf("needs root: %v", err)
	}
	_, err := b.run(b.shell("n", "cat "+key+"; echo x >>"+key+" || echo read-only", func(s *component.Spec) { s.Files = []string{key} }))
	if err != nil || b.out.String() != "secret\nread-only\n" {
		t.Errorf("%v, output %q %q", err, b.out.String(), b.errors.String())
	}
	if _, err := b.run(b.shell("m", "echo kept >$SWARM_STATE_DIR/file", func(s *component.Spec) { s.StateDir = state })); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(state, "file")); string(got) != "kept\n" {
		t.Errorf("state on the host: %q, %v, %s", got, err, b.errors.String())
	}
}

func TestRefusals(t *testing.T) {
	b := newBench(t)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	port := strconv.Itoa(busy.Addr().(*net.TCPAddr).Port)
	other := b.detached(b.shell("other", "sleep 1000", func(s *component.Spec) { s.Name = b.scope }))
	for _, tc := range []struct {
		name, want string
		change     func(*component.Spec)
	}{
		{"name in use", `(?i)name.*in use`, func(s *component.Spec) { s.Name = b.scope }},
		{"no network", `(?i)network no-such-net`, func(s *component.Spec) { s.Network = "no-such-net" }},
		{"port in use", `(?i)in use|already allocated`, func(s *component.Spec) { s.Publish = []string{"127.0.0.1:" + port + ":80"} }},
		{"no image", `(?i)no such image`, func(s *component.Spec) { s.Image = "no-such-image:1" }},
		{"bad mount", `-v /no/such/dir:/x: bad mount`, func(s *component.Spec) { s.Volumes = []string{"/no/such/dir:/x"} }},
		{"no program", `no-such-program`, func(s *component.Spec) { s.Program = []string{"no-such-program"} }},
		{"no terminal", `standard input is no terminal`, func(s *component.Spec) { s.Interactive, s.TTY = true, true }},
		{"runs already", `node other runs already in container ` + other[:12], func(s *component.Spec) { s.Node = "other" }},
	} {
		for _, detach := range []bool{true, false} {
			_, err := b.run(b.shell("n", "true", func(s *component.Spec) {
				tc.change(s)
				if s.Detach = detach && !s.TTY; s.Detach {
					s.Attach = false
				}
			}))
			if err == nil || !regexp.MustCompile(tc.want).MatchString(err.Error()) {
				t.Errorf("%s: got %v, want a match of %s", tc.name, err, tc.want)
			}
		}
	}
	// What failed has left nothing; what runs goes on.
	if got, want := b.left(), []string{"container " + b.scope + " (running)", "volume " + component.StateVolume(b.scope, "other")}; !slices.Equal(got, want) {
		t.Errorf("left: %q, want %q", got, want)
	}
}

func TestNetworks(t *testing.T) {
	b := newBench(t)
	name := b.scope + "-net"
	if _, err := b.engine.NetworkCreate(t.Context(), name, network.CreateOptions{Labels: map[string]string{engine.LabelRole: naming.RoleSN, engine.LabelScope: b.scope}}); err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	id := b.detached(b.shell("a", "echo hello >/tmp/hello; exec python3 -m http.server 18080 --directory /tmp", func(s *component.Spec) {
		s.Name, s.Network, s.HostIP, s.Ports = b.scope+"-a", name, host, []component.Port{{Number: 18080}}
	}))
	// By name from a neighbour, and from this host, whose name it was given.
	get := `python3 -c 'import urllib.request as u, sys; sys.stdout.write(u.urlopen("http://%s:18080/hello").read().decode())'`
	neighbour := b.shell("b", fmt.Sprintf("until "+get+"; do sleep 0.1; done 2>/dev/null", b.scope+"-a"), func(s *component.Spec) { s.Network = name })
	if code, err := b.run(neighbour); err != nil || code != 0 || !strings.Contains(b.out.String(), "hello") {
		t.Errorf("neighbour: %d, %v, %q, %q", code, err, b.out.String(), b.errors.String())
	}
	c, err := b.engine.ContainerInspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.NetworkSettings.Ports["18080/tcp"]; len(got) == 0 || got[0].HostPort != "18080" {
		t.Errorf("published: %+v", c.NetworkSettings.Ports)
	}
	conn, err := net.DialTimeout("tcp", "127.0.0.1:18080", 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
