package image

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPasswordsOutsideTheUsersDirectory: a task names a file of the host, and gets at none but those that the owner put where tasks may look.
func TestPasswordsOutsideTheUsersDirectory(t *testing.T) {
	top := t.TempDir()
	usr := filepath.Join(top, "usr")
	text := []byte(`{"auths":{"reg.example":{"auth":"YTpi"}}}`)
	err := errors.Join(
		os.MkdirAll(filepath.Join(usr, "sub", ".docker"), 0o700),
		os.WriteFile(filepath.Join(top, "config.json"), text, 0o600),
		os.WriteFile(filepath.Join(usr, "config.json"), text, 0o600),
		os.WriteFile(filepath.Join(usr, "sub", "config.json"), text, 0o600),
		os.WriteFile(filepath.Join(usr, "sub", ".docker", "config.json"), text, 0o600),
		os.Symlink(filepath.Join(top, "config.json"), filepath.Join(usr, "out.json")),
		os.Symlink("../../config.json", filepath.Join(usr, "sub", "up.json")),
		os.Symlink("sub/config.json", filepath.Join(usr, "in.json")),
		unix.Mkfifo(filepath.Join(usr, "pipe.json"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	p := &Puller{UsrDir: usr}
	for name, want := range map[string]string{
		"config.json": "", "sub/config.json": "", "./config.json": "", "sub/../config.json": "", "in.json": "",
		filepath.Join(usr, "config.json"): "", "/platform/swarm/usr/sub/config.json": "", usr + "/../usr/config.json": "",
		"../config.json": "not in this host's --usr-dir", "sub/../../config.json": "not in this host's --usr-dir",
		filepath.Join(top, "config.json"): "not in this host's --usr-dir", "/platform/swarm/usr/../../../etc/passwd": "not in this host's --usr-dir",
		usr + "2/config.json": "not in this host's --usr-dir",
		"out.json":            "escapes", "sub/up.json": "escapes",
		"sub/.docker/config.json": "a hidden file", ".docker/config.json": "a hidden file", usr: "a hidden file", ".": "a hidden file",
		"sub": "is no file", "pipe.json": "is no file", "none.json": "put a config.json there",
	} {
		a, err := p.fromConfig(name, "reg.example")
		switch {
		case want == "" && (err != nil || a.Password != "b"):
			t.Errorf("%s: %v", name, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || a.Password != ""):
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	t.Chdir(top)
	p.UsrDir = "usr"
	if a, err := p.fromConfig(filepath.Join(usr, "config.json"), "reg.example"); err != nil || a.Password != "b" {
		t.Errorf("with a relative --usr-dir: %v", err)
	}
	if _, err := (&Puller{}).fromConfig("config.json", "reg.example"); err == nil {
		t.Error("a host without --usr-dir has passwords")
	}
}
