package sockets

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// lines are as the kernel writes them on a little-endian machine.
const lines = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2253 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 101 1 0000000000000000 100 0 0 10 0
   1: 00000000:2253 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 102 1 0000000000000000 100 0 0 10 0
   2: 0100007F:2253 0100007F:A1B2 01 00000000:00000000 00:00000000 00000000     0        0 103 1 0000000000000000 100 0 0 10 0
   3: 0B00000A:2254 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 104 1 0000000000000000 100 0 0 10 0
   4: 00000000000000000000000001000000:2253 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 105 1 0000000000000000 100 0 0 10 0
   5: 0000000000000000FFFF00000B00000A:2253 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 106 1 0000000000000000 100 0 0 10 0
   6: nonsense:2253 0:0 0A 0:0 0:0 0 0 0 107
   7: 0100007F
`

func TestSockets(t *testing.T) {
	got := socketsIn(strings.NewReader(lines), 0x2253)
	want := []socket{
		{netip.MustParseAddrPort("127.0.0.1:8787"), "101"},
		{netip.MustParseAddrPort("0.0.0.0:8787"), "102"},
		{netip.MustParseAddrPort("[::1]:8787"), "105"},
		{netip.MustParseAddrPort("10.0.0.11:8787"), "106"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestDialled: a socket on all addresses is dialled at one of this host for itself, which is nobody else's.
func TestDialled(t *testing.T) {
	six, four := netip.MustParseAddrPort("[::]:80"), netip.MustParseAddrPort("0.0.0.0:80")
	for _, tt := range []struct {
		at   string
		all  []socket
		want string
	}{
		{"10.0.0.11:80", nil, "10.0.0.11:80"},
		{"0.0.0.0:80", []socket{{four, "own"}}, "127.0.0.1:80"},
		{"[::]:80", []socket{{six, "own"}}, "127.0.0.1:80"},
		{"[::]:80", []socket{{six, "own"}, {four, "other"}}, "[::1]:80"},
		{"[::]:80", []socket{{six, "own"}, {four, "own"}}, "127.0.0.1:80"},
	} {
		if got := dialled(netip.MustParseAddrPort(tt.at), tt.all, map[string]bool{"own": true}); got.String() != tt.want {
			t.Errorf("%s among %v: %s, want %s", tt.at, tt.all, got, tt.want)
		}
	}
}
