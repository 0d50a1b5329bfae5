package rendezvous

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// becomes runs a program in this process's place, on a host whose name leads to an address. It returns only if it can't.
func (m Meeting) becomes(words []string) error {
	program, err := exec.LookPath(words[0])
	if err != nil {
		return fmt.Errorf("start the program: %w", err)
	}
	// The program has what holds for this thread: its host's name, and the signal when its keeper dies.
	runtime.LockOSThread()
	if err := NameHost(context.Background(), m.Own); err != nil && !m.Here { // where loopback leads to all ranks
		return err
	}
	if err := endsWithParent(); err != nil {
		return err
	}
	return fmt.Errorf("start %s: %w", program, syscall.Exec(program, words, os.Environ()))
}

// endsWithParent has the program killed when the keeper dies that has started this process. It was so until now, but for its first thread, and the program
// has what holds for the one that becomes it. What is the first process of a container ends with that.
func endsWithParent() error {
	if os.Getpid() == 1 {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("have the program end with its keeper: %w", err)
	}
	return nil
}

// lookupFor bounds the look for what the host's name leads to.
const lookupFor = 5 * time.Second

// NameHost has the name of this host lead to a member's address, for the thread that calls it and what that starts alone. Programs of ads opctl say that
// they are where it leads. Horovod awaits other ranks at HOROVOD_GLOO_IFACE, but those of its
// sets of processes, of which there always is one, where the host's name leads: with many distributions that is loopback. An address is a name too.
func NameHost(ctx context.Context, own netip.Addr) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	if own.IsLoopback() || !isLocal(own) { // all ranks are on this machine; or it is known by an address that it does not have
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupFor)
	defer cancel()
	all, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", name) // without any Horovod would fail
	for i, a := range all {
		all[i] = a.Unmap()
	}
	if len(all) > 0 && !slices.ContainsFunc(all, func(a netip.Addr) bool { return a != own }) {
		return nil
	}
	if err = unix.Unshare(unix.CLONE_NEWUTS); err == nil {
		err = unix.Sethostname([]byte(own.String()))
	}
	if err != nil {
		return fmt.Errorf("this host's name %q leads to %v, and the other members find it at %s: have /etc/hosts lead it there, or run this host's SWOP as root, or the job in containers (%w)", name, all, own, err)
	}
	return nil
}

// isLocal reports whether an address is one of this machine.
func isLocal(a netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(all, func(x net.Addr) bool {
		n, is := x.(*net.IPNet)
		return is && n.IP.Equal(a.AsSlice())
	})
}
