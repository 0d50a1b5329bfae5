package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestSudoIsTriedWhenTheSocketRefuses runs the launcher as a user who may not use the engine's socket, beside a sudo that
// only tells how it was called.
func TestSudoIsTriedWhenTheSocketRefuses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root can become another user")
	}
	dir, err := os.MkdirTemp("", "sudo-") // others may look into it, unlike t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	sudo := "#!/bin/sh\n[ \"$1\" = -n ] && exit $SILENT\necho \"sudo $*\"\n"
	for name, content := range map[string][]byte{"swarmd": self, "sudo": []byte(sudo)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(dir, "docker.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(socket, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(silent, path string) (string, string, int) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "swarmd"), "run-spire-server", "--runtime", "docker", "-l", "a=b c")
		cmd.Env = []string{"PATH=" + path, "SILENT=" + silent, "DOCKER_HOST=unix://" + socket, "SWARM_PROG=run-spire-server", "HOME=" + dir}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run()
		return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
	}
	stdout, stderr, code := run("0", dir)
	want := "sudo -- env DOCKER_HOST=unix://" + socket + " SWARM_PROG=run-spire-server " + dir + "/swarmd run-spire-server --runtime docker -l a=b c\n"
	if stdout != want || code != 0 || !strings.Contains(stderr, "running again under sudo") {
		t.Errorf("%d %q %q, want %q", code, stdout, stderr, want)
	}
	// Nobody is there to type a password, or there is no sudo: what to do is said.
	for _, tt := range [][2]string{{"1", dir}, {"0", "/none"}} {
		stdout, stderr, code := run(tt[0], tt[1])
		if stdout != "" || code != 1 || !strings.HasPrefix(stderr, "run-spire-server: ") || !strings.Contains(stderr, "--sudo") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: %d %q %q", tt, code, stdout, stderr)
		}
	}
}
