package links_test

import (
	"os/exec"
	"testing"
)

// A firewall before one SL: the SN that leads tells that SL so, and the other that it is reached.
func TestDialBackNamesAClosedPort(t *testing.T) {
	w := newSwarm(t, 1)
	rule := w.Host(12).Command("iptables", "-w", "-A", "INPUT", "-p", "tcp", "--dport", "30305", "--syn", "-j", "REJECT", "--reject-with", "tcp-reset")
	if out, err := exec.CommandContext(t.Context(), rule[0], rule[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.train(1, "MIN_PEERS=3", "BATCHES=2")
	w.train(2, "MIN_PEERS=3", "BATCHES=2")
	w.sls[1].Sees("an SN reaches this node")
	w.sls[2].Sees("an SN can't reach this node")
	w.sls[2].Sees("cause=refused")
}
