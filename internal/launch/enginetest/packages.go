package enginetest

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// WithPackages makes an image of the machine's engine that has, beside what another one has, the Python packages of an environment, whose interpreter
// is named. It goes with the test.
func WithPackages(t *testing.T, image, name, python string) {
	t.Helper()
	NeedImage(t, Engine(t), image, "scripts/images all")
	found, err := filepath.Glob(filepath.Join(filepath.Dir(python), "../lib/python3*/site-packages"))
	if err != nil || len(found) != 1 {
		t.Fatalf("packages of %s: %q, %v", python, found, err)
	}
	to := "/usr/local/lib/" + filepath.Base(filepath.Dir(found[0])) + "/dist-packages/"
	build := exec.CommandContext(t.Context(), "docker", "build", "--quiet", "--tag", name, "--file", "-", found[0])
	build.Stdin = strings.NewReader("FROM " + image + "\nCOPY . " + to + "\n")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { // the test's context has ended
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Timeout)
		defer cancel()
		if out, err := exec.CommandContext(ctx, "docker", "image", "rm", name).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}
