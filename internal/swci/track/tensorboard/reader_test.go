package tensorboard_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/swci/track/tensorboard"
)

// reader prints what TensorBoard's own reader finds in a directory of runs, by run and tag. It does without TensorFlow, which takes seconds to load.
const reader = `
import json, sys, types
sys.modules["tensorboard.compat.notf"] = types.ModuleType("notf")
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
m = EventMultiplexer(tensor_size_guidance={}).AddRunsFromDirectory(sys.argv[1])
m.Reload()
from tensorboard.util import tensor_util
print(json.dumps({run: {tag: [[e.step, e.wall_time, float(tensor_util.make_ndarray(e.tensor_proto))] for e in m.Tensors(run, tag)] for tag in m.Runs()[run]["tensors"]} for run in m.Runs()}))
`

// TestTensorBoardReads what was written, also where a file was cut off and went on in another one.
func TestTensorBoardReads(t *testing.T) {
	t.Parallel()
	python := e2etest.Environment(t, "tf")
	dir := t.TempDir()
	want := map[string]map[string][][3]float64{}
	for _, run := range []string{"swarm", "sl-0"} {
		want[run] = map[string][][3]float64{}
		for step := range uint64(4) {
			d := open(t, filepath.Join(dir, run)) // a file for each
			e := event(step + 1)
			if err := d.Write([]tensorboard.Event{e}); err != nil {
				t.Fatal(err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			for _, s := range e.Scalars {
				want[run][s.Tag] = append(want[run][s.Tag], [3]float64{float64(e.Step), float64(e.AtMS) / 1000, s.Value})
			}
		}
	}
	out, err := exec.CommandContext(t.Context(), python, "-W", "ignore", "-c", reader, dir).Output()
	if err != nil {
		if of, ok := err.(*exec.ExitError); ok { //nolint:errorlint // of a command
			t.Fatalf("%v: %s", err, of.Stderr)
		}
		t.Fatal(err)
	}
	var got map[string]map[string][][3]float64
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
}
