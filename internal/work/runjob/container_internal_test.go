package runjob

import (
	"fmt"
	"log/slog"
	"os"
	"testing"
)

// TestMembersAreNotRootUnderSudo holds that a container has the user who called the SWOP, as that of an ML program has.
func TestMembersAreNotRootUnderSudo(t *testing.T) {
	t.Setenv("SUDO_UID", "1234")
	t.Setenv("SUDO_GID", "5678")
	want := "1234:5678"
	if os.Geteuid() != 0 { // somebody else has set them
		want = fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid())
	}
	j := jobWith("replicas: 3", "network: host", "image: i", "command: train.py")
	c := &Containers{Node: "b", Scope: "s", Log: slog.New(slog.DiscardHandler)}
	s, err := c.spec(memberWith(t, "replicas: 3", "network: host", "image: i", "command: train.py"), j, "host")
	if err != nil || s.User != want {
		t.Errorf("its user is %q, want %q, %v", s.User, want, err)
	}
}
