package runjob

import (
	"net"
	"os"
	"strings"
	"testing"
)

// TestOwnPortsAlone: a port is reached where a process of the member's listens to it, also on loopback, and not where another one does.
func TestOwnPortsAlone(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).AddrPort().Port()
	c, err := connectToAny(t.Context(), []int{os.Getpid()}, port)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if c, err := connectToAny(t.Context(), []int{os.Getppid()}, port); err == nil || !strings.Contains(err.Error(), "no process of this member listens to port") {
		t.Errorf("another's port: %v, %v", c, err)
	}
}

// TestPidsOfNoContainer: where the processes of a container can't be seen, the error says so.
func TestPidsOfNoContainer(t *testing.T) {
	if all, err := pidsIn(strings.Repeat("0123456789abcdef", 4)); err == nil || !strings.Contains(err.Error(), "run that SWOP beside the engine") {
		t.Errorf("%v, %v", all, err)
	}
}
