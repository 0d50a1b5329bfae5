package e2e_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestWeightsFollowSamples: peers with 30 and 300 samples that say nodeWeightage="samples" weigh that much, and their model is the mean
// weighted so; one that says a number is refused, with what to do.
func TestWeightsFollowSamples(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	w.up()
	sls := []*e2etest.Proc{w.SL(1, "SAMPLES=30", "--expected-peers=2"), w.SL(2, "SAMPLES=300", "--expected-peers=2")}
	finish(t, sls...)
	for _, p := range sls {
		if !strings.Contains(p.Output(), "came to 10.0 10.0") { // (30 * 0 + 300 * 11) / 330
			t.Errorf("%s has another final model: %s", p.Name, p.Output())
		}
	}
	file := w.Path("ledger.jsonl")
	if code, out := w.tool("swarmctl", "get", "ledger", "--sn", w.Addr(1)+":30304", "--identity", "embedded="+w.Path("ca"), "--out", file); code != 0 {
		t.Fatalf("get ledger: %d %s", code, out)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var last map[string]uint32
	rounds := 0
	for line := range bytes.Lines(raw) {
		var record struct {
			Kind string
			Body struct {
				Participants []struct {
					Node   string
					Weight uint32
				}
			}
		}
		if err := json.Unmarshal(line, &record); err != nil || record.Kind != "round" {
			continue
		}
		rounds++
		last = map[string]uint32{}
		for _, p := range record.Body.Participants {
			last[p.Node] = p.Weight
		}
	}
	if want := map[string]uint32{"sl-1": 30, "sl-2": 300}; rounds < 4 || !maps.Equal(last, want) {
		t.Errorf("the last of %d rounds has the weights %v, want %v", rounds, last, want)
	}
	if code, out := w.tool("swarmctl", "get", "contract", "status", "e2e", "--sn", w.Addr(1)+":30304", "--identity", "embedded="+w.Path("ca")); code != 0 || !strings.Contains(out, "30 (9.1 %)") || !strings.Contains(out, "300 (90.9 %)") {
		t.Errorf("status: %d %s", code, out)
	}
}
