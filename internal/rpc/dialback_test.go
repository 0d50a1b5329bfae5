package rpc_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/reach"
	"github.com/swarmd/swarmd/internal/rpc"
	"github.com/swarmd/swarmd/internal/rpc/dialback"
)

// shut is a network in which every port refuses connections.
type shut struct{}

func (shut) Contact(_ context.Context, hostport string, _ identity.Role) (p2p.Peer, error) {
	return p2p.Peer{}, &reach.Error{HostPort: hostport, Cause: reach.CauseRefused}
}

// TestDialBackIsTold: the node hears once what came of the dial, operators see it in the list of nodes and in health.
func TestDialBackIsTold(t *testing.T) {
	desk := dialback.New("sn-0", nil)
	s := startSwarm(t, rpc.Config{BodyTime: time.Second, DialBack: desk})
	p, op := s.as("/swarm/sl"), s.as("/swarm/swci")
	p.register(t, "sl-a", nodeKey(t)) // nobody dials yet, and it is not waited for
	beat := func(seen int64) *swarmv1.DialBack {
		t.Helper()
		res, err := p.sessions().Report(t.Context(), with(p, &swarmv1.ReportRequest{DialBackSeenUnixMs: seen}))
		if err != nil {
			t.Fatal(err)
		}
		return res.Msg.GetDialBack()
	}
	if d := beat(0); d != nil {
		t.Errorf("told before it dialled: %v", d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- desk.Run(ctx, shut{}) }()
	node := s.core.View().Nodes["sl-a"]
	for desk.Of(node) == nil {
		runtime.Gosched() // until it has dialled
	}
	d := beat(0)
	if d.GetAnswer() != dialback.No || d.GetCause() != "refused" || d.GetSn() != "sn-0" {
		t.Fatalf("told %v", d)
	}
	if again := beat(d.GetAtUnixMs()); again != nil {
		t.Errorf("told again: %v", again)
	}
	list, err := op.nodes().ListNodes(t.Context(), with(op, &swarmv1.ListNodesRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range list.Msg.GetNodes() {
		if (n.GetDialBack().GetAnswer() == dialback.No) != (n.GetName() == "sl-a") {
			t.Errorf("listed %v", n)
		}
	}
	health, err := swarmv1connect.NewSwarmServiceClient(op.http, op.url()).GetHealth(t.Context(), with(op, &swarmv1.GetHealthRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	if last := health.Msg.GetNodes()[len(health.Msg.GetNodes())-1]; !strings.Contains(strings.Join(last.GetWarnings(), "|"), "refused; open TCP ") {
		t.Errorf("health %v", last)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
