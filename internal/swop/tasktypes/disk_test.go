package tasktypes_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/swop/tasktypes"
)

// TestDisk: a host offers no more than what is free where members write, and nothing where it can't tell.
func TestDisk(t *testing.T) {
	dir := t.TempDir()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	c := &tasktypes.Config{Process: true, Dir: filepath.Join(dir, "not", "there"), Log: slog.New(slog.DiscardHandler)}
	if got, all := c.Disk(t.Context()), st.Blocks*uint64(st.Bsize); got >= all || got == 0 && st.Bavail*uint64(st.Bsize) > 2<<30 {
		t.Errorf("%d bytes of %d", got, all)
	}
	c.Process, c.Options = false, &start.SWOP{}
	c.Getenv = func(name string) string {
		return map[string]string{"DOCKER_HOST": "unix://" + filepath.Join(dir, "none.sock")}[name]
	}
	if got := c.Disk(t.Context()); got != 0 {
		t.Errorf("%d bytes at an engine that does not answer", got)
	}
}
