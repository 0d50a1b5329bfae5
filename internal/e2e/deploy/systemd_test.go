package deploy_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/unit"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

const (
	units     = "../../../deploy/systemd"
	installed = "/usr/local/bin/swarmd"
)

func TestMain(m *testing.M) { os.Exit(e2etest.Main(m)) }

// examples is the environment file of each unit.
var examples = map[string]string{"swarmd-sn.service": "sn.env", "swarmd-sl@.service": "sl.env", "swarmd-swop.service": "swop.env", "swarmd-spire-server.service": "spire-server.env"}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(units, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// values are those of one option of a unit's [Service].
func values(t *testing.T, name, option string) (found []string) {
	t.Helper()
	options, err := unit.DeserializeOptions(strings.NewReader(read(t, name)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, o := range options {
		if o.Section == "Service" && o.Name == option {
			found = append(found, o.Value)
		}
	}
	return found
}

// environment reads an environment file; those here need no quotes.
func environment(t *testing.T, name string) map[string]string {
	t.Helper()
	env := map[string]string{}
	for line := range strings.Lines(read(t, name)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		k, v, ok := strings.Cut(line, "=")
		if !ok || strings.ContainsAny(v, `"'\`) {
			t.Fatalf("%s: %q is not K=V without quotes", name, line)
		}
		env[k] = v
	}
	return env
}

// command is the command line of a unit after $OPTIONS and the specifiers are replaced, without swarmd itself.
func command(t *testing.T, name string, env map[string]string, specifiers ...string) []string {
	t.Helper()
	start := values(t, name, "ExecStart")
	if len(start) != 1 {
		t.Fatalf("%s: has %d ExecStart", name, len(start))
	}
	line, ok := strings.CutPrefix(start[0], installed+" ")
	if !ok {
		t.Fatalf("%s: starts %q, want %s", name, start[0], installed)
	}
	return strings.Fields(strings.NewReplacer(append(specifiers, "$OPTIONS", env["OPTIONS"])...).Replace(line))
}

func TestEveryUnitHasItsExample(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(units, "*.service"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	for name := range examples {
		if !slices.Contains(files, name) {
			t.Errorf("no unit %s", name)
		}
	}
	if len(files) != len(examples) {
		t.Errorf("units are %q, with examples for %d", files, len(examples))
	}
}

// systemd's own words on the units: none of complaint, and an exposure of 2.5 of 10 at most.
func TestSystemdTakesTheUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("needs systemd-analyze: apt-get install systemd")
	}
	swarmd, err := exec.LookPath(filepath.Join(e2etest.BinDir, "swarmd"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args := []string{"verify"}
	for name := range examples {
		path := filepath.Join(dir, strings.Replace(name, "@.", "@hospital-a.", 1))
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(read(t, name), installed, swarmd)), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
		if out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=25", "--no-pager", path).CombinedOutput(); err != nil {
			t.Errorf("%s is open to too much: %v\n%s", name, err, out)
		}
	}
	if out, err := exec.Command("systemd-analyze", args...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd does not take them: %v\n%s", err, out)
	}
	// A word that systemd does not know is only a line on standard error: the check above must see it.
	bad := filepath.Join(dir, "bad.service")
	if err := os.WriteFile(bad, []byte("[Service]\nExecStart=/bin/true\nProtectSytem=strict\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := exec.Command("systemd-analyze", "verify", bad).CombinedOutput(); len(out) == 0 {
		t.Error("systemd-analyze does not mind an unknown directive")
	}
}

var (
	helpOption   = regexp.MustCompile(`--?[A-Za-z][A-Za-z-]*`)
	helpVariable = regexp.MustCompile(`\$[A-Z_]+`)
)

func TestSwarmdKnowsWhatUnitsGiveIt(t *testing.T) {
	for name, file := range examples {
		env := environment(t, file)
		args := command(t, name, env)
		help, err := exec.Command(filepath.Join(e2etest.BinDir, "swarmd"), args[0], "--help").Output()
		if err != nil {
			t.Fatalf("swarmd %s --help: %v", args[0], err)
		}
		options, variables := helpOption.FindAllString(string(help), -1), helpVariable.FindAllString(string(help), -1)
		for _, arg := range args[1:] {
			if strings.HasPrefix(arg, "-") && !slices.Contains(options, arg) {
				t.Errorf("%s: swarmd %s has no option %s", name, args[0], arg)
			}
		}
		for _, v := range values(t, name, "Environment") {
			k, _, _ := strings.Cut(v, "=")
			env[k] = ""
		}
		for k := range env {
			option := "--" + strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(k, "SWARM_"), "_", "-")) // the usual name is not told
			if k != "OPTIONS" && !slices.Contains(variables, "$"+k) && !slices.Contains(options, option) {
				t.Errorf("%s: swarmd %s has no variable %s", file, args[0], k)
			}
		}
	}
}

// notified is a systemd that hears one service.
func notified(t *testing.T, dir string) (variable string, ready func(p *e2etest.Proc)) {
	t.Helper()
	path := filepath.Join(dir, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	return "NOTIFY_SOCKET=" + path, func(p *e2etest.Proc) {
		t.Helper()
		buf := make([]byte, 4096)
		if err := socket.SetReadDeadline(time.Now().Add(e2etest.Timeout)); err != nil {
			t.Fatal(err)
		}
		for {
			n, err := socket.Read(buf)
			if err != nil {
				t.Fatalf("%s says nothing more to systemd: %v", p.Name, err)
			}
			lines := bufio.NewScanner(strings.NewReader(string(buf[:n])))
			for lines.Scan() {
				if lines.Text() == "READY=1" {
					return
				}
			}
		}
	}
}

// runs starts what a unit starts, with its example's environment but for what change says, until it is up.
func runs(t *testing.T, name string, change map[string]string, specifiers ...string) {
	t.Helper()
	if got := values(t, name, "Type"); !slices.Equal(got, []string{"notify"}) {
		t.Errorf("%s has Type=%q, want notify", name, got)
	}
	env := environment(t, examples[name])
	for k, v := range change {
		env[k] = v
	}
	args := command(t, name, env, specifiers...)
	dir, err := os.MkdirTemp("/tmp", "unit-") // short: sockets have 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	notify, ready := notified(t, dir)
	vars := []string{notify}
	for k, v := range env {
		if k != "OPTIONS" {
			vars = append(vars, k+"="+v)
		}
	}
	p := e2etest.Start(t, name, dir, vars, append([]string{"swarmd"}, args...)...)
	ready(p)
}

func TestUnitsBringNodesUp(t *testing.T) {
	e2etest.NeedPython(t)
	w := e2etest.NewSwarm(t, nil)
	authority := w.Path("authority")
	e2etest.Start(t, "authority", w.Dir, nil, "swarmd", "run-authority", "--dir", authority).Sees("authority started")
	model := w.Path("model")
	if err := os.MkdirAll(model, 0o700); err != nil {
		t.Fatal(err)
	}
	program := "import time\ntime.sleep(600)\n"
	if err := os.WriteFile(filepath.Join(model, "train.py"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	common := map[string]string{"SWARM_FOUND_AT_ONCE": "true", "SWARM_SOCKET_PATH": "", "SWARM_IDENTITY": "embedded=" + authority}
	runs(t, "swarmd-sn.service", with(common, map[string]string{"SWARM_HOST_IP": w.Addr(1), "SWARM_SENTINEL_IP": w.Addr(1)}), "%S", w.Dir)
	runs(t, "swarmd-sl@.service", with(common, map[string]string{
		"SWARM_HOST_IP": w.Addr(11), "SWARM_SN_IP": w.Addr(1), "SWARM_DATA_DIR": w.Dir, "SWARM_MODEL_DIR": model,
		"SWARM_BRIDGE_DIR": w.Path("bridge"), "SWARM_PYTHON": e2etest.Python,
	}), "%S", w.Dir, "%i", "hospital-a")
	if err := os.WriteFile(w.Path("profile.yaml"), []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	runs(t, "swarmd-swop.service", with(common, map[string]string{"SWARM_HOST_IP": w.Addr(12), "SWARM_SN_IP": w.Addr(1), "SWARM_USR_DIR": w.Dir}), "%S", w.Dir, "%H", "host-a")
	for _, state := range []string{"sn", "hospital-a", "swop"} { // where the units' StateDirectory= is
		out, err := exec.Command(filepath.Join(e2etest.BinDir, "swarmd"), "health", "--state-dir", w.Path("swarmd", state)).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "healthy") {
			t.Errorf("%s: %v: %s", state, err, out)
		}
		want := fmt.Sprintf("swarmd/%s", strings.Replace(state, "hospital-a", "%i", 1))
		if !slices.ContainsFunc([]string{"swarmd-sn.service", "swarmd-sl@.service", "swarmd-swop.service"}, func(name string) bool {
			return slices.Contains(strings.Fields(strings.Join(values(t, name, "StateDirectory"), " ")), want)
		}) {
			t.Errorf("no unit has the state directory %s", want)
		}
	}
}

func with(maps ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, m := range maps {
		for k, v := range m {
			all[k] = v
		}
	}
	return all
}

// profile is a SWOP's, as short as it can be.
const profile = `groupname: g
taskrunner: t
policyuri: null
network: n
resourcemgr:
apls:
apisrv:
envvars: null
nodes:
  - slnodedef: {idx: 0, identity: null, slhostname: null, usrhostname: null, privatedata: null, slenvvars: null, usrenvvars: null}
`
