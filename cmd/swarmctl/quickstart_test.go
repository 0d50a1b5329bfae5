package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/stop"
)

// TestQuickstartsCommands reads the commands for swarmctl on the page for users of the original, the original's too.
func TestQuickstartsCommands(t *testing.T) {
	bin := binary(t)
	raw, err := os.ReadFile("../../docs/quickstart-hpe.md")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(raw), "\\\n", " ") // a command may go on in the next line
	t.Chdir(t.TempDir())
	if err := os.Mkdir("usr", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("usr/swci-init", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	// It ends where the engine should be: nothing is started.
	t.Setenv("DOCKER_HOST", "unix:///none/docker.sock")
	t.Setenv("SWARM_RUNTIME", "docker")
	run := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), bin, append([]string{"run-swci"}, args...)...).CombinedOutput()
		if err == nil {
			t.Errorf("run-swci %v: no error without an engine", args)
		}
		return string(out)
	}
	seen := map[string]int{}
	for _, m := range regexp.MustCompile("(?m)(?:`|^    )(?:scripts|scripts/bin|swarm-learning/bin)/(run-swci|stop-swarm)( [^`\n]*)?").FindAllStringSubmatch(page, -1) {
		seen[m[1]]++
		args := strings.Fields(m[2])
		if m[1] == "stop-swarm" {
			if _, err := stop.Parse(args); err != nil {
				t.Errorf("%s: %v", m[0], err)
			}
			continue
		}
		if said := run(args...); !strings.Contains(said, "container engine") {
			t.Errorf("%s: %s", m[0], said)
		}
	}
	if seen["run-swci"] != 2 || seen["stop-swarm"] < 5 {
		t.Errorf("commands that were read: %v", seen)
	}
	if said := run("--usr-directory=usr"); strings.Contains(said, "container engine") || !strings.Contains(said, "--usr-directory") {
		t.Errorf("an unknown option: %s", said)
	}
}
