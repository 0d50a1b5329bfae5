package runjob

import (
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/work"
)

// TestWhatKeepsAMemberIn: whoever sees its status sees also whether the network that it is in leads elsewhere.
func TestWhatKeepsAMemberIn(t *testing.T) {
	c, l := &Containers{Scope: "s"}, work.Label{Assignment: "7", Epoch: 1, Node: "a"}
	for _, tt := range []struct{ network, leadsOut, want string }{
		{c.networkName(l), "", "container, network of the job's members alone"},
		{"lab", "", "container, open: network lab"},
		{"lab", "yes", "container, open: network lab, with a way out"},
	} {
		var x container.Summary
		x.HostConfig.NetworkMode, x.Labels = tt.network, map[string]string{engine.LabelLeadsOut: tt.leadsOut}
		if got := isolation(c, l, x); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
