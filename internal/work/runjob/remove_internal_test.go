package runjob

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// ordinary calls f with the rights that a user has who is not root.
func ordinary(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and the thread ends with the goroutine
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&hdr, &none[0]); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// TestFoldersWithoutRightsAreRemoved holds that nothing that a program does to the modes of its files keeps them, and that what a link leads to stays
// as it is.
func TestFoldersWithoutRightsAreRemoved(t *testing.T) {
	parent := t.TempDir()
	dir, other := filepath.Join(parent, "7-1-0"), filepath.Join(parent, "other")
	deep := filepath.Join(dir, "source", "out", "deep")
	odd := filepath.Join(dir, "source", "\xff", "odd\xfe")
	err := errors.Join(os.MkdirAll(odd, 0o700), os.WriteFile(filepath.Join(odd, "\xff"), nil, 0), os.Chmod(odd, 0o500), os.MkdirAll(deep, 0o700), os.Mkdir(other, 0o700), os.WriteFile(filepath.Join(deep, "x"), nil, 0), os.WriteFile(filepath.Join(other, "y"), nil, 0o400),
		os.Symlink(other, filepath.Join(deep, "link")), os.Chmod(other, 0o500), os.Chmod(deep, 0o500), os.Chmod(filepath.Dir(deep), 0), os.Chmod(dir, 0o500))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(other, 0o700) })
	if err := ordinary(func() error { return os.RemoveAll(dir) }); !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("the folder is no hindrance: %v", err)
	}
	if err := ordinary(func() error { return removeAll(dir) }); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
	if info, err := os.Stat(other); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("what a link leads to is %v, %v", info, err)
	}
	if err := removeAll(dir); err != nil {
		t.Errorf("of nothing: %v", err)
	}
}
