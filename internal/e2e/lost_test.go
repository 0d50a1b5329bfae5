package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestModelIsLost kills both SLs at once, as a power cut does, and takes their newest models from memory and from their disks. When they are
// back the contract says what it waits for, then goes on from the model that one of them still has, and the status tells of it.
func TestModelIsLost(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	sn := w.one()
	start := func(batches int) (sls []*e2etest.Proc) {
		for i := 1; i <= 2; i++ {
			sls = append(sls, w.alone(i, "MIN_PEERS=2", fmt.Sprintf("BATCHES=%d", batches), "BATCH_SECONDS=0.1", "--expected-peers=2", "--stall-grace=1s"))
		}
		return sls
	}
	sls := start(100_000)
	w.Until("a copy of a model at sl-1", func() bool { return len(w.copies(1)) > 0 })
	kept := w.copies(1)[0]
	sls[0].Sees(fmt.Sprintf("round=%d ", kept.round+2))
	for _, p := range sls {
		p.Kill()
	}
	for i := 1; i <= 2; i++ {
		if err := os.RemoveAll(w.Bridge(i)); err != nil {
			t.Fatal(err)
		}
		for _, c := range w.copies(i) {
			if i == 2 || c.round > kept.round {
				if err := os.Remove(c.path); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	sls = start(12)
	sn.Sees("no node that is alive holds the model of round", fmt.Sprintf("training goes back to the model of round %d, which sl-1 has", kept.round))
	sn.Sees("a committed model was lost")
	finish(t, sls...)
	w.Agree(1, 2)
	_, out := w.swarmctl("get", "contract", "status", "e2e", "-o", "json")
	var status struct {
		Committed struct{ Round int } `json:"committed"`
		LostModel struct {
			Round        int    `json:"round"`
			Digest       string `json:"digest"`
			ResumedRound int    `json:"resumed_round"`
		} `json:"lost_model"`
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lost := status.LostModel
	if lost.ResumedRound != kept.round || lost.Round < kept.round+2 || len(lost.Digest) != 64 || status.Committed.Round <= lost.Round+1 {
		t.Errorf("the status tells %+v, want that training went back to round %d", status, kept.round)
	}
}

// TestKilledAtOnce kills all SLs while their copies on disk are rounds behind. The weight files are in memory still, and training goes on from
// the last round that was committed.
func TestKilledAtOnce(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	sn := w.one()
	start := func(batches int) (sls []*e2etest.Proc) {
		for i := 1; i <= 2; i++ {
			sls = append(sls, w.alone(i, "MIN_PEERS=2", fmt.Sprintf("BATCHES=%d", batches), "BATCH_SECONDS=0.1", "--expected-peers=2", "--stall-grace=1s"))
		}
		return sls
	}
	sls := start(100_000)
	sls[0].Sees("round=5 ")
	for _, p := range sls {
		p.Kill()
	}
	for i := 1; i <= 2; i++ { // however fast this disk is
		for _, c := range w.copies(i) {
			if err := os.Remove(c.path); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, p := range start(12) {
		p.Sees("the weight files of this node's previous run hold a model", "final model is with the program")
		sls = append(sls, p)
	}
	finish(t, sls[2:]...)
	w.Agree(1, 2)
	_, out := w.swarmctl("get", "contract", "status", "e2e", "-o", "json")
	if strings.Contains(out, `"lost_model": {`) || strings.Contains(sn.Output(), "a committed model was lost") || strings.Contains(sn.Output(), "holds the model of round") {
		t.Errorf("a model was lost: %s\n%s", out, sn.Output())
	}
}

// copied is one model on a node's disk.
type copied struct {
	path  string
	round int
}

// copies are the models that SL i has on disk, oldest first.
func (w *swarm) copies(i int) (out []copied) {
	w.T.Helper()
	paths, err := filepath.Glob(w.Path(fmt.Sprintf("sl%d", i), "models", "e2e", "*.model"))
	if err != nil {
		w.T.Fatal(err)
	}
	for _, path := range paths {
		round, err := strconv.Atoi(strings.Split(filepath.Base(path), "-")[1]) // RUN-ROUND-DIGEST.model
		if err != nil {
			w.T.Fatalf("copy of a model %s: %v", path, err)
		}
		out = append(out, copied{path, round})
	}
	slices.SortFunc(out, func(a, b copied) int { return a.round - b.round })
	return out
}
