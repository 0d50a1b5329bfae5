package container

import (
	"fmt"
	"strings"
	"testing"
)

// However much is opened, the other peers hear of each kind of opening.
func TestIsolationHidesNoOpening(t *testing.T) {
	s := good()
	for i := range 100 {
		s.Mounts = append(s.Mounts, fmt.Sprintf("/a/path/that/is/not/very/short/%d:/m%d", i, i))
		s.Devices = append(s.Devices, fmt.Sprintf("/dev/%s%d", strings.Repeat("d", 100), i))
		s.CapAdd = append(s.CapAdd, strings.Repeat("C", 100))
		s.SecurityOpt = append(s.SecurityOpt, strings.Repeat("s", 100))
	}
	s.Network, s.IPC, s.Privileged = strings.Repeat("ä", 300), "container:"+strings.Repeat("x", 300), true
	const want = "container, open: network ääääääääää…, mount (100 of them), device (100 of them), capability (100 of them), " +
		"security option (100 of them), ipc container:xxxxxxxxxx…, privileged, …"
	if got := s.Isolation(); got != want || len(got) > maxIsolation {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	s = good()
	s.Mounts = []string{"/" + strings.Repeat("a", 300) + ":/x"}
	s.Privileged = true
	if got, want := s.Isolation(), "container, no network, open: mount /aaaaaaaaaaaaaaaaaaa…, privileged, …"; got != want {
		t.Errorf("got %s", got)
	}
}

// Nothing that changes the order of characters, or takes no room, gets into the words.
func TestIsolationIsPrintable(t *testing.T) {
	s := good()
	s.Mounts = []string{"/a\u202eb\u200bc\u0085d:/x"}
	if got, want := s.Isolation(), "container, no network, open: mount /a?b?c?d"; got != want {
		t.Errorf("got %q", got)
	}
}
