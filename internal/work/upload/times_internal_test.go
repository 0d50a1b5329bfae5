package upload

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// served is rclone's configuration of a remote without times, which serves a folder on loopback until the test ends.
func served(t *testing.T, dir string, options ...string) (config string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skip("needs rclone: apt-get install rclone")
	}
	words := append([]string{"serve", "webdav", "--config", os.DevNull, "--addr", "127.0.0.1:0", dir}, options...)
	cmd := exec.CommandContext(t.Context(), path, words...)
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // when its context has ended
	lines, url := bufio.NewScanner(out), regexp.MustCompile(`http://127\.0\.0\.1:\d+/`)
	for lines.Scan() {
		if at := url.FindString(lines.Text()); at != "" {
			config = filepath.Join(t.TempDir(), "rclone.conf")
			if err := os.WriteFile(config, []byte("[dav]\ntype = webdav\nvendor = other\nurl = "+at+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return config
		}
	}
	t.Fatal("rclone serves nothing: ", lines.Err())
	return ""
}

// TestTheLastCopyIsWhole: what was written anew with as many bytes is copied where the target keeps no times, and where the file has its time from before.
func TestTheLastCopyIsWhole(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	t.Setenv("RCLONE_CONFIG", served(t, to))
	model, long := filepath.Join(from, "model.pt"), time.Now().Add(-time.Hour)
	for _, at := range []string{"dav:", filepath.Join(to, "local")} {
		for _, step := range []struct {
			write string
			all   bool
		}{{"epoch 1", false}, {"epoch 2", true}} {
			if err := os.WriteFile(model, []byte(step.write), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(model, long, long); err != nil {
				t.Fatal(err)
			}
			if err := rclone(t.Context(), Copy{From: from, To: placeAt(at, "x-7/0/node/0"), All: step.all}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, at := range []string{"", "local"} {
		if raw, err := os.ReadFile(filepath.Join(to, at, "x-7/0/node/0/model.pt")); string(raw) != "epoch 2" || err != nil {
			t.Errorf("%s: %q, %v", at, raw, err)
		}
	}
}

// TestTheFirstCopyProves that the target can be written to, also where there is nothing to be copied yet.
func TestTheFirstCopyProves(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	t.Setenv("RCLONE_CONFIG", served(t, to, "--read-only"))
	x := Copy{From: from, To: "dav:", First: true}
	var f *failure
	if err := rclone(t.Context(), x); !errors.As(err, &f) || f.said == "" {
		t.Errorf("where nobody may write: %+v", err)
	}
	t.Setenv("RCLONE_CONFIG", served(t, to))
	if err := os.WriteFile(filepath.Join(from, marker), []byte("its own"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // as of a process that goes on
		x.To = "dav:x-7/0/node/0"
		if err := errors.Join(rclone(t.Context(), x), rclone(t.Context(), Copy{From: t.TempDir(), To: "dav:x-7/0/node/1", First: true})); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"0": "its own", "1": markerText} {
		if raw, err := os.ReadFile(filepath.Join(to, "x-7/0/node", name, marker)); string(raw) != want || err != nil {
			t.Errorf("%s: %q, %v", name, raw, err)
		}
	}
}
