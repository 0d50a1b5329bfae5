package e2e_test

import (
	"os/exec"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestOriginalClient has the client that stands for the original's check itself: its frames against examples, and its
// conversations with a server of a few lines.
func TestOriginalClient(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	if out, err := exec.Command(e2etest.Python, "-B", "testdata/original/selftest.py").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
