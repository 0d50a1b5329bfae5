package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// These tests run the real binaries at the machine's container engine.

const swarmdImage = "swarmd:latest"

func TestPromptInAContainer(t *testing.T) {
	bin := binary(t)
	e := enginetest.Engine(t)
	enginetest.NeedImage(t, e, swarmdImage, "scripts/images swarmd")
	enginetest.Clean(t, enginetest.Scope(t))
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	up := exec.CommandContext(t.Context(), bin, "local", "up", "--peers", "1")
	up.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	stdout, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = up.Process.Signal(syscall.SIGTERM)
		_ = up.Wait()
	}()
	if n, err := stdout.Read(make([]byte, 100)); err != nil || n == 0 {
		t.Fatalf("local up does not come up: %v", err)
	}
	usr := t.TempDir()
	for name, text := range map[string]string{
		"my-init": "# in the container\ncd /platform/swarm/usr\nls\nsleep 0.01\n",
		"data":    "x",
	} {
		if err := os.WriteFile(filepath.Join(usr, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, typed string
		want        []string
		code        int
	}{
		{"a script, then what is piped in", "list nodes\nls absent\npwd\nexit\n", []string{
			"SWCI:0 > # in the container\nSWCI:0 > cd /platform/swarm/usr\nSWCI:0 > Current Directory : /platform/swci/usr\nSWCI:1 > ls\n    data\n    my-init\n",
			"SWCI:3 > list nodes\n    NAME", "    sn-0  sn    127.0.0.1:", "\nERROR : list files: stat absent: no such file", "SWCI:6 > exit\n",
		}, 0},
		{"a failure that was not to be", "exit on failure\nlst nodes\npwd\n", []string{"ERROR : unknown command \"lst nodes\""}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			cmd := exec.CommandContext(t.Context(), bin, "run-swci", "--runtime", "docker", "--network=host", "--usr-dir", usr, "--init-script-name", "my-init")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(tt.typed), &out, &errs
			if err := cmd.Run(); code(err) != tt.code {
				t.Errorf("exit code %d, want %d: %s", code(err), tt.code, &errs)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in:\n%s\n%s", want, &out, &errs)
				}
			}
		})
	}
}
