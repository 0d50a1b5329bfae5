package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/container"
)

// TestProgramIsNamedByItsBytes: what the ledger is told of a program changes with its file.
func TestProgramIsNamedByItsBytes(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "train.py"), []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	const abc = " sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	in := func(program string, image string) string {
		r := &Runner{cfg: Config{Spec: Spec{ModelDir: dir, Program: program}}, how: &process{}}
		if image != "" {
			r.containers = &containers{spec: container.Spec{Image: image}}
		}
		return r.Program()
	}
	for _, tt := range []struct{ program, image, want string }{
		{"train.py", "", "train.py" + abc},
		{filepath.Join(dir, "train.py"), "", filepath.Join(dir, "train.py") + abc},
		{"train.py", "ml:1", "train.py" + abc + ", image ml:1"},
		{"ml:1", "ml:1", "image ml:1"}, // the image's own
		{"gone.py", "", "gone.py"},
		{".", "", "."},
		{"two\nlines", "", "two?lines"},
	} {
		if got := in(tt.program, tt.image); got != tt.want {
			t.Errorf("%q in %q: %q, want %q", tt.program, tt.image, got, tt.want)
		}
	}
	if got := in(strings.Repeat("x", 5000), ""); len(got) > maxIsolation {
		t.Errorf("%d bytes", len(got))
	}
	if got := (&Runner{}).Program(); got != "" {
		t.Errorf("of one that is started by hand: %q", got)
	}
}
