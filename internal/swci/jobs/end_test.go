package jobs_test

import (
	"slices"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/swci/jobs"
)

// TestLosses: what is lost is what was to be copied; a host that is lost, or has failed, has told of no last copy.
func TestLosses(t *testing.T) {
	a := &swarmv1.Assignment{Members: []*swarmv1.AssignmentMember{
		{Node: "a", Group: "node", State: "exited"},
		{Node: "b", Group: "node", Index: 1, State: "stopped"},
		{Node: "c", Group: "node", Index: 2, State: "stopped", Code: -1, Text: "no room"},
		{Node: "d", Group: "node", Index: 3, State: "exited", Code: 3},
		{Node: "e", Group: "node", Index: 4, State: "exited", Code: -1, Text: "no key"},
		{Node: "f", Group: "node", Index: 5, State: "lost"},
	}}
	if got := jobs.Losses(a, false); !slices.Equal(got, []string{"node/2 c: no room"}) {
		t.Errorf("%q", got)
	}
	if got := jobs.Losses(a, true); !slices.Equal(got, []string{"node/2 c: no room", "node/4 e: no key", "node/5 f: its host was lost before it has told of the last copy"}) {
		t.Errorf("%q", got)
	}
}
