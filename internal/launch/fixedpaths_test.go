package launch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/mountns"
)

// TestFixedPathsAreForProgramsThatNameThem: in a file near the program, or in a variable or an argument.
func TestFixedPathsAreForProgramsThatNameThem(t *testing.T) {
	t.Setenv("GORACE", "atexit_sleep_ms=0") // of this binary, by which mounts are tried
	for name, tt := range map[string]struct {
		files map[string]string
		given []string
		want  bool
	}{
		"the program":          {map[string]string{"p.py": "open('/platform/swarmml/data/x')"}, nil, true},
		"no file":              {map[string]string{"p.py": "open('data/x')", "b.py": "/platform/swarm", "c.yaml": "a: b"}, []string{"A=/platform"}, false},
		"a variable":           {map[string]string{"p.py": ""}, []string{"A=b", "DATA_DIR=/platform/swarmml/data"}, true},
		"an argument":          {map[string]string{"p.py": ""}, []string{"--data=/platform/swarmml/data"}, true},
		"settings, further in": {map[string]string{"p.py": "", "a/b/c.yaml": "data: /platform/swarmml/data"}, nil, true},
		"a model":              {map[string]string{"p.py": "", "model.pt": "/platform/swarmml/model"}, nil, false},
		"a hidden folder":      {map[string]string{"p.py": "", ".git/x.py": "/platform/swarmml/model"}, nil, false},
		"end of a long file":   {map[string]string{"p.py": strings.Repeat("x", 1<<20) + "/platform/swarmml/"}, nil, false},
		"long files before it": {map[string]string{"p.py": "", "a/1.json": strings.Repeat("x", 2<<20), "z.py": "/platform/swarmml/"}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			model, data := t.TempDir(), t.TempDir()
			for file, content := range tt.files {
				at := filepath.Join(model, file)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			binds, err := launch.FixedPaths(t.Context(), filepath.Join(model, "p.py"), model, data, tt.given)
			if err != nil { // this machine makes no mount namespace for this user
				if !tt.want || !strings.Contains(err.Error(), "--runtime docker") || strings.Contains(err.Error(), "\n") {
					t.Errorf("got %v", err)
				}
				return
			}
			var want []mountns.Bind
			if tt.want {
				want = []mountns.Bind{{Source: data, Target: "/platform/swarmml/data", ReadOnly: true}, {Source: model, Target: "/platform/swarmml/model"}}
			}
			if diff := cmp.Diff(binds, want); diff != "" {
				t.Errorf("binds (-got +want):\n%s", diff)
			}
		})
	}
}

// TestFixedPathsThatCanNotBe: one line that says why.
func TestFixedPathsThatCanNotBe(t *testing.T) {
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	binds, err := launch.FixedPaths(t.Context(), "/no/such/file", "/no/such/directory", "", []string{"A=/platform/swarmml/model"})
	if err == nil || !strings.Contains(err.Error(), "open /no/such/directory: no such file or directory): if it opens files there use --runtime docker") {
		t.Errorf("got %v and %v", binds, err)
	}
}
