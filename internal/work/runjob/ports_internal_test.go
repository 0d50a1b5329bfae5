package runjob

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/work"
)

// TestAMemberWaitsForItsPorts while another program of its host listens there, and no longer.
func TestAMemberWaitsForItsPorts(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at, port := netip.MustParseAddr("127.0.0.1"), l.Addr().(*net.TCPAddr).Port
	passing, is := errors.AsType[*work.Passing](awaitPorts(t.Context(), at, []int{port}))
	if !is || !strings.Contains(passing.Words, "to which another program of this host does") {
		t.Errorf("while it is in use: %v", passing)
	}
	if err := awaitPorts(t.Context(), netip.MustParseAddr("192.0.2.1"), []int{port}); err != nil {
		t.Errorf("at an address of another host: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := awaitPorts(t.Context(), at, []int{port}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
