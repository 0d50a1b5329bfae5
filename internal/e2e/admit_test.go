package e2e_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// TestOperatorsAdmitSNs: an SN waits for its operator and says what to type, which lets it in; another key under its name, and one
// that is banned, are told and end. Members come back by themselves.
func TestOperatorsAdmitSNs(t *testing.T) {
	t.Parallel()
	w := newSwarm(t)
	w.authority()
	w.SN(1, "--admit", "operator").Sees(apiMarker)
	joiner := w.SN(2)
	joiner.Sees("this SN waits until an operator admits it")
	command := regexp.MustCompile(`swarmctl (admit node sn-2 --peer-id \w+)`).FindStringSubmatch(joiner.Output())
	if command == nil {
		t.Fatalf("it does not say what to type:\n%s", joiner.Output())
	}
	if waiting := w.candidates(); len(waiting) != 1 || !strings.HasSuffix(command[1], waiting[0].PeerID) || waiting[0].Admitted {
		t.Errorf("waiting: %+v; it says %s", waiting, command[1])
	}
	// Another key asks under the same name: the operator must say which one is meant.
	poser := w.SN(3, "--name", "sn-2")
	poser.Sees("this SN waits until an operator admits it")
	if code, out := w.swarmctl("admit", "node", "sn-2"); code != 6 || !strings.Contains(out, "2 SNs wait under that name") {
		t.Errorf("exit code %d, %s", code, out)
	}
	if code, out := w.swarmctl(strings.Fields(command[1])...); code != 0 || !strings.Contains(out, "SN sn-2 may join") {
		t.Fatalf("exit code %d, %s", code, out)
	}
	joiner.Sees(apiMarker)
	poser.Fails("belongs to ", "choose another --name")
	joiner.Stop()
	joiner = w.SN(2)
	joiner.Sees(apiMarker)
	if strings.Contains(joiner.Output(), "waits") {
		t.Error("a member that starts again waits")
	}
	// One that waits is banned.
	third := w.SN(4)
	third.Sees("this SN waits until an operator admits it")
	waiting := w.candidates()
	if len(waiting) != 1 || waiting[0].Name != "sn-4" {
		t.Fatalf("waiting: %+v", waiting)
	}
	if code, out := w.swarmctl("ban", "node", waiting[0].PeerID, "--reason", "not ours"); code != 0 {
		t.Errorf("exit code %d, %s", code, out)
	}
	third.Fails("is banned: not ours")
	if code, out := w.swarmctl("list", "nodes"); code != 0 || strings.Contains(out, "sn-4") || strings.Contains(out, "waiting") {
		t.Errorf("exit code %d, %s", code, out)
	}
}

type candidate struct {
	Name, PeerID string
	Admitted     bool
}

// candidates are the SNs that have not joined.
func (w *swarm) candidates() []candidate {
	w.T.Helper()
	code, out := w.swarmctl("list", "nodes", "-o", "json")
	var list struct {
		Candidates []struct {
			Name     string `json:"name"`
			PeerID   string `json:"peer_id"`
			Admitted bool   `json:"admitted"`
		} `json:"candidates"`
	}
	if err := json.Unmarshal([]byte(out), &list); code != 0 || err != nil {
		w.T.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	var all []candidate
	for _, c := range list.Candidates {
		all = append(all, candidate{c.Name, c.PeerID, c.Admitted})
	}
	return all
}

// TestAdmitWhereNobodyIsAsked: the founder decides, and a joiner's option is answered by a line.
func TestAdmitWhereNobodyIsAsked(t *testing.T) {
	t.Parallel()
	w := newSwarm(t)
	w.one()
	joiner := w.SN(2, "--admit", "operator")
	joiner.Sees("--admit changes nothing", apiMarker)
	if code, out := w.swarmctl("admit", "node", "sn-3", "--peer-id", "12D3KooWQtRDo72PYqqcXDHBdiitmzsMame5gfNTyhMSMfKTPNb3"); code == 0 || !strings.Contains(out, "without an operator's word") {
		t.Errorf("exit code %d, %s", code, out)
	}
}
