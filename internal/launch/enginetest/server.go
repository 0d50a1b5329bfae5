package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/client"
	"golang.org/x/sys/unix"
)

// home is where engines of tests live: on a disk, since overlay2 can not stand on a tmpfs of every kernel, nor on another overlay.
const (
	home   = "/var/tmp"
	prefix = "swarmd-enginetest-"
)

// newHome makes a directory for one engine, after it has removed those of tests that were killed. It is held by a lock until
// the returned function removes it with all that stands in it.
func newHome(t testing.TB) string {
	t.Helper()
	stale, _ := filepath.Glob(filepath.Join(home, prefix+"*"))
	for _, dir := range stale {
		if lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0); err == nil {
			if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
				_ = wipe(dir)
			}
			_ = lock.Close()
		}
	}
	dir, lock := lockedHome(t)
	t.Cleanup(func() {
		if err := wipe(dir); err != nil {
			t.Errorf("clean up after an engine: %v", err)
		}
		_ = lock.Close()
	})
	return dir
}

// lockedHome makes a directory and holds its lock. Another test may take it for a stale one before the lock is held.
func lockedHome(t testing.TB) (dir string, lock *os.File) {
	t.Helper()
	for {
		dir, err := os.MkdirTemp(home, prefix)
		if err != nil {
			t.Fatal(err)
		}
		lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil {
			err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		}
		if err == nil {
			_, err = os.Stat(lock.Name())
		}
		if err == nil {
			return dir, lock
		}
		_ = lock.Close()
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// cgroup is the parent of all cgroups of a private engine's containers.
func cgroup(dir string) string { return filepath.Base(dir) }

// cgroups are all that an engine makes.
func cgroups(dir string) []string {
	names := []string{cgroup(dir)}
	containers, _ := filepath.Glob(filepath.Join(dir, "root/overlay-containers", strings.Repeat("?", 64))) // Podman's
	for _, c := range containers {
		names = append(names, "libpod_parent/libpod-"+filepath.Base(c))
	}
	return names
}

// wipe ends every process of an engine and of its containers, undoes its mounts and removes its directory.
func wipe(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	if err := until(ctx, func() error { return killAll(dir) }); err != nil {
		return err
	}
	if err := unmountAll(dir); err != nil {
		return err
	}
	if err := until(ctx, func() error { return removeCgroups(dir) }); err != nil {
		return err
	}
	return until(ctx, func() error { return os.RemoveAll(dir) })
}

// killAll kills once who belongs to an engine, and is content when it found nobody.
func killAll(dir string) error {
	pids := members(dir)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if len(pids) > 0 {
		return fmt.Errorf("processes %v do not end", pids)
	}
	return nil
}

// members finds processes by their cgroup, and shims and monitors by their command line, which names the engine's directory.
func members(dir string) (pids []int) {
	names := cgroups(dir)
	procs, _ := os.ReadDir("/proc")
	for _, p := range procs {
		pid, err := strconv.Atoi(p.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		groups, _ := os.ReadFile(filepath.Join("/proc", p.Name(), "cgroup"))
		line, _ := os.ReadFile(filepath.Join("/proc", p.Name(), "cmdline"))
		stat, err := os.ReadFile(filepath.Join("/proc", p.Name(), "stat"))
		_, state, _ := bytes.Cut(stat, []byte(") "))
		if err != nil || len(state) == 0 || state[0] == 'Z' {
			continue
		}
		if slices.ContainsFunc(names, func(name string) bool { return bytes.Contains(groups, []byte("/"+name)) }) || bytes.Contains(line, []byte(dir+"/")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func unmountAll(dir string) error {
	mounts, err := mountsUnder(dir)
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if err := unix.Unmount(m, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unmount %s: %w", m, err)
		}
	}
	return nil
}

// mountsUnder lists the mounts under a directory, the innermost first.
func mountsUnder(dir string) (mounts []string, err error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			mounts = append(mounts, f[4])
		}
	}
	slices.Reverse(mounts)
	return mounts, nil
}

func removeCgroups(dir string) error {
	roots := []string{"/sys/fs/cgroup"} // version 2
	more, err := filepath.Glob("/sys/fs/cgroup/*")
	if err != nil {
		return err
	}
	var all []string
	for _, root := range append(roots, more...) {
		for _, name := range cgroups(dir) {
			_ = filepath.WalkDir(filepath.Join(root, name), func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					all = append(all, path)
				}
				return nil
			})
		}
	}
	for _, group := range slices.Backward(all) {
		if err := os.Remove(group); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// server is a process that an engine consists of. It dies with the test's process.
type server struct {
	name string
	cmd  *exec.Cmd
	log  *logBuffer
	done chan struct{}
}

func startServer(t testing.TB, log *logBuffer, env []string, args ...string) *server {
	t.Helper()
	s := &server{name: filepath.Base(args[0]), cmd: exec.Command(args[0], args[1:]...), log: log, done: make(chan struct{})} //nolint:gosec // a test's own
	s.cmd.Env = env
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	s.cmd.WaitDelay = time.Second // a container's shim may hold the log
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", s.name, err)
	}
	go func() {
		_ = s.cmd.Wait() // the state says how it ended
		close(s.done)
	}()
	t.Cleanup(func() { s.end(t, syscall.SIGKILL) })
	return s
}

// end signals the process and waits for it.
func (s *server) end(t testing.TB, sig syscall.Signal) {
	t.Helper()
	_ = s.cmd.Process.Signal(sig)
	select {
	case <-s.done:
	case <-time.After(Timeout):
		t.Fatalf("%s does not end within %s of %s", s.name, Timeout, sig)
	}
}

// awaitFile waits until the process has made a file.
func (s *server) awaitFile(t testing.TB, path string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	err := until(ctx, func() error { _, err := os.Stat(path); return errors.Join(err, s.ended(cancel)) })
	if err != nil {
		t.Fatalf("start %s: %v\n%s", s.name, err, s.log)
	}
}

// ended stops the waiting for a process that is no more.
func (s *server) ended(stop func()) error {
	select {
	case <-s.done:
		stop()
		return fmt.Errorf("%s ended: %s", s.name, s.cmd.ProcessState)
	default:
		return nil
	}
}

// await waits until an engine answers.
func (s *server) await(t testing.TB, host string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	c, err := client.NewClientWithOpts(client.WithHost(host))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = until(ctx, func() error { _, err := c.Ping(ctx); return errors.Join(err, s.ended(cancel)) })
	if err != nil {
		t.Fatalf("no engine at %s: %v\n%s", host, err, s.log)
	}
}

// logBuffer keeps what an engine says. Safe for concurrent use.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
