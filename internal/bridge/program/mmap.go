package program

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a slot shared. Its length is checked first: touching pages beyond a file's end kills the process.
func mapFile(path string, size int64, write bool) (m []byte, err error) {
	mode, prot := os.O_RDONLY, unix.PROT_READ
	if write {
		mode, prot = os.O_RDWR, unix.PROT_READ|unix.PROT_WRITE
	}
	f, err := os.OpenFile(path, mode, 0)
	if err != nil {
		return nil, fmt.Errorf("open weight file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("stat weight file: %w", err)
	}
	if info.Size() != size || int64(int(size)) != size {
		return nil, fmt.Errorf("weight file %s is %d bytes, want %d", path, info.Size(), size)
	}
	if size == 0 {
		return []byte{}, nil // mmap refuses to map nothing
	}
	if m, err = unix.Mmap(int(f.Fd()), 0, int(size), prot, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("map weight file %s: %w", path, err)
	}
	return m, nil
}

func unmap(m []byte) error {
	if len(m) == 0 {
		return nil
	}
	return unix.Munmap(m)
}
