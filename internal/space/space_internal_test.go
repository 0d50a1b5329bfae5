package space

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestThreeQuartersFit(t *testing.T) {
	dir := t.TempDir()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	if err := Fits(dir, 1); err != nil {
		t.Errorf("a byte: %v", err)
	}
	for name, bytes := range map[string]int64{"nearly all": int64(st.Bavail) * st.Bsize / 10 * 9, "the largest file": 1<<63 - 1} {
		if err := Fits(dir, bytes); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want that there is no space in %s", name, err, dir)
		}
	}
	if err := Fits(filepath.Join(dir, "absent"), 1); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// TestMemoryBoundsFilesInIt: a file system in memory may promise more than there is.
func TestMemoryBoundsFilesInIt(t *testing.T) {
	err := Fits("/dev/shm", 1<<62)
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("%v", err)
	}
	if m := available(); m <= 0 {
		t.Errorf("%d bytes of memory are available", m)
	}
}

func TestMeminfo(t *testing.T) {
	for text, want := range map[string]int64{
		"MemTotal: 9 kB\nMemAvailable:    12 kB\n": 12 << 10,
		"": -1, "MemAvailable:": -1, "MemAvailable: x kB": -1, "MemAvailable: 99999999999999999999 kB": -1, "MemAvailable: 5 MB": -1,
	} {
		if got := parse([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
