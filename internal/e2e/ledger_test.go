package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestLedgerOfATraining copies the ledger from every SN, one of which was killed, and has the copies checked as an auditor
// would.
func TestLedgerOfATraining(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	_, sns := w.up()
	identity := "embedded=" + w.Path("ca")
	ca := w.Path("founding.pem")
	if code, out := w.tool("swarmctl", "get", "bundle", "--identity", identity, "--out", ca); code != 0 {
		t.Fatalf("get bundle: %d %s", code, out)
	}
	sls := w.trains(2, "MIN_PEERS=2", "BATCHES=8")
	finish(t, sls...)
	rounds := w.Agree(1, 2).Rounds
	sns[2].Kill()
	w.SN(3).Sees(apiMarker)

	copies := map[string][]byte{}
	for i := 1; i <= 3; i++ {
		file := w.Path("copy") + w.Addr(i)
		w.Until("the ledger of SN "+w.Addr(i), func() bool {
			code, _ := w.tool("swarmctl", "get", "ledger", "--sn", w.Addr(i)+":30304", "--identity", identity, "--out", file, "--force")
			raw, err := os.ReadFile(file)
			copies[file] = raw
			return code == 0 && err == nil && bytes.Contains(raw, []byte(`"kind":"over"`))
		})
	}
	var first []byte
	var file string
	for name, raw := range copies {
		if first == nil {
			first, file = raw, name
		}
		if !bytes.Equal(raw, first) {
			t.Errorf("two SNs have ledgers of %d and %d bytes", len(raw), len(first))
		}
	}
	code, out := w.tool("swarmctl", "verify", "ledger", file, "--bundle", ca)
	if code != 0 || !strings.Contains(out, "of 1 contract signed by sl-1, sl-2") && !strings.Contains(out, "of 1 contract signed by sl-2, sl-1") { // in the order of enrolment
		t.Errorf("verify: %d %s", code, out)
	}
	var report struct {
		Good          bool
		Rounds        int
		Registrations int
		Unwitnessed   int
	}
	_, out = w.tool("swarmctl", "verify", "ledger", file, "--bundle", ca, "-o", "json")
	if err := json.Unmarshal([]byte(out), &report); err != nil || !report.Good || report.Rounds != rounds || report.Registrations != 5 {
		t.Errorf("report %+v, want %d rounds of 5 nodes: %v\n%s", report, rounds, err, out)
	}
	// A weight that one would like to be another.
	forged := bytes.Replace(first, []byte(`"weight":`), []byte(`"weight":1`), 1)
	if err := os.WriteFile(file, forged, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out = w.tool("swarmctl", "verify", "ledger", file, "--bundle", ca); code != 1 || !strings.Contains(out, "the ledger is not good") {
		t.Errorf("a forged weight: %d %s", code, out)
	}
}
