package runjob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/child"
	"github.com/swarmd/swarmd/internal/registry"
	"github.com/swarmd/swarmd/internal/rendezvous"
	"github.com/swarmd/swarmd/internal/work/detached"
	"github.com/swarmd/swarmd/internal/work/procs"
)

// role is what keepers are in the registry of what runs on a host.
const role = "member"

// Command is the first argument by which this program becomes the keeper of a member's process; see Keep.
const Command = "run-" + role

// orderOption names the file with the order.
const orderOption = "order"

const scopeVariable = "SWARM_SCOPE"

// notStarted is the exit code of a program that could not be started, as in a shell.
const notStarted = 126

// Keep runs the program of a member until it has ended, and ends it with a grace when this process is to end. It notes the exit code, and leaves no
// process of the program's behind: those that lost their parent come to it. It takes the arguments behind Command, which may also tell it to ask a
// member, or to watch a host's, and returns the exit code.
func Keep(args []string) int {
	if len(args) == 0 || len(args) > 2 || len(args) == 2 && args[1] != askOption || !strings.HasPrefix(args[0], "--"+orderOption+"=") {
		fmt.Fprintf(os.Stderr, "%s is for swarmd itself\n", Command)
		return notStarted
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(end)
	file := strings.TrimPrefix(args[0], "--"+orderOption+"=")
	o, err := orderOf(file)
	code := notStarted
	switch {
	case err != nil:
	case len(args) == 2:
		code, err = o.ask(end)
	case o.Watch != nil:
		code, err = 0, o.watch(end)
	default:
		var remove func()
		// Whoever started it does so too, and may have been killed. It stands there until its exit code is noted: a host that sees neither takes it for killed.
		if remove, err = registry.Add(registry.Entry{Role: role, Name: o.Name, StateDir: filepath.Dir(file), Scope: os.Getenv(scopeVariable)}); err == nil {
			defer remove()
			code, err = keep(o, filepath.Dir(file), end)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "swarmd: %v\n", err)
		code = max(code, 1)
	}
	if len(args) == 2 || o.Watch != nil {
		return code
	}
	if err := detached.NoteExit(filepath.Join(filepath.Dir(file), exitFile), code); err != nil {
		fmt.Fprintf(os.Stderr, "swarmd: note the exit code %d: %v\n", code, err)
	}
	return code
}

func keep(o order, dir string, end <-chan os.Signal) (code int, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return notStarted, fmt.Errorf("take over processes without a parent: %w", err)
	}
	l, err := newLease(o.Lease)
	if err != nil {
		return notStarted, err
	}
	cmd := exec.Command(o.Path, o.Args...) //nolint:noctx // it is ended below
	if cmd.Env, err = o.environ(); err != nil {
		return notStarted, err
	}
	cmd.Dir = o.Dir
	p, err := child.StartOn(cmd, child.Output{Stdout: func(r io.Reader) { passOn(r, &output{file: filepath.Join(dir, outputFile)}) }}, func(s *os.ProcessState) { code, _ = child.ExitCode(s) }, o.nameHost())
	if err != nil {
		return notStarted, fmt.Errorf("start %s: %w", o.Name, err)
	}
	if l.watch(p.Done(), end) {
		fmt.Fprintf(os.Stderr, "swarmd: %s is ended: no leader of the swarm answered its host for %v, or its SWOP is gone\n", o.Name, leaseFor)
	}
	p.Stop(o.Grace)
	return code, endChildren()
}

// nameHost has the name of this host lead where the program's member is, for what the thread starts that calls it; nil: it leads where it does.
func (o order) nameHost() func() error {
	own, err := netip.ParseAddr(o.Leads)
	if err != nil {
		return nil
	}
	return func() error { return rendezvous.NameHost(context.Background(), own) }
}

// passOn appends what a program prints to this process's output. What can't be kept, as on a full disk, is lost and does not end the program.
func passOn(r io.Reader, to *output) {
	if _, err := io.Copy(to, r); err != nil {
		_, _ = io.Copy(io.Discard, r)
	}
}

// endChildren kills what a program has left, which has come to be this process's, until nothing is left.
func endChildren() error {
	for {
		all, err := procs.Children(os.Getpid())
		if err != nil {
			return err
		}
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGKILL) // nobody else has its number before it is waited for
		}
		_, err = unix.Wait4(-1, nil, 0, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("wait for what the program has left: %w", err)
		}
	}
}
