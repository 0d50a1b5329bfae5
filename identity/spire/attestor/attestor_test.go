package attestor

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	workloadattestorv1 "github.com/spiffe/spire-plugin-sdk/proto/spire/plugin/agent/workloadattestor/v1"
	configv1 "github.com/spiffe/spire-plugin-sdk/proto/spire/service/common/config/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/swarmd/swarmd/identity"
)

// idle makes this test's binary a process that does nothing until its input ends.
const idle = "SWARM_ATTESTOR_IDLE"

func TestMain(m *testing.M) {
	if os.Getenv(idle) != "" {
		fmt.Fprintln(os.Stdout, "up")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// copied puts this test's binary, which counts as swarmd, under a name into a folder that every user may enter.
func copied(t *testing.T, name string, extra ...byte) string {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "attestor")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, append(raw, extra...), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// start runs an idle process and returns its number. It ends with the test.
func start(t *testing.T, path string, attr *syscall.SysProcAttr, args ...string) int {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = []string{idle + "=1"}
	cmd.SysProcAttr = attr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		t.Fatalf("helper process: %q, %v", line, err)
	}
	return cmd.Process.Pid
}

// configured returns a plugin and what it logs.
func configured(t *testing.T, data string) (*Plugin, *strings.Builder) {
	t.Helper()
	var log strings.Builder
	p := new(Plugin)
	p.SetLogger(hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Debug}))
	if _, err := p.Configure(t.Context(), &configv1.ConfigureRequest{HclConfiguration: data}); err != nil {
		t.Fatal(err)
	}
	return p, &log
}

func attest(t *testing.T, p *Plugin, pid int) []string {
	t.Helper()
	resp, err := p.Attest(t.Context(), &workloadattestorv1.AttestRequest{Pid: int32(pid)})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetSelectorValues()
}

func TestRoleOfRealProcess(t *testing.T) {
	p, _ := configured(t, "")
	swarmd, swarmctl := copied(t, "swarmd"), copied(t, "swarmctl")
	for _, c := range []struct {
		path string
		args []string
		want string
	}{
		{swarmd, []string{"run-sn", "--host-ip=h"}, "node-type:sn"},
		{swarmd, []string{"--x=1", "run-sl", "run-sn"}, "node-type:sl"},
		{swarmd, []string{"run-swop"}, "node-type:swop"},
		{swarmd, []string{"run-swci"}, "node-type:swci"},
		{swarmctl, []string{"list", "nodes"}, "node-type:swci"},
		{swarmctl, []string{"run-swci"}, "node-type:swci"},
		{swarmctl, []string{"run-sn"}, "node-type:swci"},
		{swarmd, []string{"recover-sn", "--state-dir", "run-sn"}, "node-type:swci"},
		{swarmd, []string{"restore-sn", "run-sl"}, "node-type:swci"},
		{swarmd, []string{"doctor", "run-sl", "--sn-ip=h"}, "node-type:sl"},
		{swarmd, []string{"doctor", "version", "run-sl"}, ""},
		{swarmd, []string{"version"}, ""},
		{swarmd, []string{"health", "run-sn"}, ""},
		{swarmd, []string{"run-authority"}, ""},
		{swarmd, nil, ""},
	} {
		got := strings.Join(attest(t, p, start(t, c.path, nil, c.args...)), ",")
		if got != c.want {
			t.Errorf("%s %v: got %q, want %q", filepath.Base(c.path), c.args, got, c.want)
		}
	}
}

func TestChangedBinaryGetsNothing(t *testing.T) {
	p, log := configured(t, "")
	changed := copied(t, "swarmd", 0)
	pid := start(t, changed, nil, "run-sn")
	for range 3 {
		if got := attest(t, p, pid); len(got) != 0 {
			t.Fatalf("changed binary: got %v, want nothing", got)
		}
	}
	sum, err := fileDigest(changed)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "process gets no selectors"); n != 1 {
		t.Errorf("three refusals were said %d times, want once:\n%s", n, log)
	}
	if !strings.Contains(log.String(), sum.String()) || !strings.Contains(log.String(), changed) {
		t.Errorf("the log names not what was refused:\n%s", log)
	}
	// Its digest listed, it gets its role, and the unchanged one does not any more.
	p, _ = configured(t, `digests = ["sha256:`+strings.ToUpper(sum.String())+`"]`)
	if got := attest(t, p, pid); !slices.Equal(got, []string{"node-type:sn"}) {
		t.Errorf("listed binary: got %v", got)
	}
	if got := attest(t, p, start(t, copied(t, "swarmd"), nil, "run-sn")); len(got) != 0 {
		t.Errorf("binary that is not listed: got %v", got)
	}
}

