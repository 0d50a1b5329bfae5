package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// server listens, and has another process serve what comes until this one has ended, or what it becomes. That process is no child of this one: a program may
// wait for all its children, and knows nothing of it. Nor is it in its group, whose processes a program may end.
func (m Meeting) server(ctx context.Context) error {
	l, err := Listen(ctx, m.At)
	if err != nil {
		return err
	}
	defer l.Close()
	f, err := l.(*net.TCPListener).File() //nolint:forcetypeassert // the network is tcp
	if err != nil {
		return fmt.Errorf("pass the rendezvous on: %w", err)
	}
	defer f.Close()
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("have the rendezvous end with rank 0: %w: that takes Linux 5.3 or later, and an engine whose containers may call pidfd_open", err)
	}
	end := os.NewFile(uintptr(self), "rank 0")
	defer end.Close()
	if err := m.another(apart, f, end).Run(); err != nil { // it says itself why
		return fmt.Errorf("start the rendezvous: %w", err)
	}
	return nil
}

// another is a process that serves, or starts one, of this program, whatever is at its path by now.
func (m Meeting) another(as string, listener, end *os.File) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", Command, "-as="+as, "-at="+m.At.String(), "-ranks="+m.ranks()) //nolint:noctx // it outlives this program
	cmd.Stderr, cmd.ExtraFiles = os.Stderr, []*os.File{listener, end}
	return cmd
}

// beside is what a process beside rank 0 does.
func (m Meeting) beside(ctx context.Context, as string) error {
	listener, end := os.NewFile(givenListener, "rendezvous"), os.NewFile(givenEnd, "rank 0")
	switch as {
	case serving:
		return m.serve(ctx, listener, end)
	case apart:
		cmd := m.another(serving, listener, end)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return err
		}
		return cmd.Process.Release()
	}
	return fmt.Errorf("-as is %.40q", as)
}

// serve serves on a listener until a process has ended.
func (m Meeting) serve(ctx context.Context, listener, end *os.File) error {
	l, err := net.FileListener(listener)
	if err != nil {
		return fmt.Errorf("take the rendezvous over: %w", err)
	}
	_ = listener.Close() // l has its own
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- awaitEnd(end)
		cancel()
	}()
	if err = (&Server{Store: NewStore(len(m.Ranks)), Ranks: m.Ranks, Say: say}).Serve(ctx, l); err != nil {
		return err
	}
	return <-ended
}

// awaitEnd blocks until a process has ended, of which a file is.
func awaitEnd(f *os.File) error {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}, -1) //nolint:gosec // a file's number
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("watch rank 0: %w", err)
		}
	}
}
