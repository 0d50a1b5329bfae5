package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

// masked is what differs from run to run in a transcript.
var masked = []struct {
	what *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`\b12D3Koo\w+`), "PEERID"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b`), "TIME"},
	{regexp.MustCompile(`(SWARM_ID +: )\w+`), "${1}HEX"},
	{regexp.MustCompile(`(IDENTITY +: ).*`), "${1}SOCKET"},
	{regexp.MustCompile(`(_VERSION +: )[^s].*`), "${1}VERSION"},
	{regexp.MustCompile(`\(\d+s\)`), "(SECONDS)"},
	{regexp.MustCompile(`(?s)(> HELP\n\n)Nodes\n.*?\n\n(SWCI:)`), "${1}COMMANDS\n\n${2}"},
	{regexp.MustCompile(`(SL|SN),127\.0\.0\.1,\d+`), "$1,127.0.0.1,NUMBER"},
}

// originalScripts runs scripts of every command of the original's releases against a real swarm of one SN and two SLs that
// is the current context, and compares transcripts.
func originalScripts(t *testing.T, env []string, port string) {
	t.Helper()
	bin := binary(t)
	usr, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"pull_image.yaml": ".", "user_env_tf_build_task.yaml": "taskdefs", "swarm_mnist_task.yaml": "taskdefs"} {
		task, err := os.ReadFile(filepath.Join("testdata/originals", from))
		if err := errors.Join(err, os.MkdirAll(filepath.Join(usr, to), 0o755), os.WriteFile(filepath.Join(usr, to, from), task, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"release-0.3.cmd", "release-2.swci", "release-2-tasks.swci", "release-2-oddities.swci"} {
		golden := "testdata/originals/" + name
		script, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(usr, name), []byte(strings.ReplaceAll(string(script), "PORT", port)), 0o644); err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		cmd := exec.CommandContext(t.Context(), bin, "run-swci", "--usr-dir", usr, "--init-script-name", name)
		cmd.Env, cmd.Stderr = env, &stderr
		raw, err := cmd.Output()
		got := strings.ReplaceAll(strings.ReplaceAll(string(raw), usr, "USR"), port, "PORT")
		for _, m := range masked {
			got = m.what.ReplaceAllString(got, m.name)
		}
		got += fmt.Sprintf("exit code %d\n%s", code(err), &stderr)
		if *update {
			if err := os.WriteFile(golden+".golden", []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden + ".golden")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
