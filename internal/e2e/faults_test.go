package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// long is a training that outlives a failover.
var long = []string{"MIN_PEERS=2", "BATCHES=60", "BATCH_SECONDS=0.1"}

func (w *swarm) trains(n int, extra ...string) []*e2etest.Proc {
	w.T.Helper()
	var sls []*e2etest.Proc
	extra = append(slices.Clone(extra), fmt.Sprintf("--expected-peers=%d", n)) // the first round waits for all, however slow one starts
	for i := 1; i <= n; i++ {
		sls = append(sls, w.SL(i, extra...))
	}
	return sls
}

func finish(t *testing.T, sls ...*e2etest.Proc) {
	t.Helper()
	for _, p := range sls {
		if code := p.Exits(); code != 0 {
			t.Errorf("%s: exit code %d, want 0", p.Name, code)
		}
	}
}

func TestSentinelKilledWhileTraining(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	_, sns := w.up()
	sls := w.trains(3, long...)
	sls[0].Sees("round=3 ") // whose SN is the Sentinel
	sns[0].Kill()
	finish(t, sls...)
	if e := w.Agree(1, 2, 3); e.Rounds < 10 {
		t.Errorf("got %d rounds, want training to go on after the Sentinel's death", e.Rounds)
	}
	// Before that it may have come late to the first round, which does not wait for who has not enrolled yet.
	if _, after, _ := strings.Cut(sls[0].Output(), "round=3 "); strings.Contains(after, "contributed=false") {
		t.Errorf("sl-1 lost a round to the Sentinel's death")
	}
	sns[1].Stop()
	sns[2].Stop()
}

func TestSLKilledInExchange(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	w.up()
	sls := w.trains(3, "MIN_PEERS=2", "BATCHES=8", "SIZE=8000000") // 32 MB: an exchange takes its time
	sls[2].Sees("round=1 ")
	w.Until("exchange of a later round at sl-3", func() bool {
		s := w.Status(3)
		return s != nil && s["phase"] == "merging"
	})
	sls[2].Kill()
	finish(t, sls[0], sls[1])
	if e := w.Agree(1, 2); e.Rounds != 6 {
		t.Errorf("got %d rounds, want 6: none lost to the death of sl-3", e.Rounds)
	}
}

func TestSNsRestart(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	_, sns := w.up()
	sls := w.trains(3, long...)
	sls[0].Sees("round=3 ")
	// One that is asked to, and comes back to its own state.
	sns[2].Stop()
	sns[2] = w.SN(3)
	sns[2].Sees(apiMarker)
	// All at once, as at a power cut.
	for _, p := range sns {
		p.Kill()
	}
	for i := range sns {
		sns[i] = w.SN(i + 1)
	}
	for _, p := range sns {
		p.Sees(apiMarker)
	}
	finish(t, sls...)
	w.Agree(1, 2, 3)
	for _, p := range sns {
		if strings.Contains(p.Output(), "founding a swarm") {
			t.Errorf("%s founded a second swarm", p.Name)
		}
	}
}

// SIGTERM in the middle of everything ends all within seconds: daemons, programs, sockets, folders.
func TestTermEndsEverything(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	authority, sns := w.up()
	sls := w.trains(2, "BATCHES=100000")
	waiting := w.SL(3, "CONTRACT=alone") // its program waits for a peer that never comes
	waiting.Sees("session opened")
	for i, p := range sls {
		p.Sees(fmt.Sprintf("session opened at sl-%d", i+1), "round=2 ")
	}
	all := append(append(append([]*e2etest.Proc{}, sls...), waiting), append(sns, authority)...)
	for _, p := range all {
		_ = p.Cmd.Process.Signal(syscall.SIGTERM)
	}
	for _, p := range all[3:] {
		p.Ended()
	}
	for _, p := range all[:3] { // what they were asked to do is not done: no exit code 0
		if code := p.Exits(); code == 0 {
			t.Errorf("%s: exit code 0 though its program was stopped", p.Name)
		}
	}
	w.LeavesNothing()
}
