package upload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fake has a script be the only rclone that is found.
func fake(t *testing.T, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\ncd "+dir+"\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	return dir
}

// TestHowRcloneIsCalled: never by a shell, and what it says last is why it failed.
func TestHowRcloneIsCalled(t *testing.T) {
	dir := fake(t, `printf '%s\n' "$@" > args`)
	for all, option := range map[bool]string{false: "", true: "--ignore-times\n"} {
		if err := rclone(t.Context(), Copy{From: "/a folder", To: "lab:$(touch x)/y", All: all}); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(dir, "args"))
		if want := "--ask-password=false\n--stats=0\n--local-no-check-updated\ncopy\n" + option + "--\n/a folder\nlab:$(touch x)/y\n"; string(raw) != want || err != nil {
			t.Errorf("%s, %v", raw, err)
		}
	}
	dir = fake(t, `printf '%s ' "$@" >> args`+"\n[ $4 = copy ] || /bin/cat > marker")
	if err := rclone(t.Context(), Copy{From: "f", To: "lab:y", First: true}); err != nil {
		t.Fatal(err)
	}
	const always = "--ask-password=false --stats=0 --local-no-check-updated "
	if raw, err := os.ReadFile(filepath.Join(dir, "args")); string(raw) != always+"rcat -- lab:y/.swarm "+always+"copy -- f lab:y " || err != nil {
		t.Errorf("%s, %v", raw, err)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "marker")); string(raw) != markerText || err != nil {
		t.Errorf("%s, %v", raw, err)
	}
	fake(t, "echo first\necho '2026/01/02 03:04:05 ERROR : f: Failed to copy: no space left'\necho '2026/01/02 03:04:05 Failed to copy: quota exceeded' >&2\necho\nexit 7")
	var f *failure
	if err := rclone(t.Context(), Copy{From: "a", To: "b"}); !errors.As(err, &f) || *f != (failure{"rclone ended with code 7: see its SWOP's log, and try rclone there", "Failed to copy: quota exceeded"}) {
		t.Errorf("%+v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := rclone(t.Context(), Copy{From: "a", To: "b"}); !errors.As(err, &f) || !strings.Contains(f.words, "its host has no rclone in the PATH of its SWOP: install it there, such as by apt-get install rclone") {
		t.Errorf("%+v", err)
	}
	if got := lastWords(strings.NewReader(strings.Repeat("x\n", 100_000) + "the end")); got != "the end" {
		t.Errorf("%.40q", got)
	}
}

// TestWhatAServerSays is in its error's first line, if that has several.
func TestWhatAServerSays(t *testing.T) {
	const of = "2026/11/27 22:17:57 "
	for said, want := range map[string]string{
		of + "ERROR : weights: Failed to copy: InsufficientStorage: No space left on device.\n\tstatus code: 507, request id: A, host id: B=\n" +
			of + "Failed to copy: InsufficientStorage: No space left on device.\n\tstatus code: 507, request id: A, host id: B=\n": "InsufficientStorage: No space left on device.",
		of + "Failed to rcat: SignatureDoesNotMatch: " + strings.Repeat("The request signature does not match. ", 3) + "\n\tstatus code: 403": "SignatureDoesNotMatch: The request signature does not match. The request sign…",
		of + "ERROR : 1\n" + of + "Failed to copy: mkdir /srv/x: not a directory":                                                             "Failed to copy: mkdir /srv/x: not a directory",
		"Usage:\n  rclone copy": "rclone copy",
		"":                      "",
	} {
		if got := lastWords(strings.NewReader(said)); got != want {
			t.Errorf("%q\n got  %q\nwant %q", said, got, want)
		}
	}
}

// TestRcloneEndsWithWhatItHasStarted when its time is over.
func TestRcloneEndsWithWhatItHasStarted(t *testing.T) {
	dir := fake(t, "/bin/sleep 1000 &\necho $! > started\nwait")
	ctx, cancel := context.WithCancelCause(t.Context())
	ticks := time.NewTicker(10 * time.Millisecond)
	defer ticks.Stop()
	go func() {
		for ; ctx.Err() == nil; <-ticks.C {
			if raw, err := os.ReadFile(filepath.Join(dir, "started")); err == nil && strings.HasSuffix(string(raw), "\n") {
				cancel(errLate)
			}
		}
	}()
	if err := rclone(ctx, Copy{From: "a", To: "b"}); !errors.Is(err, errLate) {
		t.Error(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "started"))
	if err != nil {
		t.Fatal(err)
	}
	stat := fmt.Sprintf("/proc/%s/stat", strings.TrimSpace(string(raw)))
	for end := time.Now().Add(20 * time.Second); ; <-ticks.C {
		now, err := os.ReadFile(stat)
		if err != nil || strings.Contains(string(now), ") Z ") { // nobody may have waited for it
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it runs on: %s", now)
		}
	}
}

// TestRealRclone copies to a folder, as to any other remote: what was changed, again, and what was removed stays there.
func TestRealRclone(t *testing.T) {
	if _, err := exec.LookPath(program); err != nil {
		t.Skip("needs rclone: apt-get install rclone")
	}
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	config := filepath.Join(dir, "rclone.conf")
	write := func(name, data string) {
		t.Helper()
		at := filepath.Join(from, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, []byte(data), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(from, 0o700), os.WriteFile(config, []byte("[lab]\ntype = alias\nremote = "+to+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RCLONE_CONFIG", config)
	copied := func(target string) error {
		return rclone(t.Context(), Copy{From: from, To: placeAt(target, "x-7/0/node/0")})
	}
	if err := copied("lab:"); err != nil {
		t.Fatal("nothing:", err)
	}
	write("model", "weights")
	write("logs/a b", "one")
	if err := copied("lab:"); err != nil {
		t.Fatal(err)
	}
	write("logs/a b", "one and two")
	if err := errors.Join(os.Remove(filepath.Join(from, "model")), copied("lab:")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"model": "weights", "logs/a b": "one and two"} {
		if raw, err := os.ReadFile(filepath.Join(to, "x-7/0/node/0", name)); string(raw) != want || err != nil {
			t.Errorf("%s: %q, %v", name, raw, err)
		}
	}
	var f *failure
	if err := copied("none:x"); !errors.As(err, &f) || !strings.Contains(f.said, "didn't find section in config file") {
		t.Errorf("of a remote that there is not: %+v", err)
	}
	if err := os.WriteFile(filepath.Join(to, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := copied("lab:file"); !errors.As(err, &f) || f.said == "" {
		t.Errorf("where it can't write: %+v", err)
	}
}
