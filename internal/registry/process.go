package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrGone says that an entry's process does not run any more.
var ErrGone = errors.New("the process has ended")

// ErrStranger says that an entry names a process that is not the component that it describes.
var ErrStranger = errors.New("the process is not that component")

// Bounds of what is read of a process, in bytes.
const (
	maxStat    = 4 << 10
	maxStatus  = 16 << 10
	maxCommand = 128 << 10
)

// programs are the names that a component's executable begins with.
var programs = []string{"swarmd", "swarmctl"}

// Process is a hold on the process of an entry: it stands for that one process even when its number is given to another.
type Process struct {
	fd  int
	pid int
}

// Open takes hold of the entry's process, after making sure that it is the component: the same process as was registered, its
// user the owner of the entry's file, its program swarmd or swarmctl, its command run-ROLE. ErrGone and ErrStranger tell what
// else it may be. The caller closes the Process.
func (e Entry) Open() (*Process, error) {
	if e.PID <= 1 || e.PID == os.Getpid() {
		return nil, fmt.Errorf("process %d: %w", e.PID, ErrStranger)
	}
	fd, err := unix.PidfdOpen(e.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("process %d: %w", e.PID, ErrGone)
	}
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", e.PID, err)
	}
	p := &Process{fd: fd, pid: e.PID}
	err = e.verify()
	if p.Ended() { // then what was read may have been of another
		err = fmt.Errorf("process %d: %w", e.PID, ErrGone)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// verify compares the entry with what the kernel says of the process that has its number now.
func (e Entry) verify() error {
	start, err := startTime(e.PID)
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && start != e.StartTime:
		return fmt.Errorf("process %d: %w", e.PID, ErrGone) // its number is another's now
	case err != nil:
		return fmt.Errorf("read process %d: %w", e.PID, err)
	}
	uid, err := userOf(e.PID)
	if err != nil {
		return fmt.Errorf("read process %d: %w", e.PID, err)
	}
	if e.owner != 0 && uid != e.owner {
		return fmt.Errorf("process %d belongs to user %d, its entry to user %d: %w", e.PID, uid, e.owner, ErrStranger)
	}
	exe, err := os.Readlink(procFile(e.PID, "exe"))
	if err != nil {
		return fmt.Errorf("read process %d: %w", e.PID, err)
	}
	name := filepath.Base(exe)
	if !slices.ContainsFunc(programs, func(p string) bool { return strings.HasPrefix(name, p) }) {
		return fmt.Errorf("process %d runs %s: %w", e.PID, name, ErrStranger)
	}
	command, err := readProc(e.PID, "cmdline", maxCommand)
	if err != nil {
		return fmt.Errorf("read process %d: %w", e.PID, err)
	}
	words := bytes.Split(command, []byte{0})
	if !slices.ContainsFunc(words[1:], func(w []byte) bool { return string(w) == "run-"+e.Role }) {
		return fmt.Errorf("process %d does not run run-%s: %w", e.PID, e.Role, ErrStranger)
	}
	return nil
}

// Option returns the value that an option has in the command line of the entry's process, as --NAME=VALUE; empty: there is none, or the process
// has ended.
func (e Entry) Option(name string) string {
	command, err := readProc(e.PID, "cmdline", maxCommand)
	if err != nil {
		return ""
	}
	for word := range bytes.SplitSeq(command, []byte{0}) {
		if value, ok := strings.CutPrefix(string(word), "--"+name+"="); ok {
			return value
		}
	}
	return ""
}

// Signal sends a signal to the process. One that has ended is no error.
func (p *Process) Signal(s syscall.Signal) error {
	if err := unix.PidfdSendSignal(p.fd, s, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("send %s to process %d: %w", s, p.pid, err)
	}
	return nil
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, 0) //nolint:gosec // descriptors are small
	return err == nil && n > 0
}

// Wait blocks until the process has ended or ctx ends, whose error it returns then.
func (p *Process) Wait(ctx context.Context) error {
	const slice = 50 * time.Millisecond // after which ctx is looked at
	for !p.Ended() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, int(slice/time.Millisecond)) //nolint:gosec // as above
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for process %d: %w", p.pid, err)
		}
	}
	return nil
}

// Close lets go of the process.
func (p *Process) Close() { _ = unix.Close(p.fd) }

func procFile(pid int, name string) string { return filepath.Join("/proc", strconv.Itoa(pid), name) }

func readProc(pid int, name string, limit int64) ([]byte, error) {
	f, err := os.Open(procFile(pid, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit))
	if errors.Is(err, unix.ESRCH) { // it ended while it was read
		err = os.ErrNotExist
	}
	return b, err
}

// startTime is when a process began, in clock ticks since boot. One that has ended but was not waited for does not run: it
// is os.ErrNotExist, as one that is gone.
func startTime(pid int) (uint64, error) {
	b, err := readProc(pid, "stat", maxStat)
	if err != nil {
		return 0, err
	}
	// The name of the program stands in parentheses and may hold any character; what follows is fields 3 and on.
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return 0, fmt.Errorf("malformed /proc/%d/stat", pid)
	}
	fields := strings.Fields(string(b[end+1:]))
	const state, start = 0, 19
	if len(fields) <= start {
		return 0, fmt.Errorf("malformed /proc/%d/stat", pid)
	}
	if fields[state] == "Z" || fields[state] == "X" {
		return 0, os.ErrNotExist
	}
	return strconv.ParseUint(fields[start], 10, 64)
}

// userOf is the real user of a process.
func userOf(pid int) (uint32, error) {
	b, err := readProc(pid, "status", maxStatus)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "Uid:"); ok {
			if ids := strings.Fields(rest); len(ids) > 0 {
				uid, err := strconv.ParseUint(ids[0], 10, 32)
				return uint32(uid), err
			}
		}
	}
	return 0, fmt.Errorf("malformed /proc/%d/status", pid)
}
