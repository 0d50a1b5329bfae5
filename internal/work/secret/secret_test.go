package secret_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/work/secret"
)

// put writes a file of a mode into a folder.
func put(t *testing.T, dir, name, value string, mode os.FileMode) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
}

func TestSecretsOfAFolder(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "KEY", "hunter2\n", 0o600)
	put(t, dir, "LARGE", strings.Repeat("hunter2.", secret.MaxValue/8), 0o400)
	put(t, dir, "LARGER", strings.Repeat("hunter2.", secret.MaxValue/8)+"x", 0o400)
	put(t, dir, "OPEN", "hunter2", 0o640)
	put(t, dir, "EMPTY", "", 0o600)
	put(t, dir, "ZERO", "hunter2\x00", 0o600)
	put(t, filepath.Dir(dir), "BESIDE", "hunter2", 0o600)
	for name, to := range map[string]string{"LINK": "KEY", "OUT": "../BESIDE"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "SUB"), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "SUB/KEY", "hunter2", 0o600)
	d := secret.Dir(dir)
	for name, want := range map[string]string{
		"KEY": "", "LARGE": "", "LINK": "", "LARGER": "65537 bytes", "OPEN": "chmod 600", "EMPTY": "0 bytes", "NONE": "has no secret", "OUT": "can't read secret", "SUB": "no file", "SUB/KEY": "no file", "../BESIDE": "can't read secret",
	} {
		value, err := d.Value(name)
		switch {
		case want == "" && (err != nil || !strings.HasPrefix(string(value), "hunter2")):
			t.Errorf("%s: %v", name, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"`+name+`"`) || len(value) > 0):
			t.Errorf("%s: %v, want %q", name, err, want)
		case secret.Passes(err):
			t.Errorf("%s: %v passes by itself", name, err)
		case err != nil && (strings.Contains(err.Error(), dir) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: what others read says too much: %v", name, err)
		}
	}
	if v, err := d.Variable("KEY"); err != nil || v != "hunter2" {
		t.Errorf("%q, %v", v, err)
	}
	if _, err := d.Variable("ZERO"); err == nil || !strings.Contains(err.Error(), "as: file") {
		t.Error(err)
	}
	if err := d.Has([]string{"KEY", "LARGE"}); err != nil {
		t.Error(err)
	}
	if err := d.Has([]string{"KEY", "NONE"}); err == nil || !strings.Contains(err.Error(), `"NONE"`) {
		t.Error(err)
	}
	var many []string
	for range 17 {
		many = append(many, "LARGE")
	}
	if err := d.Has(many); err == nil || !strings.Contains(err.Error(), "together") {
		t.Error(err)
	}
	if _, err := secret.Dir(filepath.Join(dir, "GONE")).Value("KEY"); !secret.Passes(err) {
		t.Errorf("of a folder that is away, as its disk may be: %v", err)
	}
	if _, err := secret.Dir("").Value("KEY"); err == nil || !strings.Contains(err.Error(), "--secrets-dir") {
		t.Error(err)
	}
}

func TestAFolderThatOthersFill(t *testing.T) {
	dir := t.TempDir()
	for mode, want := range map[os.FileMode]string{0o700: "", 0o755: "", 0o770: "chmod 700", 0o777: "chmod 700"} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := secret.Dir(dir).Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%o: %v", mode, err)
		}
	}
	put(t, dir, "FILE", "x", 0o600)
	for _, bad := range []string{"FILE", "NONE"} {
		if err := secret.Dir(filepath.Join(dir, bad)).Check(); err == nil || !strings.Contains(err.Error(), "--secrets-dir") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if err := secret.Dir("").Check(); err != nil {
		t.Error(err)
	}
}
