package reach_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/swarmd/swarmd/internal/reach"
)

func TestRemote(t *testing.T) {
	for addr, want := range map[string]string{
		"10.0.0.1": "", "192.168.1.1": "", "203.0.113.7": "", "2001:db8::1": "", "fd00::1": "", "::ffff:10.0.0.1": "",
		"127.0.0.1": "a loopback address", "127.9.9.9": "a loopback address", "::1": "a loopback address", "::ffff:127.0.0.1": "a loopback address",
		"0.0.0.0": "no address of a host", "0.1.2.3": "no address of a host", "::": "no address of a host", "::ffff:0.0.0.0": "no address of a host",
		"169.254.169.254": "a link-local address", "fe80::1": "a link-local address", "fe80::1%eth0": "a link-local address", "::ffff:169.254.1.1": "a link-local address",
		"224.0.0.1": "an address of many hosts", "ff02::1": "an address of many hosts", "255.255.255.255": "an address of many hosts",
	} {
		if got := reach.Remote(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
}

// TestOnly: what is barred is not connected to, also where a name resolves to it.
func TestOnly(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	dial := func(ctx context.Context, host string) error {
		c, err := (&net.Dialer{ControlContext: reach.Control}).DialContext(ctx, "tcp4", net.JoinHostPort(host, port))
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	for _, host := range []string{"127.0.0.1", "localhost"} {
		if err := dial(t.Context(), host); err != nil {
			t.Errorf("%s without bounds: %v", host, err)
		}
		err := dial(reach.Only(t.Context(), reach.Remote), host)
		if e, ok := errors.AsType[*reach.BarredError](err); !ok || e.Why != "a loopback address" {
			t.Errorf("%s: %v", host, err)
		}
		if err := dial(reach.Only(t.Context(), func(netip.Addr) string { return "" }), host); err != nil {
			t.Errorf("%s where nothing is barred: %v", host, err)
		}
	}
}
