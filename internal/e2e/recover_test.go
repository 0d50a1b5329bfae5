package e2e_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// recover runs recover-sn on SN i's state directory.
func (w *swarm) recover(i int, args ...string) (code int, out string) {
	w.T.Helper()
	args = append([]string{"swarmd", "recover-sn", "--state-dir", w.Path("sn" + string(rune('0'+i))), "--identity", "embedded=" + w.Path("ca")}, args...)
	return w.tool(args...)
}

const understood = "--i-understand-that-the-others-are-gone"

// TestMajorityIsGoneForGood: two of three SNs are lost with their disks while three SLs train. An operator founds the group anew from the
// one that is left: training goes on to its end, new SNs join, and a lost one that comes back after all is told what to do.
func TestMajorityIsGoneForGood(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	_, sns := w.up()
	ca := w.Path("founding.pem")
	if code, out := w.tool("swarmctl", "get", "bundle", "--identity", "embedded="+w.Path("ca"), "--out", ca); code != 0 {
		t.Fatalf("get bundle: %d %s", code, out)
	}
	sls := w.trains(3, "MIN_PEERS=3", "BATCHES=100", "BATCH_SECONDS=0.1")
	if code, out := w.tool("swarmctl", "create", "context", "study", "with", "ip", w.Addr(3), "--identity", "embedded="+w.Path("ca")); code != 0 {
		t.Fatalf("create context: %d %s", code, out)
	}
	for _, p := range sls {
		p.Sees("round=3 ")
	}
	for _, p := range sns[:2] {
		p.Kill()
	}
	if err := os.Rename(w.Path("sn2"), w.Path("sn2-kept")); err != nil { // a copy that turns up again
		t.Fatal(err)
	}
	if err := os.RemoveAll(w.Path("sn1")); err != nil {
		t.Fatal(err)
	}

	if code, out := w.recover(3, understood); code != 1 || !strings.Contains(out, "in use by another process") {
		t.Errorf("beside its daemon: %d %s", code, out)
	}
	sns[2].Stop()
	if code, out := w.recover(3); code != 1 || !strings.Contains(out, understood) || strings.Count(out, "\n") != 1 {
		t.Errorf("without the user's word: %d %s", code, out)
	}
	code, out := w.recover(3, understood)
	if code != 0 || !strings.Contains(out, "recovered as epoch 2 from SN sn-3") || !strings.Contains(out, "no longer of it: sn-1, sn-2") {
		t.Fatalf("recover-sn: %d %s", code, out)
	}
	if code, out := w.recover(3, understood); code != 0 || !strings.Contains(out, "as epoch 2 from SN sn-3 already") {
		t.Errorf("again: %d %s", code, out)
	}
	survivor := w.SN(3)
	survivor.Sees(apiMarker)
	follows := "the swarm was recovered by an operator; context study follows its epoch 2"
	if code, out := w.tool("swarmctl", "list", "nodes", "--context", "study"); code != 0 || !strings.Contains(out, follows) || strings.Contains(out, "sn-1") {
		t.Errorf("a context of before: %d %s", code, out)
	}
	if code, out := w.tool("swarmctl", "list", "nodes", "--context", "study"); code != 0 || strings.Contains(out, follows) {
		t.Errorf("the context again: %d %s", code, out)
	}

	if err := os.Rename(w.Path("sn2-kept"), w.Path("sn2")); err != nil {
		t.Fatal(err)
	}
	w.SN(2).Fails("the swarm was recovered without this SN, as epoch 2: move its state directory ", "start it again with its usual command and --join "+w.Addr(3))
	if code, out := w.recover(2, understood); code != 1 || !strings.Contains(out, "which was recovered without this one") {
		t.Errorf("a second recovery: %d %s", code, out)
	}
	if err := os.RemoveAll(w.Path("sn2")); err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 2; i++ {
		w.SN(i, "--join", w.Addr(3)).Sees(apiMarker)
	}
	finish(t, sls...)
	if e := w.Agree(1, 2, 3); e.Rounds < 10 {
		t.Errorf("got %d rounds, want training to go on", e.Rounds)
	}

	survivor.Kill() // two that joined have a majority
	file := w.Path("copy")
	w.Until("the ledger of SN 1", func() bool {
		code, _ := w.tool("swarmctl", "get", "ledger", "--sn", w.Addr(1)+":30304", "--identity", "embedded="+w.Path("ca"), "--out", file, "--force")
		raw, err := os.ReadFile(file)
		return code == 0 && err == nil && strings.Contains(string(raw), `"kind":"over"`)
	})
	var report struct {
		Good       bool
		Recoveries []struct {
			Epoch    int
			Node, By string
		}
	}
	_, out = w.tool("swarmctl", "verify", "ledger", file, "--bundle", ca, "-o", "json")
	if err := json.Unmarshal([]byte(out), &report); err != nil || !report.Good || len(report.Recoveries) != 1 || report.Recoveries[0].Epoch != 2 || report.Recoveries[0].Node != "sn-3" {
		t.Errorf("audit: %+v %v\n%s", report, err, out)
	}
}

// TestRecoverIsRefusedWhileOthersAnswer: with this SN they would be a majority, also where one of them alone can't lead.
func TestRecoverIsRefusedWhileOthersAnswer(t *testing.T) {
	t.Parallel()
	w := newSwarm(t)
	_, sns := w.up()
	sns[0].Sees("server votes node=sn-2", "server votes node=sn-3")
	if code, out := w.tool("swarmctl", "create", "contract", "settled", "--sn", w.Addr(1)+":30304", "--identity", "embedded="+w.Path("ca")); code != 0 {
		t.Fatalf("create contract: %d %s", code, out)
	}
	w.Until("what SN 3 has of it, and so of who votes", func() bool {
		file := w.Path("copy")
		code, _ := w.tool("swarmctl", "get", "ledger", "--sn", w.Addr(3)+":30304", "--identity", "embedded="+w.Path("ca"), "--out", file, "--force")
		raw, err := os.ReadFile(file)
		return code == 0 && err == nil && strings.Contains(string(raw), `"settled"`)
	})
	sns[2].Stop()
	if code, out := w.recover(3, understood); code != 1 || !strings.Contains(out, "sn-1, sn-2 can be reached: with this SN that is 3 of 3, a majority") {
		t.Errorf("both answer: %d %s", code, out)
	}
	sns[0].Kill()
	if code, out := w.recover(3, understood); code != 1 || !strings.Contains(out, "sn-2 can be reached: with this SN that is 2 of 3, a majority") {
		t.Errorf("one answers: %d %s", code, out)
	}
	w.SN(3).Sees(apiMarker) // nothing was changed: the two go on
}
