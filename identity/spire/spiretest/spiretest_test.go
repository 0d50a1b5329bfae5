package spiretest_test

import (
	"context"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"

	"github.com/swarmd/swarmd/identity/spire/spiretest"
)

// source is what a workload of this process gets.
func source(t *testing.T, socket string) *workloadapi.X509Source {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s, err := workloadapi.NewX509Source(ctx, workloadapi.WithClientOptions(workloadapi.WithAddr("unix://"+socket)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestServerAndAgentGiveIdentities(t *testing.T) {
	t.Parallel()
	s := spiretest.NewServer(t, spiretest.Options{SVIDTTL: 20 * time.Second})
	s.CreateEntry(spiretest.Entry{ID: "/swarm/sl/a", Parent: "/swarm/sl-agent/a", Selectors: []string{spiretest.UID()}})
	a := spiretest.NewAgent(t, s, spiretest.AgentOptions{Aliases: []string{"/swarm/sl-agent/a"}})
	got := source(t, a.Socket)
	svid, err := got.GetX509SVID()
	if err != nil || svid.ID.String() != "spiffe://swarm.learning/swarm/sl/a" {
		t.Fatalf("got %v, %v", svid, err)
	}
	s.Restart()
	a.Kill()
	a.Start()
	next := source(t, a.Socket)
	if _, err := next.GetX509BundleForTrustDomain(spiffeid.RequireTrustDomainFromString("swarm.learning")); err != nil {
		t.Error(err)
	}
	// Rotation happens before half of the life is over.
	select {
	case <-got.Updated():
	case <-time.After(30 * time.Second):
		t.Error("no rotation within 30 s")
	}
	s.DeleteEntry("/swarm/sl/a")
	if n := len(s.Entries()); n != 1 {
		t.Errorf("got %d entries, want the agent's alias only", n)
	}
}

func TestFederationAndNesting(t *testing.T) {
	t.Parallel()
	root := spiretest.NewServer(t, spiretest.Options{TrustDomain: "one.test", BundleEndpoint: true})
	other := spiretest.NewServer(t, spiretest.Options{TrustDomain: "two.test", BundleEndpoint: true})
	root.Federate(other)
	root.CreateEntry(spiretest.Entry{ID: "/down", Parent: "/root-agent", Selectors: []string{spiretest.UID()}, Downstream: true, FederatesWith: []string{"two.test"}})
	rootAgent := spiretest.NewAgent(t, root, spiretest.AgentOptions{Name: "root", Aliases: []string{"/root-agent"}})
	bundles := source(t, rootAgent.Socket)
	if _, err := bundles.GetX509BundleForTrustDomain(spiffeid.RequireTrustDomainFromString("two.test")); err != nil {
		t.Error(err)
	}
	nested := spiretest.NewServer(t, spiretest.Options{TrustDomain: "one.test", Upstream: spiretest.SpireUpstream(root, rootAgent.Socket)})
	if got, want := spiretest.Roots(t, nested.Bundle()), spiretest.Roots(t, root.Bundle()); len(got) != 1 || !got[0].Equal(want[0]) {
		t.Errorf("the nested server does not have the root's bundle")
	}
}
