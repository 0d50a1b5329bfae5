package daemon_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/daemon"
)

// run calls swarmd's command line in this process.
func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	code = daemon.Main(args, daemon.Env{
		Stdout: &out, Stderr: &err, Getenv: func(string) string { return "" },
		Signals: func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) },
	})
	return out.String(), err.String(), code
}

func TestPluginConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "swarmd")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("x")))
	out, stderr, code := run(t, "swarmd", "spire-plugin", "config", "--plugin-cmd", path, "--roles", "sn=root", "-roles=sl=7,8")
	if code != 0 {
		t.Fatal(stderr)
	}
	for _, want := range []string{
		`WorkloadAttestor "swarm" {`, `plugin_cmd = "` + path + `"`, `plugin_args = ["spire-plugin"]`, `plugin_checksum = "` + sum + `"`,
		`digests = ["` + sum + `"]`, "sn = [0]", "sl = [7, 8]",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

func TestPluginMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"spire-plugin":                               "is started by a SPIRE agent; `swarmd spire-plugin config` prints",
		"spire-plugin confg":                         "takes no argument but config",
		"spire-plugin --roles sn=0":                  "go with spire-plugin config",
		"spire-plugin config --roles sm=0":           "one of the roles sn, sl, swop, swci",
		"spire-plugin config --roles sn=nobodyatall": `no user "nobodyatall"`,
		"spire-plugin config --role sn=0":            "did you mean --roles?",
		"spire-plugin config --plugin-cmd /absent":   "no such file",
	} {
		_, stderr, code := run(t, append([]string{"swarmd"}, strings.Fields(args)...)...)
		if code != 1 || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: code %d, %q, want one line with %q", args, code, stderr, want)
		}
	}
	// Called by the plugin's name, no command is needed.
	_, stderr, code := run(t, "/spire/bin/spire-swarm-plugin")
	if code != 1 || !strings.Contains(stderr, "is started by a SPIRE agent") {
		t.Errorf("spire-swarm-plugin: code %d, %q", code, stderr)
	}
}
