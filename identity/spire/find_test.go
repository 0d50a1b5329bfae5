package spire_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/identity/spire"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if path, err := spire.Find("spire-server"); err == nil || !strings.Contains(err.Error(), "make spire") || !strings.Contains(err.Error(), "PATH") {
		t.Errorf("nothing there: got %q, %v, want an error that names both remedies", path, err)
	}
	want := filepath.Join(dir, "spire-server")
	if err := os.WriteFile(want, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if path, err := spire.Find("spire-server"); err != nil || path != want {
		t.Errorf("on PATH: got %q, %v, want %q", path, err, want)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(filepath.Dir(self), "spire-server")
	if err := os.WriteFile(beside, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(beside) })
	if path, err := spire.Find("spire-server"); err != nil || path != beside {
		t.Errorf("beside the executable: got %q, %v, want %q", path, err, beside)
	}
}
