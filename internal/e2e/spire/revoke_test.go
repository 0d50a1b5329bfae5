package spire_test

import (
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity/spire/spiretest"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// endless is a training that ends with the test, with models large enough that most of the time is exchange.
var endless = []string{"MIN_PEERS=2", "BATCHES=1000000", "SIZE=1000000"}

// lastRound is when an SL last contributed to a round.
func lastRound(t *testing.T, p *e2etest.Proc) time.Time {
	t.Helper()
	var last string
	for line := range strings.Lines(p.Output()) {
		if strings.Contains(line, "model handed to the program") && strings.Contains(line, "contributed=true") {
			last = line
		}
	}
	stamp, _, _ := strings.Cut(last, " : ")
	when, err := time.ParseInLocation("2006-01-02 15:04:05,000", stamp, time.Local)
	if err != nil {
		t.Fatalf("%s never contributed: %v", p.Name, err)
	}
	return when
}

// Whose entry is deleted is out as soon as its last SVID ends, the exchange that it is in included; the others go on.
func TestDeletedEntry(t *testing.T) {
	t.Parallel()
	const ttl = 20 * time.Second
	server := spiretest.NewServer(t, spiretest.Options{SVIDTTL: ttl})
	w := newSwarm(t, server)
	for _, name := range []string{"sn-1", "sl-1", "sl-2", "sl-3"} {
		w.own(name)
	}
	sn := w.sns(1)[0]
	sls := w.sls(3, endless...)
	for _, p := range sls {
		p.Sees("round=5 ")
	}
	look := watch(t, w.Addr(13)+":30305", knock)
	deleted := time.Now()
	server.DeleteEntry("/swarm/sl/sl-3")
	w.agents["sl-3"].Sees(`"Entry removed"`) // from now on it makes no SVID of it

	w.Until("round without sl-3", func() bool {
		n := strings.LastIndex(sls[0].Output(), "model handed to the program")
		return strings.Contains(sls[0].Output()[n:], "participants=2")
	})
	w.advances(sls[0], 5)
	w.advances(sls[1], 5)
	last := lastRound(t, sls[2])
	end := look().last.NotAfter
	if end.After(deleted.Add(ttl + 5*time.Second)) {
		t.Errorf("the last SVID of sl-3 ends %s after its entry was deleted", end.Sub(deleted))
	}
	if last.After(end.Add(time.Second)) {
		t.Errorf("sl-3 was in a round until %s, %s after its SVID had ended", last, last.Sub(end))
	}
	sn.Sees("registered node node=sl-3") // its API calls were taken before
	sls[2].Sees("/swarm/sl/sl-3", "has expired")
	if n := rounds(sls[2]); n == 0 {
		t.Errorf("sl-3 was in no round")
	}
	// It comes back with its entry, and with the state that it kept.
	before := rounds(sls[2])
	server.CreateEntry(spiretest.Entry{ID: "/swarm/sl/sl-3", Parent: "/swarm/sl-agent/sl-3", Selectors: []string{"swarm:node-type:sl"}})
	w.Until("round with sl-3 again", func() bool { return rounds(sls[2]) > before })
}

// Under shared entries a node is banned by its key, at once, whatever SVID it has.
func TestBannedNode(t *testing.T) {
	t.Parallel()
	w := newSwarm(t, spiretest.NewServer(t, spiretest.Options{}))
	w.shared()
	w.sns(1)
	sls := w.sls(3, endless...)
	for _, p := range sls {
		p.Sees("round=5 ")
	}
	w.swarmctl("ban", "node", "sl-3", "--reason", "laptop was stolen")
	sls[2].Sees("laptop was stolen")
	last := lastRound(t, sls[2])
	w.advances(sls[0], 10)
	w.advances(sls[1], 10)
	if again := lastRound(t, sls[2]); again.After(last.Add(time.Second)) {
		t.Errorf("sl-3 was in a round %s after it had heard of its ban", again.Sub(last))
	}
	for _, p := range sls[:2] {
		n := strings.LastIndex(p.Output(), "model handed to the program")
		if !strings.Contains(p.Output()[n:], "participants=2") {
			t.Errorf("%s merges with a banned node", p.Name)
		}
	}
	// Starting again does not help, its keeper's SVID is as good as ever.
	sls[2].Kill()
	w.sl(3, endless...).Sees("banned", "laptop was stolen")
}
