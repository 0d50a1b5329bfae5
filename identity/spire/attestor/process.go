package attestor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/identity"
)

// What is read of a process's files at most, in bytes. The command is among the first words of a command line.
const (
	maxStatus  = 16 << 10
	maxCommand = 64 << 10
)

// workload is what is known of a process.
type workload struct {
	pid    int
	uid    uint32 // effective
	exe    string // as the kernel names it
	role   identity.Role
	digest digest // zero if nothing asked for it
	start  string // time of the process's start, in ticks since boot
}

// process is an open /proc/PID. The descriptor stands for that one process: when it ends nothing can be read through it
// any more, not even if its number is given to another.
type process struct {
	pid int
	dir int
}

func openProcess(pid int) (*process, error) {
	if pid <= 0 {
		return nil, fmt.Errorf("no process has number %d", pid)
	}
	path := "/proc/" + strconv.Itoa(pid)
	dir, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &process{pid: pid, dir: dir}, nil
}

func (p *process) close() { _ = unix.Close(p.dir) }

func (p *process) open(name string) (*os.File, error) {
	path := filepath.Join("/proc", strconv.Itoa(p.pid), name)
	fd, err := unix.Openat(p.dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openExe opens the executable that the kernel runs, whatever its path leads to by now.
func (p *process) openExe() (*os.File, error) { return p.open("exe") }

// read returns the first limit bytes of a file.
func (p *process) read(name string, limit int64) ([]byte, error) {
	f, err := p.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// workload reads all but the digest.
func (p *process) workload() (workload, error) {
	w := workload{pid: p.pid}
	var err error
	if w.start, err = p.start(); err != nil {
		return w, err
	}
	status, err := p.read("status", maxStatus)
	if err != nil {
		return w, err
	}
	if w.uid, err = effectiveUID(status); err != nil {
		return w, err
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(p.dir, "exe", buf)
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		// The command line can be read, so that the refusal names what it is about.
	case errors.Is(err, unix.ENOENT):
		return w, nil // a thread of the kernel
	case err != nil:
		return w, &os.PathError{Op: "readlink", Path: "exe", Err: err}
	default:
		w.exe = string(buf[:n])
	}
	command, err := p.read("cmdline", maxCommand)
	if err != nil {
		return w, err
	}
	args := strings.Split(string(bytes.TrimRight(command, "\x00")), "\x00")
	names := []string{filepath.Base(w.exe), filepath.Base(args[0])}
	if w.exe == "" {
		w.exe = args[0]
	}
	w.role = roleOf(names, args[1:])
	return w, nil
}

// start returns the time of the process's start as /proc tells it. A zombie, which runs nothing any more, is an error.
func (p *process) start() (string, error) {
	raw, err := p.read("stat", maxStatus)
	if err != nil {
		return "", err
	}
	// The program's name stands in parentheses and may hold anything, parentheses too.
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 20 {
		return "", errors.New("stat of the process is not understood")
	}
	if state := fields[0]; slices.Contains([]string{"Z", "X", "x"}, state) {
		return "", unix.ESRCH
	}
	return fields[19], nil
}

// same fails unless the process still runs exe as it did when w was read.
func (p *process) same(exe *os.File, w workload) error {
	now, err := p.workload()
	if err != nil {
		return err
	}
	f, err := p.openExe()
	if err != nil {
		return err
	}
	defer f.Close()
	a, errA := exe.Stat()
	b, errB := f.Stat()
	if err := errors.Join(errA, errB); err != nil {
		return err
	}
	if !os.SameFile(a, b) || now.start != w.start || now.role != w.role || now.uid != w.uid {
		return errors.New("the process became another while it was looked at")
	}
	return nil
}

func effectiveUID(status []byte) (uint32, error) {
	for line := range bytes.Lines(status) {
		rest, ok := bytes.CutPrefix(line, []byte("Uid:"))
		if !ok {
			continue
		}
		fields := bytes.Fields(rest) // real, effective, saved, of the file system
		if len(fields) != 4 {
			break
		}
		uid, err := strconv.ParseUint(string(fields[1]), 10, 32)
		return uint32(uid), err
	}
	return 0, errors.New("status of the process names no user")
}
