package artifacts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/swarmd/swarmd/internal/work"
)

// TestASnapshotIsBounded, and says so in words for the swarm. A folder is read in pieces.
func TestASnapshotIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 * atOnce {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	w := linking{root: root, to: t.TempDir(), most: 3 * atOnce}
	if err := w.folder(t.Context(), ".", 0); err != nil || w.files != 3*atOnce {
		t.Errorf("%d files, %v", w.files, err)
	}
	w = linking{root: root, to: t.TempDir(), most: 3*atOnce - 1}
	lasting, is := errors.AsType[*work.Lasting](w.folder(t.Context(), ".", 0))
	if want := "it has left more than 191 files and folders, and no more are copied: have its program pack them into archives"; !is || lasting.Words != want {
		t.Errorf("%+v", lasting)
	}
}
