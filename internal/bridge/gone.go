package bridge

import (
	"context"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// keptCalls is how many calls for its session over one connection show a client that keeps it open. One that makes a connection per
	// call, such as curl, is not there between calls, and is never seen to go.
	keptCalls = 2
	// endLimit is how long the process behind a closed connection may take to end; one that lives on connects again.
	endLimit = 5 * time.Second
	endStep  = 50 * time.Millisecond
)

// departure is the last connection of a session that was closed.
type departure struct {
	session string
	process *os.File // a pidfd of who had opened it; whoever takes the departure closes it
}

// processOf opens a pidfd of the process at the other end of a connection; nil: it is not known, as from another PID namespace.
func processOf(conn net.Conn) *os.File {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	pidfd := -1
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil && peer.Pid > 0 {
			if pidfd, err = unix.PidfdOpen(int(peer.Pid), 0); err != nil {
				pidfd = -1
			}
		}
	})
	if pidfd < 0 {
		return nil
	}
	return os.NewFile(uintptr(pidfd), "process of a program")
}

// watchPrograms tells Gone of sessions whose programs have ended, until ctx ends.
func (s *Server) watchPrograms(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-s.clients.left:
			ended := hasEnded(ctx, d.process)
			_ = d.process.Close()
			if ended && !s.clients.present(d.session, nil) {
				s.cfg.Gone(ctx, d.session)
			}
		}
	}
}

// hasEnded reports whether a process ends within endLimit. A process closes its connections just before it ends.
func hasEnded(ctx context.Context, process *os.File) bool {
	for waited := time.Duration(0); waited < endLimit && ctx.Err() == nil; waited += endStep {
		fds := []unix.PollFd{{Fd: int32(process.Fd()), Events: unix.POLLIN}} //nolint:gosec // a descriptor
		if n, err := unix.Poll(fds, int(endStep.Milliseconds())); n > 0 && err == nil {
			return true
		}
	}
	return false
}
