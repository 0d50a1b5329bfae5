package bridge_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/bridge"
)

// runIn starts a bridge in dir and stops it as soon as it is ready.
func runIn(t *testing.T, dir string) error {
	t.Helper()
	e := &engine{}
	s, err := bridge.NewServer(bridge.Config{Dir: dir, Log: slog.New(slog.DiscardHandler), Handler: e})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	select {
	case <-s.Ready():
		cancel()
		return <-done
	case err := <-done:
		return err
	}
}

func TestParentThatOthersControlIsRefused(t *testing.T) {
	parent := func() string {
		dir := filepath.Join(t.TempDir(), "swarmd")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	good := parent()
	if err := runIn(t, filepath.Join(good, "sl-0")); err != nil {
		t.Errorf("own parent: %v", err)
	}
	sticky := parent()
	if err := os.Chmod(sticky, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if err := runIn(t, filepath.Join(sticky, "sl-0")); err != nil {
		t.Errorf("parent like /tmp: %v", err)
	}
	open := parent()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := runIn(t, filepath.Join(open, "sl-0")); err == nil || !strings.Contains(err.Error(), "--bridge-dir") {
		t.Errorf("parent that everybody may write: %v", err)
	}
	if os.Geteuid() != 0 { // only root can give a directory away
		return
	}
	foreign := parent()
	if err := os.Chown(foreign, 4242, 4242); err != nil {
		t.Fatal(err)
	}
	if err := runIn(t, filepath.Join(foreign, "sl-0")); err == nil || !strings.Contains(err.Error(), "4242") {
		t.Errorf("parent of another user: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(link, 4242, 4242); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sl-1", "scope/sl-1"} {
		if err := runIn(t, filepath.Join(link, name)); err == nil || !strings.Contains(err.Error(), "4242") {
			t.Errorf("link of another user, %s: %v", name, err)
		}
	}
	if made, err := os.ReadDir(good); err != nil || len(made) > 0 {
		t.Errorf("made where the link of another user leads: %v, %v", made, err)
	}
}