// TestReplacedFile: what counts is what runs, not what lies at its path by now.
func TestReplacedFile(t *testing.T) {
	p, _ := configured(t, "")
	good, bad := copied(t, "swarmd"), copied(t, "swarmd", 0)
	runsGood, runsBad := start(t, good, nil, "run-sl"), start(t, bad, nil, "run-sl")
	if err := os.Rename(good, good+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(bad, good); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(good+".old", bad); err != nil {
		t.Fatal(err)
	}
	if got := attest(t, p, runsGood); !slices.Equal(got, []string{"node-type:sl"}) {
		t.Errorf("process of the replaced file: got %v", got)
	}
	if got := attest(t, p, runsBad); len(got) != 0 {
		t.Errorf("changed process whose path holds a good file: got %v", got)
	}
	if err := os.Remove(bad); err != nil {
		t.Fatal(err)
	}
	if got := attest(t, p, runsGood); !slices.Equal(got, []string{"node-type:sl"}) {
		t.Errorf("process of the removed file: got %v", got)
	}
}

func TestRolesLimitedToUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: run the tests as root")
	}
	p, log := configured(t, "roles {\n sn = [0]\n sl = [1000, 65534]\n swop = []\n}")
	swarmd := copied(t, "swarmd")
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	for _, c := range []struct {
		role string
		attr *syscall.SysProcAttr
		want bool
	}{{"sn", nil, true}, {"sn", nobody, false}, {"sl", nil, false}, {"sl", nobody, true}, {"swop", nil, false}, {"swci", nobody, true}} {
		got := attest(t, p, start(t, swarmd, c.attr, "run-"+c.role))
		if (len(got) == 1) != c.want {
			t.Errorf("role %s, nobody %v: got %v, want %v", c.role, c.attr != nil, got, c.want)
		}
	}
	if !strings.Contains(log.String(), "user 65534 may not take role sn") {
		t.Errorf("no such refusal in the log:\n%s", log)
	}
}

func TestUnreadableExecutable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: run the tests as root")
	}
	// The user nobody's plugin may not look into root's process.
	pid := start(t, copied(t, "swarmd"), nil, "run-sn")
	cmd := exec.Command(copied(t, "attestor.test"), "-test.run=^TestAttestForeign$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = []string{fmt.Sprintf("SWARM_ATTESTOR_PID=%d", pid)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestAttestForeign is run by TestUnreadableExecutable as another user; by itself it has nothing to look at.
func TestAttestForeign(t *testing.T) {
	var pid int
	if _, err := fmt.Sscan(os.Getenv("SWARM_ATTESTOR_PID"), &pid); err != nil {
		return
	}
	p, log := configured(t, "")
	if got := attest(t, p, pid); len(got) != 0 || !strings.Contains(log.String(), "may not be read: run the agent as root") {
		t.Errorf("got %v, log:\n%s", got, log)
	}
}

func TestGoneProcessIsAnError(t *testing.T) {
	p, _ := configured(t, "")
	cmd := exec.Command(copied(t, "swarmd"), "run-sn")
	cmd.Env = []string{idle + "=1"}
	if err := cmd.Start(); err != nil { // its input is empty: it ends
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	// Not yet waited for, it is a zombie: a number that still stands for nothing.
	if err := waitZombie(t.Context(), pid); err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{"zombie", "gone"} {
		_, err := p.Attest(t.Context(), &workloadattestorv1.AttestRequest{Pid: int32(pid)})
		if status.Code(err) != codes.NotFound {
			t.Errorf("%s process: got %v, want not found", state, err)
		}
		_ = cmd.Wait()
	}
}

func waitZombie(ctx context.Context, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return err
		}
		if strings.Contains(string(raw), ") Z ") {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestProcessThatBecomesAnother: an exec between the two looks is noticed.
func TestProcessThatBecomesAnother(t *testing.T) {
	swarmd := copied(t, "swarmd")
	pid := start(t, swarmd, nil, "run-sn")
	proc, err := openProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer proc.close()
	w, err := proc.workload()
	if err != nil {
		t.Fatal(err)
	}
	exe, err := proc.openExe()
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	if err := proc.same(exe, w); err != nil {
		t.Fatalf("unchanged process: %v", err)
	}
	other, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := proc.same(other, w); err == nil {
		t.Error("another executable was not noticed")
	}
	w.role = identity.RoleSL
	if err := proc.same(exe, w); err == nil {
		t.Error("another role was not noticed")
	}
}

func TestNotConfigured(t *testing.T) {
	_, err := new(Plugin).Attest(t.Context(), &workloadattestorv1.AttestRequest{Pid: int32(os.Getpid())})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("got %v", err)
	}
}

func TestDigestsAreCachedUntilTheFileChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var d digests
	sum := func() digest {
		t.Helper()
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s, err := d.of(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	write("one")
	one := sum()
	if len(d.known) != 0 {
		t.Error("a file that has just changed was cached: a second change in the same tick would not be seen")
	}
	write("two")
	if sum() == one {
		t.Error("the digest of a changed file is the old one")
	}
	// As if it had been written long ago: the cache answers.
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	key, err := keyOf(f)
	if err != nil {
		t.Fatal(err)
	}
	d.put(key, one)
	if got, err := d.of(t.Context(), f); err != nil || got != one {
		t.Errorf("the cache was not asked: %v, %v", got, err)
	}
}

func TestSelf(t *testing.T) {
	if got := Self(); got != nil {
		t.Errorf("a test is no node, got %v", got)
	}
}

func TestSaidOnceAMinute(t *testing.T) {
	var s said
	now := time.Now()
	if !s.again("a", now) || s.again("a", now.Add(30*time.Second)) || !s.again("b", now) || !s.again("a", now.Add(61*time.Second)) {
		t.Error("said too often or too rarely")
	}
	for i := range 10 * maxSaid {
		s.again(fmt.Sprint(i), now)
	}
	if len(s.last) > maxSaid {
		t.Errorf("%d remembered, want at most %d", len(s.last), maxSaid)
	}
}
