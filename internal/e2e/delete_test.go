package e2e_test

import (
	"os"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestDeletedContract deletes a contract that is trained, and one of its name again: programs are told, the next run has a number of
// its own, and the ledger verifies with the models of both.
func TestDeletedContract(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	w.one()
	swarmctl := func(wantCode int, want string, args ...string) string {
		t.Helper()
		code, out := w.swarmctl(args...)
		if code != wantCode || !strings.Contains(out, want) {
			t.Errorf("%v: exit code %d, %s", args, code, out)
		}
		return out
	}
	ca := w.Path("founding.pem")
	swarmctl(0, "", "get", "bundle", "--out", ca)
	train := func(model string) []*e2etest.Proc {
		swarmctl(0, "", "create", "contract", "study", "--min-peers", "2", "--export")
		sls := []*e2etest.Proc{
			w.alone(1, "CONTRACT=study", "MIN_PEERS=2", "BATCHES=600", "BATCH_SECONDS=0.3"),
			w.alone(2, "CONTRACT=study", "MIN_PEERS=2", "BATCHES=600", "BATCH_SECONDS=0.3"),
		}
		w.Until("two rounds", func() bool {
			round, _ := w.Status(1)["round"].(float64)
			return round >= 2
		})
		rows := swarmctl(0, "NODE ", "perfdata", "study")
		if strings.Count(rows, "  12D3Koo") != 2 || strings.Count(rows, "  yes  ") != 1 {
			t.Errorf("two SLs, one of them the admin:\n%s", rows)
		}
		w.Until("a model", func() bool { // rounds go on: it may be replaced while it is fetched
			code, _ := w.swarmctl("get", "model", "study", "--out", w.Path(model))
			return code == 0
		})
		return sls
	}
	told := func(sls []*e2etest.Proc) {
		for _, p := range sls {
			if code := p.Exits(); code != 1 || !strings.Contains(p.Output(), "contract study was deleted") {
				t.Errorf("%s: exit code %d", p.Name, code)
			}
		}
	}
	sls := train("first")
	swarmctl(6, "contract study has 2 open sessions, of sl-1, sl-2", "delete", "contract", "study")
	swarmctl(0, "contract study is deleted, in run 1", "delete", "contract", "study", "force")
	told(sls)
	swarmctl(5, `no contract "study"`, "get", "contract", "status", "study")
	again := train("second")
	swarmctl(0, "contract   study, run 2", "get", "contract", "status", "study")
	swarmctl(0, "contract study is deleted, in run 2", "delete", "contract", "study", "FORCE")
	told(again)
	ledger := w.Path("ledger")
	swarmctl(0, "", "get", "ledger", "--out", ledger)
	swarmctl(0, "contract study, run 1, was deleted by spiffe://", "verify", "ledger", ledger, "--bundle", ca)
	for model, run := range map[string]string{"first": "run 1", "second": "run 2"} {
		swarmctl(0, run, "verify", "model", w.Path(model), "--ledger", ledger, "--bundle", ca)
	}
	raw, err := os.ReadFile(ledger)
	if err != nil || strings.Count(string(raw), `"kind":"deleted"`) != 2 {
		t.Errorf("the ledger has %d deletions, %v", strings.Count(string(raw), `"kind":"deleted"`), err)
	}
}
