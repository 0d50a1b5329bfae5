package bridge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/bridge"
	"github.com/swarmd/swarmd/internal/bridge/program"
	"github.com/swarmd/swarmd/internal/bridge/wire"
)

// leave makes slots as a daemon does that is killed: the files stay.
func leave(t *testing.T, at bridge.Place, size int64) *bridge.Slots {
	t.Helper()
	s, err := bridge.CreateSlots(at, size, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSlotsAreOpenedAgain(t *testing.T) {
	at := bridge.Place{Dir: t.TempDir()}
	old := leave(t, at, 8)
	if _, err := old.Local().WriteAt([]byte("offered!"), 0); err != nil {
		t.Fatal(err)
	}
	_, _ = old.Merging().WriteAt([]byte("round  1"), 0)
	old.Commit()
	_, _ = old.Merging().WriteAt([]byte("round  2"), 0)
	committed := old.Commit()
	_, _ = old.Merging().WriteAt([]byte("round  3"), 0) // merged when the daemon died, and not known to be committed

	s, err := bridge.OpenSlots(at, 8, "local", committed)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 8)
	for slot, want := range map[*bridge.Slot]string{s.Local(): "offered!", s.Committed(): "round  2", s.Merging(): "round  3"} {
		if _, err := slot.ReadAt(b, 0); err != nil || string(b) != want {
			t.Errorf("%s holds %q, %v, want %q", slot.Name(), b, err, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(at.Dir); len(left) != 0 {
		t.Errorf("closing left %v", left)
	}
}

func TestSlotsThatAreNotThoseOfBefore(t *testing.T) {
	at := bridge.Place{Dir: t.TempDir(), Spill: t.TempDir(), SpillAs: "/platform/swarmml/spill"}
	leave(t, at, 8)
	for _, c := range []struct {
		what, local, committed, want string
		size                         int64
	}{
		{"other length", "local", "", "want 9", 9},
		{"no such slot", "local", "merged-2", "none of them", 8},
		{"a path out of it", "../local", "", "not where", 8},
		{"files that are not there", "/platform/swarmml/spill/local", "", "no such file", 8},
	} {
		_, err := bridge.OpenSlots(at, c.size, c.local, c.committed)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
	if err := os.Remove(filepath.Join(privateDir(at.Dir), "merged-1")); err != nil {
		t.Fatal(err)
	}
	if _, err := bridge.OpenSlots(at, 8, "local", "merged-1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := os.Stat(filepath.Join(at.Dir, "local")); err != nil {
		t.Errorf("a failed look removed the files: %v", err)
	}
}

// TestKilledWhileAFileIsMade: the file that is merged into next is not there, or has a part of its length.
func TestKilledWhileAFileIsMade(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"removed": os.Remove, "not whole": func(path string) error { return os.Truncate(path, 3) },
	} {
		at := bridge.Place{Dir: t.TempDir()}
		old := leave(t, at, 8)
		_, _ = old.Merging().WriteAt([]byte("round  1"), 0)
		committed := old.Commit()
		if err := change(filepath.Join(privateDir(at.Dir), "merged-1")); err != nil {
			t.Fatal(err)
		}
		s, err := bridge.OpenSlots(at, 8, "local", committed)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b := make([]byte, 8)
		if _, err := s.Committed().ReadAt(b, 0); err != nil || string(b) != "round  1" {
			t.Errorf("%s: committed is %q, %v", name, b, err)
		}
		if _, err := s.Merging().WriteAt(b, 0); err != nil || s.Commit() != "merged-1" {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSpillIsNamedAsTheProgramSeesIt uses a small tmpfs where it may mount one.
func TestSpillIsNamedAsTheProgramSeesIt(t *testing.T) {
	small := t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("needs a file system that it can fill: mount tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(small, unix.MNT_DETACH) })
	at := bridge.Place{Dir: small, Spill: filepath.Join(t.TempDir(), "slots"), SpillAs: "/platform/swarmml/spill", Owner: &bridge.Owner{UID: 4242, GID: 4243}}
	if os.Geteuid() != 0 {
		at.Owner = nil
	}
	old := leave(t, at, 600<<10)
	local, committed := old.Local().Name(), old.Commit()
	if local != "/platform/swarmml/spill/local" || committed != "/platform/swarmml/spill/merged-0" {
		t.Errorf("the program is told %s and %s", local, committed)
	}
	checkOwner(t, filepath.Join(at.Spill, "local"), at.Owner, 0o600)
	s, err := bridge.OpenSlots(at, 600<<10, local, committed)
	if err != nil {
		t.Fatal(err)
	}
	if s.CommittedName() != committed {
		t.Errorf("committed %s, want %s", s.CommittedName(), committed)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func checkOwner(t *testing.T, path string, owner *bridge.Owner, mode fs.FileMode) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Error(err)
		return
	}
	uid, gid := os.Geteuid(), os.Getegid()
	if owner != nil {
		uid, gid = owner.UID, owner.GID
	}
	if int(st.Uid) != uid || int(st.Gid) != gid || fs.FileMode(st.Mode).Perm() != mode {
		t.Errorf("%s belongs to %d:%d with mode %o, want %d:%d and %o", path, st.Uid, st.Gid, st.Mode&0o777, uid, gid, mode)
	}
}

// TestProgramOfAnotherUser: what it must reach is its own, the directory is the daemon's.
func TestProgramOfAnotherUser(t *testing.T) {
	owner := &bridge.Owner{UID: 4242, GID: 4243}
	dir := filepath.Join(t.TempDir(), "bridge")
	spill := filepath.Join(t.TempDir(), "spill")
	e := &engine{}
	s, err := bridge.NewServer(bridge.Config{Dir: dir, SpillDir: spill, SpillAs: "/spill", Owner: owner, Log: slog.New(slog.DiscardHandler), Handler: e})
	if os.Geteuid() != 0 {
		if err == nil || !strings.Contains(err.Error(), "--ml-user") {
			t.Errorf("a daemon that is not root: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	slots, err := s.CreateSlots(16)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slots.Close() })
	checkOwner(t, dir, nil, 0o711)
	checkOwner(t, spill, nil, 0o711)
	checkOwner(t, privateDir(dir), nil, 0o700)
	slots.Commit()
	for name, mode := range map[string]fs.FileMode{"bridge.sock": 0o600, "local": 0o600} {
		checkOwner(t, filepath.Join(dir, name), owner, mode)
	}
	for _, path := range []string{filepath.Join(dir, "merged-0"), filepath.Join(privateDir(dir), "merged-1")} {
		checkOwner(t, path, &bridge.Owner{UID: os.Geteuid(), GID: owner.GID}, 0o440)
	}
}

// TestKeptDescriptor: a program of another user keeps a descriptor of the committed file, and opens it anew to write once that is
// merged into.
func TestKeptDescriptor(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("needs root")
		return
	}
	owner := &bridge.Owner{UID: 4242, GID: 4243}
	dir := t.TempDir()
	s, err := bridge.CreateSlots(bridge.Place{Dir: dir, Owner: owner}, 16, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s.Merging()
	fd, err := unix.Open(filepath.Join(dir, s.Commit()), unix.O_PATH|unix.O_CLOEXEC, 0) // which no lease minds
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	kept := fmt.Sprintf("/proc/self/fd/%d", fd)
	s.Merging()
	s.Commit()
	merging := s.Merging() // the one that is open
	as(t, owner, func() {
		_ = os.Chmod(kept, 0o666)
		f, err := os.OpenFile(kept, os.O_RDWR, 0)
		if err != nil {
			return
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte("garbage"), 0); err != nil {
			t.Error(err)
		}
	})
	b := make([]byte, 16)
	if _, err := merging.ReadAt(b, 0); err != nil || !bytes.Equal(b, make([]byte, 16)) {
		t.Errorf("merges into %q: %v", b, err)
	}
}

// TestContainedProgram: a program in a container runs as the daemon's user. It has the bridge directory mounted, and kept a descriptor of a
// committed model.
func TestContainedProgram(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sl")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	owner := &bridge.Owner{UID: os.Geteuid(), GID: os.Getegid()}
	at := bridge.Place{Dir: dir, Owner: owner}
	s, err := bridge.CreateSlots(at, 16, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	var kept []string
	for range 4 {
		merging := s.Merging()
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && filepath.Base(path) == merging.Name() {
				kept = append(kept, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range kept {
			_ = os.Chmod(path, 0o600)
			if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
				_, _ = f.WriteAt([]byte("garbage"), 0)
				_ = f.Close()
			}
		}
		b := make([]byte, 16)
		if _, err := merging.ReadAt(b, 0); err != nil || !bytes.Equal(b, make([]byte, 16)) {
			t.Fatalf("merges into %q: %v", b, err)
		}
		name := s.Commit()
		fd, err := unix.Open(filepath.Join(dir, name), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		kept = append(kept, fmt.Sprintf("/proc/self/fd/%d", fd))
	}
	_, _ = s.Merging().WriteAt([]byte("merged"), 0)
	again, err := bridge.OpenSlots(at, 16, s.Local().Name(), s.CommittedName()) // as the daemon's next run does
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 6)
	if _, err := again.Merging().ReadAt(b, 0); err != nil || string(b) != "merged" {
		t.Errorf("a new run finds %q: %v", b, err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestNothingApart: the bridge directory is a mount, so that nothing beside it is on its file system.
func TestNothingApart(t *testing.T) {
	dir := smallDir(t)
	owner := &bridge.Owner{UID: os.Geteuid(), GID: os.Getegid()}
	var why *bridge.Error
	_, err := bridge.CreateSlots(bridge.Place{Dir: dir, Owner: owner}, 16, slog.New(slog.DiscardHandler))
	if !errors.As(err, &why) || why.Code != "SLOT_LOST" || !strings.Contains(why.Message, dir) || !strings.Contains(why.Hint, "--ml-user") {
		t.Errorf("a program of the daemon's user, in a container: %v", err)
	}
	s := createSlots(t, dir, 16)
	s.Merging()
	s.Commit()
	if _, err := s.Merging().WriteAt([]byte("x"), 0); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(privateDir(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}

// TestPrivateDirectoryOfAnother: somebody made it before, where all may make directories.
func TestPrivateDirectoryOfAnother(t *testing.T) {
	dir, elsewhere := filepath.Join(t.TempDir(), "sl"), t.TempDir()
	at := bridge.Place{Dir: dir, Owner: &bridge.Owner{UID: os.Geteuid(), GID: os.Getegid()}}
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Symlink(elsewhere, privateDir(dir))); err != nil {
		t.Fatal(err)
	}
	s, err := bridge.CreateSlots(at, 16, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if made, err := os.ReadDir(elsewhere); err != nil || len(made) > 0 {
		t.Errorf("made where a link leads: %v, %v", made, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if os.Geteuid() != 0 { // only root can give a directory away
		return
	}
	if err := errors.Join(os.Mkdir(privateDir(dir), 0o777), os.WriteFile(filepath.Join(privateDir(dir), "x"), nil, 0o600), os.Chown(privateDir(dir), 4242, 4242)); err != nil {
		t.Fatal(err)
	}
	_, err = bridge.CreateSlots(at, 16, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), privateDir(dir)+" belongs to user 4242") {
		t.Errorf("a directory of another user: %v", err)
	}
}

// as has what touches files done with another user's rights.
func as(t *testing.T, owner *bridge.Owner, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, id := range [][2]int{{owner.UID, owner.GID}, {0, 0}} {
		_, err := unix.SetfsgidRetGid(id[1])
		if err == nil {
			_, err = unix.SetfsuidRetUid(id[0])
		}
		if err != nil {
			t.Error(err)
		}
		if id[0] != 0 {
			do()
		}
	}
}

// run serves until the test ends.
func run(t *testing.T, s *bridge.Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-done:
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestTakenOverDirectory: the files of a session that lives on stay, and its program is known.
func TestTakenOverDirectory(t *testing.T) {
	e := &engine{}
	dir := filepath.Join(t.TempDir(), "bridge")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	leave(t, bridge.Place{Dir: dir}, 8)
	if err := os.WriteFile(filepath.Join(dir, "bridge.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inode := inodeOf(t, dir)
	s, err := bridge.NewServer(bridge.Config{Dir: dir, Log: slog.New(slog.DiscardHandler), Handler: e})
	if err != nil {
		t.Fatal(err)
	}
	e.server = s
	if err := s.Claim(true); err != nil {
		t.Fatal(err)
	}
	if e.slots, err = s.OpenSlots(8, "local", ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.slots.Close() })
	const layout = "other"
	s.Resume("0123456789abcdef", layout, 50, 100)
	run(t, s)
	if got := inodeOf(t, dir); got != inode {
		t.Error("the directory that a container has mounted was replaced")
	}
	_, err = program.Open(t.Context(), dir, program.OpenOptions{
		MinPeers: 1, SyncFrequency: 1, Weight: 1, Tensors: []wire.Tensor{{Name: "w", DType: "float32", Shape: []int64{2}}},
	})
	if err == nil || !strings.Contains(err.Error(), "another layout") {
		t.Errorf("a second program: %v, want that the session is known", err)
	}
}

func inodeOf(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

func TestClaimLocksAndReleases(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bridge")
	servers := [2]*bridge.Server{}
	for i := range servers {
		var err error
		servers[i], err = bridge.NewServer(bridge.Config{Dir: dir, Log: slog.New(slog.DiscardHandler), Handler: &engine{}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := servers[0].Claim(false); err != nil {
		t.Fatal(err)
	}
	if err := servers[1].Claim(true); err == nil || !strings.Contains(err.Error(), "another daemon") {
		t.Errorf("a second daemon: %v", err)
	}
	servers[0].Release()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("released, but still there: %v", err)
	}
}
