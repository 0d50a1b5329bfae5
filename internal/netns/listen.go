package netns

import (
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Listen listens on the host, in this process: a socket stays in the namespace that it was made in.
func (h *Host) Listen(network, address string) (net.Listener, error) {
	runtime.LockOSThread() // a thread that can't go back ends with the goroutine, as it stays locked
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer own.Close()
	there, err := os.Open(h.Namespace())
	if err != nil {
		return nil, err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("enter the namespace of %s: %w", h.Addr, err)
	}
	l, err := net.Listen(network, address) //nolint:noctx // it takes no time
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		return nil, fmt.Errorf("leave the namespace of %s: %w", h.Addr, back)
	}
	runtime.UnlockOSThread()
	return l, err
}
