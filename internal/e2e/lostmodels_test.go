package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestModelOfAnSLsDisk runs the script of docs/operations/lost.md on what an SL has on its disk when all SNs are gone: it gets the final
// model that the programs ended with.
func TestModelOfAnSLsDisk(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	_, sns := w.up()
	finish(t, w.trains(2)...)
	final := w.Agree(1, 2)
	for i, sn := range sns {
		sn.Kill()
		if err := os.RemoveAll(w.Path("sn" + string(rune('1'+i)))); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", "lost.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```python\n")
	script, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the page has no script")
	}
	script = strings.Replace(script, "/var/lib/swarmd/sl-1/models/study", w.Path("sl1", "models", "e2e"), 1)
	script = strings.Replace(script, `{"weight": ("float32", (10, 784)), "bias": ("float32", (10,))}`, `{"w": ("float32", (1000,)), "b": ("float64", (3,))}`, 1)
	script += "\nimport hashlib\nprint(hashlib.sha256(b''.join(t.tobytes() for t in model.values())).hexdigest())\n"
	out, err := exec.Command(e2etest.Python, "-c", script).CombinedOutput()
	if err != nil || !strings.Contains(string(out), final.SHA256) {
		t.Errorf("%v; the programs ended with %s, the script says:\n%s", err, final.SHA256, out)
	}
}
