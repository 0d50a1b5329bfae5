// Package space bounds what one session takes of a file system, so that a program which declares a huge model fills neither
// the memory nor the disk of the machine that it runs on.
package space

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Three of four parts of what is free may be taken.
const (
	part  = 3
	whole = 4
)

// Fits returns an error that wraps ENOSPC unless so many bytes are at most three quarters of what is free in the file system
// that dir lies in; in one that lies in memory, also of the memory that is available.
func Fits(dir string, bytes int64) error {
	free, of, err := look(dir)
	if err != nil {
		return err
	}
	if free < 0 || bytes <= free/whole*part {
		return nil
	}
	return fmt.Errorf("%d bytes do not fit into %s: %d bytes %s are free, and three quarters of that may be taken: %w", bytes, dir, free, of, unix.ENOSPC)
}

// Free is how many bytes are free where Fits looks, of which three quarters may be taken; below 0: they have no bound, or it is not known.
func Free(dir string) (int64, error) {
	free, _, err := look(dir)
	return free, err
}

// look returns what is free, and of what.
func look(dir string) (free int64, of string, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, "", fmt.Errorf("%s: %w", dir, err)
	}
	free, of = -1, "of it"
	if st.Blocks > 0 { // Else it has no bound of its own, or does not tell.
		free = int64(min(st.Bavail, uint64(1)<<62/uint64(max(1, st.Bsize)))) * st.Bsize //nolint:gosec // bounded
	}
	if st.Type == unix.TMPFS_MAGIC {
		if m := available(); m >= 0 && (free < 0 || m < free) {
			free, of = m, "of memory"
		}
	}
	return free, of, nil
}

// Existing is the lowest directory above and including dir that is there, or the link that is in its place.
func Existing(dir string) string {
	for {
		if _, err := os.Lstat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// available is how much memory can be had without swapping, -1 if the kernel does not say.
func available() int64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return -1
	}
	return parse(b)
}

func parse(meminfo []byte) int64 {
	for s := bufio.NewScanner(bytes.NewReader(meminfo)); s.Scan(); {
		f := bytes.Fields(s.Bytes())
		if len(f) == 3 && string(f[0]) == "MemAvailable:" && string(f[2]) == "kB" {
			if kib, err := strconv.ParseInt(string(f[1]), 10, 52); err == nil {
				return kib << 10
			}
		}
	}
	return -1
}
