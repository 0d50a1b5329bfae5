package rpc

import (
	"net/netip"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
)

// TestCallersOfThisHost: a loopback address is of this host only if the caller is.
func TestCallersOfThisHost(t *testing.T) {
	view := &state.State{Nodes: map[string]*state.Node{
		"sn-1": {Name: "sn-1", Role: "sn", PeerID: "local", Host: "127.0.0.1"}, "sn-2": {Name: "sn-2", Role: "sn", PeerID: "remote", Host: "10.0.0.2"},
		"sn-3": {Name: "sn-3", Role: "sn", PeerID: "named", Host: "localhost"}, "sl-1": {Name: "sl-1", Role: "sl", PeerID: "learner", Host: "127.0.0.1"},
	}}
	for _, x := range []struct {
		what   string
		caller Caller
		want   bool
	}{
		{"from loopback", Caller{Remote: netip.MustParseAddr("127.0.0.1")}, true},
		{"from IPv6 loopback", Caller{Remote: netip.MustParseAddr("::1")}, true},
		{"from mapped loopback", Caller{Remote: netip.MustParseAddr("::ffff:127.0.0.1")}, true},
		{"from another host", Caller{Remote: netip.MustParseAddr("10.0.0.9")}, false},
		{"from nowhere that is known", Caller{}, false},
		{"passed on by an SN of this host", Caller{via: "local"}, true},
		{"passed on by an SN called localhost", Caller{via: "named"}, true},
		{"passed on by an SN elsewhere, which may say what it likes", Caller{via: "remote", Remote: netip.MustParseAddr("127.0.0.1")}, false},
		{"passed on by no SN", Caller{via: "learner"}, false},
		{"passed on by nobody known", Caller{via: "other"}, false},
	} {
		if got := x.caller.here(view); got != x.want {
			t.Errorf("%s: %t", x.what, got)
		}
	}
}
