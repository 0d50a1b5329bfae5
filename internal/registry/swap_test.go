package registry_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/swarmd/swarmd/internal/registry"
)

// A user whose directory root reads can put another in its place at any moment: what was not looked at is not touched.
func TestDirectoryIsTheOneThatWasLookedAt(t *testing.T) {
	home := t.TempDir()
	good, bad, link := filepath.Join(home, "good"), filepath.Join(home, "bad"), filepath.Join(home, "run")
	const name, stale = "x.json", `{"pid":2147483000,"start_time":1,"role":"sl"}`
	for dir, mode := range map[string]os.FileMode{good: 0o700, bad: 0o777} { // the second is refused
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(stale), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SWARM_RUN_DIR", link)
	point := func(dir string) {
		_ = os.Symlink(dir, link+".new")
		if err := os.Rename(link+".new", link); err != nil {
			t.Error(err)
		}
	}
	point(good)
	var wg sync.WaitGroup
	end := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
				point(bad)
				point(good)
			}
		}
	})
	listed := 0
	for range 1500 {
		if err := os.WriteFile(filepath.Join(good, name), []byte(stale), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := registry.List(""); err == nil {
			listed++
		}
	}
	close(end)
	wg.Wait()
	if _, err := os.Stat(filepath.Join(bad, name)); err != nil {
		t.Errorf("a file of a directory that is not trusted was removed: %v", err)
	}
	if listed == 0 {
		t.Error("nothing was ever listed: the test shows nothing")
	}
}
