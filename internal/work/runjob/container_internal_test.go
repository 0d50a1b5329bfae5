package runjob

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/engine"
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
	s, err := c.spec(memberWith(t, "replicas: 3", "network: host", "image: i", "command: train.py"), j, ground{network: "host"})
	if err != nil || s.User != want {
		t.Errorf("its user is %q, want %q, %v", s.User, want, err)
	}
}

// TestContainersAreNamedByTheirRanks: what a member prints is from its rank, also beside an SL, which has the first. One of a host that noted no name is called
// by its number.
func TestContainersAreNamedByTheirRanks(t *testing.T) {
	for beside, want := range map[string]string{"restarts: 0": "node-1", "beside: {sl: sl-1, address: 10.0.0.9, port: 29400}": "node-2"} {
		j := jobWith("framework: pytorch", "replicas: 3", "network: host", "image: i", "command: train.py", beside)
		job, w, err := jobOf(j)
		if err != nil {
			t.Fatal(err)
		}
		m, err := memberOf(j, job, w, ground{addresses: append(three[:len(ranks(j, w))-len(three):1], three...), metadata: "/m"})
		if err != nil {
			t.Fatal(err)
		}
		s, err := (&Containers{Node: "b", Scope: "s", Log: slog.New(slog.DiscardHandler)}).spec(m, j, ground{network: "host"})
		if label := engine.LabelNamed + "=" + want; err != nil || !slices.Contains(s.Labels, label) {
			t.Errorf("%s: labels %q, %v; want %s", beside, s.Labels, err, label)
		}
	}
	if got := namedBy(jobWith().Label, ""); got != "node-1" {
		t.Errorf("without a note: %s", got)
	}
}
