package python_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/swarmd/swarmd/python"
)

// TestSourceIsWhole fails when a file or folder is added that the embed patterns do not name.
func TestSourceIsWhole(t *testing.T) {
	source := python.Source()
	if err := fstest.TestFS(source, "swarmlearning/__init__.py", "swarm/__init__.py"); err != nil {
		t.Error(err)
	}
	err := filepath.WalkDir("src", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "__pycache__" || strings.HasSuffix(d.Name(), ".egg-info") {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel("src", path)
		if err != nil {
			return err
		}
		want, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		got, err := fs.ReadFile(source, filepath.ToSlash(rel))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is not embedded as it is: %v", rel, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
