package e2e_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestModelsLeaveByTheRulesOnly fetches a model from SLs that train and checks the file, is refused where the rules say
// nothing, and hears who held the final model when all are gone.
func TestModelsLeaveByTheRulesOnly(t *testing.T) {
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
	swarmctl(0, "", "create", "contract", "open", "--export")
	const tensors = 300_000 // more than one leaf
	start := func(first int, contract string) (sls []*e2etest.Proc) {
		for i := first; i < first+2; i++ {
			sls = append(sls, w.alone(i, "CONTRACT="+contract, "SIZE=300000", "BATCHES=24", "BATCH_SECONDS=0.5"))
		}
		return sls
	}
	open, shut := start(1, "open"), start(3, "shut")
	for _, i := range []int{1, 3} {
		w.Until("two rounds", func() bool {
			s := w.Status(i)
			round, _ := s["round"].(float64)
			return round >= 2
		})
	}
	swarmctl(4, "do not let models out", "get", "model", "shut")
	file := w.Path("model.safetensors")
	swarmctl(0, "digest ", "get", "model", "open", "--out", file)
	swarmctl(0, "the SN says so", "verify", "model", file)
	info, err := os.Stat(file)
	if err != nil || info.Size() < 4*tensors {
		t.Fatalf("%v, %v", info, err)
	}
	finish(t, append(open, shut...)...)
	w.Agree(1, 2)
	var list struct {
		Models []any  `json:"models"`
		Note   string `json:"note"`
	}
	out := swarmctl(0, "", "list", "models", "open", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Models) > 0 || !strings.Contains(list.Note, "sl-1") || !strings.Contains(list.Note, "sl-2") || !strings.Contains(list.Note, "final") {
		t.Errorf("after the end: %v, %s", err, out)
	}
}
