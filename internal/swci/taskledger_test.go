package swci_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// TestVerifyLedgerTellsOfTasks: who made, assigned, approved, refused and ended them, and on which hosts, also where something is wrong.
func TestVerifyLedgerTellsOfTasks(t *testing.T) {
	c := newCommitted(t)
	c.add(ledger.Swarm{SwarmID: "s"})
	c.add(ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{c.ca.Raw}})
	c.add(ledger.Task{Task: "pull", Type: "PULL_IMAGE", By: "ann"}) // nobody has signed any of it
	c.add(ledger.Approval{Assignment: "7", Task: "pull", Host: "h-0", Refused: true, Reason: "not \x1b[2Jtoday", By: "bob"})
	c.add(ledger.EndedAssignment{Assignment: "7", Task: "pull", Verdict: "failed", Members: []ledger.Member{{Node: "h-0", State: "refused"}, {Node: "h-1", State: "exited", Code: 3}, {Node: "h-2", State: "exited", Code: -1}}})
	_, swarmctl := newHolders(t)
	out, err := swarmctl("verify", "ledger", c.file(), "--bundle", c.bundle)
	for _, want := range []string{
		"task pull made by ann (record 3, 22 Nov 2026 19:12 UTC)\n",
		"assignment 7 of task pull refused on h-0 by bob: not today (record 4, 22 Nov 2026 19:12 UTC)\n",
		"assignment 7 of task pull failed; h-0 refused, h-1 exited with code 3, h-2 failed (record 5, 22 Nov 2026 19:12 UTC)\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%v: %q is not in\n%s", err, want, out)
		}
	}
	raw, _ := swarmctl("verify", "ledger", c.file(), "--bundle", c.bundle, "-o", "json")
	var got struct {
		Tasks []struct {
			Does    string
			Members []struct{ Node string }
		}
	}
	if err := json.Unmarshal([]byte(raw), &got); err != nil || len(got.Tasks) != 3 || got.Tasks[1].Does != "refused" || len(got.Tasks[2].Members) != 3 {
		t.Errorf("%v, got %+v", err, got)
	}
}
