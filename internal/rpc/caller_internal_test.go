package rpc

import (
	"net/netip"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
)

// TestCallersOfThisHost: a caller is of this host only where the SN is registered at loopback, as behind a proxy all come from there.
func TestCallersOfThisHost(t *testing.T) {
	view := &state.State{Nodes: map[string]*state.Node{
		"sn-1": {Name: "sn-1", Role: "sn", PeerID: "local", Host: "127.0.0.1"}, "sn-2": {Name: "sn-2", Role: "sn", PeerID: "remote", Host: "10.0.0.2"},
		"sn-3": {Name: "sn-3", Role: "sn", PeerID: "named", Host: "localhost"}, "sl-1": {Name: "sl-1", Role: "sl", PeerID: "learner", Host: "127.0.0.1"},
	}}
	for _, x := range []struct {
		what   string
		self   string
		caller Caller
		want   bool
	}{
		{"from loopback", "sn-1", Caller{Remote: netip.MustParseAddr("127.0.0.1")}, true},
		{"from IPv6 loopback", "sn-1", Caller{Remote: netip.MustParseAddr("::1")}, true},
		{"from mapped loopback", "sn-1", Caller{Remote: netip.MustParseAddr("::ffff:127.0.0.1")}, true},
		{"from another host", "sn-1", Caller{Remote: netip.MustParseAddr("10.0.0.9")}, false},
		{"from nowhere that is known", "sn-1", Caller{}, false},
		{"passed on by an SN of this host", "sn-1", Caller{via: "local"}, true},
		{"passed on by an SN called localhost", "sn-1", Caller{via: "named"}, true},
		{"passed on by an SN elsewhere, which may say what it likes", "sn-1", Caller{via: "remote", Remote: netip.MustParseAddr("127.0.0.1")}, false},
		{"passed on by no SN", "sn-1", Caller{via: "learner"}, false},
		{"passed on by nobody known", "sn-1", Caller{via: "other"}, false},
		{"from loopback to an SN called localhost", "sn-3", Caller{Remote: netip.MustParseAddr("127.0.0.1")}, true},
		{"from a proxy on the host of an SN that others reach", "sn-2", Caller{Remote: netip.MustParseAddr("127.0.0.1")}, false},
		{"passed on by an SN at loopback to one that others reach", "sn-2", Caller{via: "local"}, false},
		{"from loopback to an SN that has not registered yet", "sn-9", Caller{Remote: netip.MustParseAddr("127.0.0.1")}, false},
		{"from loopback to no SN", "sl-1", Caller{Remote: netip.MustParseAddr("127.0.0.1")}, false},
	} {
		if got := x.caller.here(view, x.self); got != x.want {
			t.Errorf("%s: %t", x.what, got)
		}
	}
}
