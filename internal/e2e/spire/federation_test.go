package spire_test

import (
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity/spire/spiretest"
)

// Two organisations with a SPIRE server each, which follow each other's bundle endpoint. Federation alone opens nothing:
// each node accepts the other trust domain when --trust-domain names it.
func TestFederation(t *testing.T) {
	t.Parallel()
	one := spiretest.NewServer(t, spiretest.Options{TrustDomain: "one.test", BundleEndpoint: true})
	two := spiretest.NewServer(t, spiretest.Options{TrustDomain: "two.test", BundleEndpoint: true})
	one.Federate(two)
	two.Federate(one)
	w := newSwarm(t, one)
	w.ownAt(one, "sn-1", "two.test")
	w.ownAt(one, "sl-1", "two.test")
	w.ownAt(two, "sl-2", "one.test")

	sn := w.sns(1)[0]
	// Neither accepts the other, then one of them does.
	sl := w.sl(2)
	sl.Sees("waiting for the swarm", "spiffe://one.test/swarm/sn/sn-1", "is not accepted (accepted: two.test; add others with --trust-domain)")
	sl.Kill()
	w.extra["sl-2"] = []string{"--trust-domain", "one.test"}
	sl = w.sl(2)
	sl.Sees("waiting for the swarm", "it does not accept our SVID")
	sn.Sees("API connection refused", "spiffe://two.test/swarm/sl/sl-2", "is not accepted (accepted: one.test; add others with --trust-domain)")
	if strings.Contains(sn.Output(), "registered node node=sl-2") {
		t.Errorf("sn-1 has registered a node of a trust domain that it does not accept")
	}
	sl.Kill()
	sn.Stop()

	w.extra["sn-1"], w.extra["sl-1"] = []string{"--trust-domain", "two.test"}, []string{"--trust-domain", "two.test"}
	w.sns(1)
	sls := w.sls(2)
	finish(t, sls...)
	w.Agree(1, 2)
}

// The bundles of federated trust domains follow each other's rotations for as long as the training takes.
func TestFederationForMinutes(t *testing.T) {
	long(t)
	t.Parallel()
	const ttl = 20 * time.Second
	one := spiretest.NewServer(t, spiretest.Options{TrustDomain: "one.test", BundleEndpoint: true, SVIDTTL: ttl})
	two := spiretest.NewServer(t, spiretest.Options{TrustDomain: "two.test", BundleEndpoint: true, SVIDTTL: ttl})
	one.Federate(two)
	two.Federate(one)
	w := newSwarm(t, one)
	w.ownAt(one, "sn-1", "two.test")
	w.ownAt(one, "sl-1", "two.test")
	w.ownAt(two, "sl-2", "one.test")
	one.CreateEntry(spiretest.Entry{ID: "/observer", Parent: "/swarm/sl-agent/sl-1", Selectors: []string{spiretest.UID()}, FederatesWith: []string{"two.test"}})
	for _, name := range []string{"sn-1", "sl-1"} {
		w.extra[name] = []string{"--trust-domain", "two.test"}
	}
	w.extra["sl-2"] = []string{"--trust-domain", "one.test"}
	w.sns(1)
	sls := w.sls(2, "BATCHES=1500", "BATCH_SECONDS=0.1")
	look := watch(t, w.Addr(12)+":30305", knock)
	sls[0].Sees("round=5 ")
	next := two.PrepareCA()
	authorities(t, w.agents["sl-1"], "two.test", 2) // by the bundle endpoint
	two.ActivateCA(next)
	for _, p := range sls {
		p.Ends(10 * time.Minute)
		unbroken(t, p)
	}
	w.Agree(1, 2)
	if s := look(); len(s.svids) < 6 || len(s.authorities) != 2 {
		t.Errorf("sl-2 showed %d SVIDs of %d authorities, want at least 6 of 2: did anything rotate?", len(s.svids), len(s.authorities))
	}
}

// A server whose CA comes from another SPIRE server.
func TestNestedServer(t *testing.T) {
	t.Parallel()
	root := spiretest.NewServer(t, spiretest.Options{})
	root.CreateEntry(spiretest.Entry{ID: "/nested", Parent: "/root-agent", Selectors: []string{spiretest.UID()}, Downstream: true})
	agent := spiretest.NewAgent(t, root, spiretest.AgentOptions{Name: "of the root", Aliases: []string{"/root-agent"}})
	w := newSwarm(t, spiretest.NewServer(t, spiretest.Options{Upstream: spiretest.SpireUpstream(root, agent.Socket)}))
	w.shared()
	// A node of the root's is one of the same swarm: all have one root.
	root.CreateEntry(spiretest.Entry{ID: "/swarm/sl/sl-2", Parent: "/swarm/sl-agent/sl-2", Selectors: []string{"swarm:node-type:sl"}})
	w.agents["sl-2"] = spiretest.NewAgent(t, root, spiretest.AgentOptions{Name: "sl-2", Aliases: []string{"/swarm/sl-agent/sl-2"}, Swarmd: binary("swarmd")})
	w.sns(1)
	finish(t, w.sls(2)...)
	w.Agree(1, 2)
}
