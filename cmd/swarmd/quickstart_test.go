package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/shellwords"
)

// TestQuickstartsLines has the real binary run every line for swarmd on the page for users of the original, as they are published: in a
// directory that has what they name, up to where the engine should be.
func TestQuickstartsLines(t *testing.T) {
	bin, err := filepath.Abs("../../bin/swarmd")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(bin); err != nil {
		t.Skip("skipped: bin/swarmd is not built (make build)")
	}
	page, err := os.ReadFile("../../docs/quickstart-hpe.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, dir := range []string{"cert/ca/capath", "workspace/mnist/model", "model", "data", "swop", "authority"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files := []string{"authority/sn.sock", "authority/sl.sock", "server.conf", "model/train.py", "cert/ca/capath/ca-1-cert.pem"}
	for _, node := range []string{"sn-1", "sn-2", "sl-1", "sl-2", "swop-1"} {
		files = append(files, "cert/"+node+"-cert.pem", "cert/"+node+"-key.pem")
	}
	for _, f := range files {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("swop/swop1_profile.yaml", []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_HOST", "unix:///none/docker.sock")
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	here, err := filepath.Abs("authority")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	lines := regexp.MustCompile("(?m)(?:`|^    )(?:scripts|scripts/bin|swarm-learning/bin)/(run-(?:sn|sl|swop|spire-server|apls))( [^`\n]*)?").FindAllStringSubmatch(strings.ReplaceAll(string(page), "\\\n", " "), -1)
	for _, m := range lines {
		if m[2] == "" {
			continue // it is only named
		}
		ran++
		args, err := shellwords.Split(strings.ReplaceAll(m[2], "=embedded", "=embedded="+here))
		if err != nil {
			t.Fatalf("%s: %v", m[0], err)
		}
		cmd := exec.CommandContext(t.Context(), bin, append([]string{m[1]}, args...)...)
		cmd.Env = append(os.Environ(), "SWARM_RUNTIME=docker", "SWARM_PROG="+m[1])
		out, err := cmd.CombinedOutput()
		want := map[string]string{"run-apls": "no licence server is needed"}[m[1]]
		if want == "" {
			want = "container engine"
		}
		if said := string(out); !strings.Contains(said, want) || (err == nil) != (m[1] == "run-apls") || strings.Contains(said, "unknown option") {
			t.Errorf("%s: %v\n%s", m[0], err, said)
		}
	}
	if ran < 18 {
		t.Errorf("%d lines were run", ran)
	}
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
