package runjob

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/work/detached"
)

// maxOutput bounds a file of what a program prints, in bytes. Two are kept: as much as of a container's log.
const maxOutput = 30 << 20

// output appends to what this process prints, which is a file, and has that begin anew when it is full.
type output struct {
	file string
	size int64
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	if o.size+int64(len(b)) > maxOutput {
		if err := o.turn(); err != nil {
			return 0, err
		}
	}
	n, err := os.Stdout.Write(b)
	o.size += int64(n)
	return n, err
}

// turn begins the file anew: for this process's own words, too.
func (o *output) turn() error {
	if err := os.Rename(o.file, detached.Before(o.file)); err != nil {
		return err
	}
	next, err := os.OpenFile(o.file, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer next.Close()
	for _, fd := range []int{unix.Stdout, unix.Stderr} {
		if err := unix.Dup3(int(next.Fd()), fd, 0); err != nil {
			return err
		}
	}
	o.size = 0
	return nil
}
