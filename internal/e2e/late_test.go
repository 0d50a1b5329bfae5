package e2e_test

import (
	"os"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestKilledAtTheVeryEnd kills SLs while training ends and starts them again as a supervisor does: one whose session the restart
// itself ends, so that the others finish without it, and one whose program was given the final model and has not saved it. Both get
// that model and end with exit code 0, and what is started once more has nothing to do.
func TestKilledAtTheVeryEnd(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	w.one()
	begin, end := w.Path("begin"), w.Path("end")
	start := func(i int, extra ...string) *e2etest.Proc {
		return w.alone(i, append([]string{"MIN_PEERS=2", "BATCH_SECONDS=0.1", "BATCHES=30"}, extra...)...)
	}
	sls := []*e2etest.Proc{start(1), start(2), start(3, "HOLD_END="+end)}
	w.Until("a round of sl-2", func() bool {
		round, _ := w.Status(2)["round"].(float64)
		return round >= 1
	})
	sls[1].Kill()
	if err := os.RemoveAll(w.Path("sl2", "models")); err != nil {
		t.Fatal(err)
	}
	sls[1] = start(2, "HOLD_BEGIN="+begin) // A program that takes long to start.
	sls[1].Sees("ending the session of this node's previous run")
	sls[2].Sees("final model is with the program")
	sls[2].Kill()
	sls[0].Sees("serving the final model until every peer has it")
	sls[2] = start(3, "HOLD_END="+end)
	sls[2].Sees("final model is with the program")
	for _, file := range []string{begin, end} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	finish(t, sls...)
	if e := w.Agree(1, 2, 3); e.Round < 2 {
		t.Errorf("the final model is that of round %d", e.Round)
	}
	again := start(2, "HOLD_BEGIN="+begin)
	again.Sees("training is finished already")
	finish(t, again)
	other := start(2) // Another program wants another training.
	if code := other.Exits(); code != 1 || !strings.Contains(other.Output(), "contract e2e is completed") {
		t.Errorf("another program: exit code %d, want 1", code)
	}
}
