package spire_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/identity/spire/spiretest"
)

// The seed's entries: one SPIFFE ID for each role, one agent.
func TestSharedEntries(t *testing.T) {
	t.Parallel()
	w := newSwarm(t, spiretest.NewServer(t, spiretest.Options{}))
	w.shared()
	sns := w.sns(3)
	finish(t, w.sls(3, "MIN_PEERS=3")...)
	if e := w.Agree(1, 2, 3); e.Rounds != 5 {
		t.Errorf("got %d rounds, want 5: the first model, three merges, the final one", e.Rounds)
	}
	for i := range sns {
		sns[len(sns)-1-i].Stop()
	}
	w.LeavesNothing()
}

// The entries of the original's SPIRE example: /sn, /sl and /swci.
func TestEntriesOfTheOriginalsExample(t *testing.T) {
	t.Parallel()
	w := newSwarm(t, spiretest.NewServer(t, spiretest.Options{}))
	w.sharedAt("/")
	lost := w.SN(2)
	lost.Sees("it gives: spiffe://swarm.learning/sn", "--spiffe-prefix")
	lost.Stop()
	for _, name := range []string{"sn-1", "sl-1", "sl-2"} {
		w.extra[name] = []string{"--spiffe-prefix=/"}
	}
	w.sns(1)
	finish(t, w.sls(2)...)
	w.Agree(1, 2)
	w.swarmctl("get", "ledger", "--out", "ledger.jsonl", "--spiffe-prefix=/")
	w.swarmctl("get", "bundle", "--out", "bundle.pem", "--spiffe-prefix=/")
	if out := ctl(t, w.Dir, "verify", "ledger", "ledger.jsonl", "--bundle", "bundle.pem", "--spiffe-prefix=/"); !strings.Contains(out, "verified: the chain of") {
		t.Errorf("verify ledger says %q", out)
	}
}

// The recommended form: each node has an agent and a SPIFFE ID of its own.
func TestEntriesPerNode(t *testing.T) {
	t.Parallel()
	w := newSwarm(t, spiretest.NewServer(t, spiretest.Options{}))
	for _, name := range []string{"sn-1", "sl-1", "sl-2"} {
		w.own(name)
	}
	sns := w.sns(1)
	sls := w.sls(2)
	finish(t, sls...)
	w.Agree(1, 2)
	for name, p := range map[string]interface{ Output() string }{"sn/sn-1": sns[0], "sl/sl-1": sls[0], "sl/sl-2": sls[1]} {
		if id := "spiffe://swarm.learning/swarm/" + name; !strings.Contains(p.Output(), id) {
			t.Errorf("%s does not say that it is %s", name, id)
		}
	}
}
