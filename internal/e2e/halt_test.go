package e2e_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestPausedAndEnded pauses a training of real programs, which say who has done it, resumes it, and ends it with a final round; the ledger
// has all three with the operator's signature.
func TestPausedAndEnded(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	w.one()
	swarmctl := func(want string, args ...string) {
		t.Helper()
		if code, out := w.swarmctl(args...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%v: exit code %d, %s", args, code, out)
		}
	}
	ca, ledger := w.Path("founding.pem"), w.Path("ledger")
	swarmctl("", "get", "bundle", "--out", ca)
	sls := []*e2etest.Proc{
		w.alone(1, "CONTRACT=study", "MIN_PEERS=2", "BATCHES=100000", "BATCH_SECONDS=0.05", "STOP_WHEN_OVER=1"),
		w.alone(2, "CONTRACT=study", "MIN_PEERS=2", "BATCHES=100000", "BATCH_SECONDS=0.05", "STOP_WHEN_OVER=1"),
	}
	round := func() float64 {
		r, _ := w.Status(1)["round"].(float64)
		return r
	}
	w.Until("two rounds", func() bool { return round() >= 2 })
	swarmctl("contract study is paused, by spiffe://", "pause", "contract", "study")
	for _, p := range sls {
		p.Sees("waiting: paused by spiffe://")
	}
	paused := round()
	swarmctl("  paused  ", "list", "contracts")
	swarmctl("waiting    paused by spiffe://", "get", "contract", "status", "study")
	swarmctl("swarmctl resume contract study", "explain", "contract", "study")
	swarmctl("contract study is paused, by spiffe://", "pause", "contract", "study")
	auditor := func(args ...string) (int, string) { // may look, and no more
		return w.tool(append(append([]string{"swarmctl"}, args...), "--sn", w.Addr(1)+":30304", "--identity", w.Path("ca", "audit.sock"))...)
	}
	if code, out := auditor("explain", "contract", "study"); code != 0 || !strings.Contains(out, "is paused") {
		t.Errorf("an auditor's explain: exit code %d, %s", code, out)
	}
	if code, out := auditor("resume", "contract", "study"); code == 0 || !strings.Contains(out, "audit") {
		t.Errorf("an auditor's order: exit code %d, %s", code, out)
	}
	swarmctl("contract study is not paused: rounds are planned again", "resume", "contract", "study")
	w.Until("a round after the pause", func() bool { return round() > paused })
	swarmctl("contract study is being ended", "end", "contract", "study")
	finish(t, sls...)
	if e := w.Agree(1, 2); e.Rounds <= int(paused) {
		t.Errorf("%d rounds, and it was paused after %g", e.Rounds, paused)
	}
	swarmctl("contract study is over: the model of round ", "end", "contract", "study")
	swarmctl("ended      by spiffe://", "get", "contract", "status", "study")
	if code, out := auditor("get", "ledger", "--out", ledger); code != 0 {
		t.Errorf("an auditor's copy: exit code %d, %s", code, out)
	}
	for _, does := range []string{"paused", "resumed", "ended"} {
		swarmctl("contract study, run 1, was "+does+" by spiffe://", "verify", "ledger", ledger, "--bundle", ca)
	}
}
