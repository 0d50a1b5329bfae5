package runjob_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/work/secret"
)

// hunter is a value that is nowhere but where it was put, and with its member.
const hunter = "hunter2-hunter2"

// secrets makes a folder of them.
func secrets(t *testing.T) secret.Dir {
	t.Helper()
	dir := t.TempDir()
	for name, value := range map[string]string{"KEY": hunter + "\n", "cert": hunter + "\x00\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return secret.Dir(dir)
}

// told has a program check what it was given without printing it.
var told = []string{
	"import os, stat, sys",
	"at = os.path.join(os.environ['SWARM_SECRETS'], 'cert')",
	"assert os.environ['KEY'] == 'hunter2-' * 1 + 'hunter2', 'variable'",
	"assert open(at, 'rb').read() == b'hunter2-' * 1 + b'hunter2\\0\\n', 'file'",
	"assert stat.S_IMODE(os.stat(at).st_mode) == 0o400 and 'cert' not in os.environ, 'mode'",
	"print('has both', at)",
}

const asksForSecrets = "secrets: [KEY, {name: cert, as: file}]"

// TestSecretsOfProcesses: a member has its secrets, and their values are in no file that the host writes but that for the member.
func TestSecretsOfProcesses(t *testing.T) {
	h := newHost(t)
	p := h.processes()
	p.Goods.Secrets = secrets(t)
	j := one(python(told...), "command: train.py", asksForSecrets)
	started(t, p, j)
	dir := filepath.Join(h.dir, "jobs")
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(filepath.Dir(name)) == "secrets" {
			return err
		}
		raw, err := os.ReadFile(name)
		if bytes.Contains(raw, []byte(hunter)) {
			t.Errorf("%s has a secret", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if found := await(t, p, exited); found.Code != 0 {
		t.Fatalf("%+v", found)
	}
	clean(t, p, j.Label)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 1 { // the lease
		t.Error(left, err)
	}
}

// TestReadyCommandsHaveSecrets holds that how a member is asked has the environment that its program has.
func TestReadyCommandsHaveSecrets(t *testing.T) {
	p := newHost(t).processes()
	p.Goods.Secrets = secrets(t)
	j := one(map[string]string{"ask": "#!/bin/sh\ntest \"$KEY\" = hunter2-hunter2\n"}, "command: ./ask", "ready: {command: ./ask}", "secrets: [KEY]")
	started(t, p, j)
	if found := await(t, p, exited); found.Code != 0 {
		t.Errorf("%+v", found)
	}
}

// TestSecretsThatAHostLacks: a member is not prepared, and the words name the secret.
func TestSecretsThatAHostLacks(t *testing.T) {
	p := newHost(t).processes()
	p.Goods.Secrets = secrets(t)
	for lines, want := range map[string]string{
		"secrets: [NONE]":                   `job x, group node: this host has no secret "NONE"`,
		"secrets: [{name: NONE, as: file}]": `job x, group node: this host has no secret "NONE"`,
		"secrets: [cert]":                   `secret "cert" has a zero byte`,
		"secrets: [LD_PRELOAD]":             `its env sets "LD_PRELOAD"`,
	} {
		err := p.Prepare(t.Context(), one(python("pass"), "command: train.py", lines))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), hunter) {
			t.Errorf("%s: %v", lines, err)
		}
	}
}

// TestSecretsOfContainers: they are the member's own, in its volume and in its environment.
func TestSecretsOfContainers(t *testing.T) {
	l := newLab(t)
	enginetest.NeedImage(t, l.e, engine.ImagePYT, "scripts/images pyt")
	jobs := l.jobs(1, python(told...), "image: "+engine.ImagePYT, "command: train.py", asksForSecrets)
	c := l.containers()
	c.Goods.Secrets = secrets(t)
	l.start(c, jobs)
	for _, f := range l.until(c, 1, task.Exited) {
		if f.Code != 0 {
			t.Errorf("%+v", f)
		}
	}
	if got := l.lines(c, jobs[0]); got != "has both /run/swarm/secrets/cert" {
		t.Errorf("%q", got)
	}
	l.clean(c, jobs)
	c.Goods.Secrets = ""
	if err := c.Prepare(t.Context(), jobs[0]); err == nil || !strings.Contains(err.Error(), `this host has no secret "KEY": its owner starts it with --secrets-dir`) {
		t.Error(err)
	}
	l.clean(c, jobs)
}
