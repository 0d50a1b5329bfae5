package cluster

import (
	"testing"

	"github.com/swarmd/swarmd/internal/taskfile"
)

// TestProfileOfASWOP holds that the profile of a local SWOP is one that the original would take, and says what was asked for.
func TestProfileOfASWOP(t *testing.T) {
	c := &Cluster{sns: []string{"127.0.0.1:1", "127.0.0.2:2"}, ports: ports{given: map[int]bool{}}}
	raw, err := c.profile(SWOPSpec{Index: 1, Peers: 2, Private: "/srv"})
	if err != nil {
		t.Fatal(err)
	}
	p, odd, err := taskfile.ReadProfile("profile.yaml", raw)
	if err != nil || len(odd) > 0 {
		t.Fatalf("%v, %v\n%s", err, odd, raw)
	}
	if lint := taskfile.LintProfile("profile.yaml", raw); len(lint) > 0 {
		t.Errorf("lint: %v", lint)
	}
	if p.Peers() != 2 || p.API.Host != "127.0.0.2" || p.API.Port != 2 || p.PolicyURI != "" || p.Nodes[1].PrivateData.Src != "/srv" || p.Nodes[0].SLPort == p.Nodes[1].SLPort {
		t.Errorf("%+v", p)
	}
}
