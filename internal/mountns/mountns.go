// Package mountns starts programs that see directories of this machine at other paths too, each in a Linux mount namespace of its own:
// two programs can see different directories at one path, and nothing changes for anybody else.
//
// The program is started by way of this process's own executable, which makes the mounts and then becomes the program: process ID,
// process group, output and exit code are the program's. So whoever calls Wrap or Check must call Become first thing in its main, when
// its first argument is Command.
package mountns

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is the first argument by which an executable is told to make mounts and to become a program; see Become.
const Command = "mount-and-exec"

// checkLimit bounds Check.
const checkLimit = 10 * time.Second

// self is this executable, also when its file was replaced since.
const self = "/proc/self/exe"

// Bind is a directory that a program sees at another path too.
type Bind struct {
	Source   string // of this machine, absolute
	Target   string // where the program sees it, absolute and clean; it hides what the machine has there
	ReadOnly bool   // at Target; what can be written at Source stays so
}

// plan is what Wrap tells Become.
type plan struct {
	Binds []Bind   `json:"binds"`
	Dir   string   `json:"dir"`            // working directory
	Path  string   `json:"path,omitempty"` // the program; empty: only the mounts are tried
	Args  []string `json:"args,omitempty"` // with the program's name
	// Parent is this process's ID, with whose death the program dies; 0: it need not.
	Parent int `json:"parent,omitempty"`
}

// Wrap has cmd run with the binds. Where the user may not mount, the program gets a user namespace too, in which user and group keep
// their numbers, files of others seem to be nobody's, and no program gains rights by its set-user-ID bit. The program is killed
// when the thread that starts it ends. Call it last: it changes Path, Args and SysProcAttr, of which it keeps the rest.
func Wrap(cmd *exec.Cmd, binds []Bind) error {
	if cmd.Err != nil {
		return cmd.Err
	}
	dir := cmd.Dir
	if dir == "" {
		wd, err := os.Getwd()
		if err != nil {
			return err
		}
		dir = wd
	}
	return plan{Binds: binds, Dir: dir, Path: cmd.Path, Args: cmd.Args, Parent: os.Getpid()}.wrap(cmd)
}

func (p plan) wrap(cmd *exec.Cmd) error {
	for _, b := range p.Binds {
		if !filepath.IsAbs(b.Source) || !filepath.IsAbs(b.Target) || filepath.Clean(b.Target) != b.Target || b.Target == "/" {
			return fmt.Errorf("bind of %q at %q: paths must be absolute and clean", b.Source, b.Target)
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	cmd.Path, cmd.Args = self, []string{filepath.Base(cmd.Path), Command, string(text)}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	attr := cmd.SysProcAttr
	attr.Cloneflags |= unix.CLONE_NEWNS
	if mayMount() {
		return nil
	}
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // past exec, in the new namespaces only; Become gives it up
	return nil
}

// mayMount reports whether this process may mount without a user namespace.
func mayMount() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// Check tries the binds and runs nothing. Its error says in one line why a program can not have them, such as that this kernel gives
// the user no namespaces. It blocks for some milliseconds, 10 s at most.
func Check(ctx context.Context, binds []Bind) error {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, self)
	var said bytes.Buffer
	cmd.Dir, cmd.Stderr, cmd.WaitDelay = "/", &said, time.Second
	if err := (plan{Binds: binds, Dir: "/"}).wrap(cmd); err != nil {
		return err
	}
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("no mount namespace within %s", checkLimit)
	}
	if line, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n"); line != "" {
		return errors.New(line)
	}
	var path *os.PathError // names this executable, which is not what is wrong
	if errors.As(err, &path) {
		err = path.Err
	}
	switch {
	case errors.Is(err, unix.ENOSPC):
		return errors.New("this kernel has no user namespace left to give: sysctl user.max_user_namespaces")
	case errors.Is(err, unix.EPERM):
		return errors.New("no user namespace is allowed here: sysctl kernel.unprivileged_userns_clone, a unit's RestrictNamespaces=, or a container's seccomp profile")
	}
	return fmt.Errorf("make a mount namespace: %w", err)
}
