package published_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestNewProjects runs what `swarmctl new` writes for numpy and PyTorch; TestNewProjectsForMinutes all others.
func TestNewProjects(t *testing.T) {
	t.Parallel()
	for name, environment := range map[string]string{"numpy": "dev", "pyt": "dev"} {
		t.Run(name, func(t *testing.T) { newProjectTrains(t, name, environment) })
	}
}

func TestNewProjectsForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("takes minutes: SWARM_TEST_LONG=1 or make test-long")
	}
	t.Parallel()
	for name, environment := range map[string]string{"sklearn": "dev", "tf": "tf", "hf": "hf"} {
		t.Run(name, func(t *testing.T) { newProjectTrains(t, name, environment) })
	}
}

// newProjectTrains does what the README of a new project says, and wants a table without gaps, in which the swarm is better
// than each peer alone, and curves.
func newProjectTrains(t *testing.T, framework, environment string) {
	python := published{environment: environment}.interpreter(t)
	home := t.TempDir()
	dir := filepath.Join(home, "project")
	e2etest.Start(t, "new", home, nil, "swarmctl", "new", dir, "--framework", framework).Ends(time.Minute)
	env := []string{"XDG_RUNTIME_DIR=" + home, "XDG_STATE_HOME=" + home, "SWARM_PYTHON=" + python}
	e2etest.Start(t, "run.sh", home, env, filepath.Join(dir, "run.sh")).Ends(8 * time.Minute) // frameworks are slow to import beside other tests
	if t.Failed() {
		return
	}
	var summary struct {
		ModelsEqual bool `json:"models_equal"`
		Peers       []struct {
			Alone *float64 `json:"local_accuracy"`
			Swarm *float64 `json:"swarm_accuracy"`
			Loss  *float64 `json:"swarm_loss"`
		}
	}
	said, err := os.ReadFile(filepath.Join(dir, "out", "summary.json"))
	if err != nil || json.Unmarshal(said, &summary) != nil || len(summary.Peers) != 3 || !summary.ModelsEqual {
		t.Fatalf("summary: %v, %s", err, said)
	}
	for i, p := range summary.Peers {
		switch {
		case p.Alone == nil || p.Swarm == nil || p.Loss == nil:
			t.Errorf("peer %d has gaps: %s", i, said)
		case *p.Swarm < *p.Alone+0.2:
			t.Errorf("peer %d: %.3f in the swarm is hardly better than %.3f alone", i, *p.Swarm, *p.Alone)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "out", "report.html"))
	if err != nil || !strings.Contains(string(page), `"charts":[{"title":"`) {
		t.Errorf("the report has no curves: %v", err)
	}
	if models, err := filepath.Glob(filepath.Join(dir, "out", "sl-*", "model*")); err != nil || len(models) < 3 {
		t.Errorf("models: %v, %v", models, err)
	}
}
