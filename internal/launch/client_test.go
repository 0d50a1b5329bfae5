package launch_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/swarmd/swarmd/internal/launch"
)

func TestParseClient(t *testing.T) {
	for given, want := range map[string]string{"": launch.ClientAuto, "AUTO": launch.ClientAuto, "Original": launch.ClientOriginal, "swarmlearning": launch.ClientOwn, "hpe": ""} {
		if got, err := launch.ParseClient(given); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", given, got, err)
		}
	}
}

// TestOriginalBeside: it is known by the messages of its bridge, in the package or below it, and ours is never taken for it.
func TestOriginalBeside(t *testing.T) {
	for name, tt := range map[string]struct {
		files []string
		want  bool
	}{
		"nothing":      {nil, false},
		"the original": {[]string{"__init__.py", "swifrpc_pb2.py"}, true},
		"a level down": {[]string{"__init__.py", "client/swifrpc_pb2.py"}, true},
		"another":      {[]string{"__init__.py", "pyt.py"}, false},
		"ours":         {[]string{"__init__.py", "_params.py", "swifrpc_pb2.py"}, false},
	} {
		dir := t.TempDir()
		for _, f := range tt.files {
			path := filepath.Join(dir, "swarmlearning", f)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		if found, got := launch.OriginalBeside(dir); got != tt.want || got != (found != "") {
			t.Errorf("%s: %q, %v, want %v", name, found, got, tt.want)
		}
	}
}
