package bridge_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/bridge"
)

func createSlots(t *testing.T, dir string, size int64) *bridge.Slots {
	t.Helper()
	s, err := bridge.CreateSlots(bridge.Place{Dir: dir}, size, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// privateDir is where the file lies that is merged into.
func privateDir(dir string) string {
	return filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".private")
}

func TestSlotsTakeTurns(t *testing.T) {
	dir := t.TempDir()
	s := createSlots(t, dir, 1<<20)
	if s.CommittedName() != "" || s.Committed() != nil {
		t.Error("a model is committed from the start")
	}
	for _, want := range []string{"merged-0", "merged-1", "merged-0"} {
		if got := s.Merging().Name(); got != want {
			t.Errorf("merging %s, want %s", got, want)
		}
		if got := s.Commit(); got != want || s.CommittedName() != want || s.Merging().Name() == want {
			t.Errorf("committed %s, want %s", got, want)
		}
	}
	var stat unix.Stat_t
	if err := unix.Stat(filepath.Join(privateDir(dir), "merged-1"), &stat); err != nil || stat.Blocks*512 < 1<<20 {
		t.Errorf("only %d bytes are allocated, %v", stat.Blocks*512, err)
	}
}

func TestSlotBounds(t *testing.T) {
	dir := t.TempDir()
	s := createSlots(t, dir, 10)
	m := s.Local()
	if n, err := m.WriteAt([]byte("0123456789"), 0); n != 10 || err != nil {
		t.Errorf("write: %d, %v", n, err)
	}
	for _, off := range []int64{-1, 1, 11} {
		if _, err := m.WriteAt(make([]byte, 10), off); err == nil {
			t.Errorf("wrote at %d", off)
		}
	}
	b := make([]byte, 4)
	if n, err := m.ReadAt(b, 8); n != 2 || !errors.Is(err, io.EOF) {
		t.Errorf("read at the end: %d, %v, want 2 and EOF", n, err)
	}
	for _, size := range []int64{0, 9, 11} {
		if err := os.Truncate(filepath.Join(dir, m.Name()), size); err != nil {
			t.Fatal(err)
		}
		if _, err := m.ReadAt(b, 0); err == nil || !strings.Contains(err.Error(), "want 10") {
			t.Errorf("read a file of %d bytes: %v", size, err)
		}
		if _, err := m.WriteAt(b, 0); err == nil {
			t.Errorf("wrote to a file of %d bytes", size)
		}
	}
}

// TestMergingIsOutOfReach: what a program does to a file that it can still write does not reach the model that is merged next.
func TestMergingIsOutOfReach(t *testing.T) {
	truncate := func(size int64) func(*os.File) error {
		return func(f *os.File) error { return f.Truncate(size) }
	}
	for _, tt := range []struct {
		name   string
		early  bool // while it is committed, not later
		change func(*os.File) error
	}{
		{"truncated", true, truncate(3)},
		{"extended", true, truncate(30)},
		{"held open, and garbled while it is merged into", false, func(f *os.File) error {
			_, err := f.WriteAt([]byte("garbage"), 0)
			return err
		}},
		{"held open, and truncated while it is merged into", false, truncate(0)},
		{"removed", true, func(f *os.File) error { return os.Remove(f.Name()) }},
		{"replaced", true, func(f *os.File) error {
			return errors.Join(os.Remove(f.Name()), os.WriteFile(f.Name(), []byte("0123456789"), 0o600))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			s := createSlots(t, dir, 10)
			commit := func(model string) string {
				t.Helper()
				m := s.Merging()
				if _, err := m.WriteAt([]byte(model), 0); err != nil {
					t.Fatal(err)
				}
				return filepath.Join(dir, s.Commit())
			}
			f, err := os.OpenFile(commit("round    1"), os.O_RDWR, 0)
			if err != nil { // as another user than root
				if err := os.Chmod(filepath.Join(dir, s.CommittedName()), 0o600); err != nil {
					t.Fatal(err)
				}
				f, err = os.OpenFile(filepath.Join(dir, s.CommittedName()), os.O_RDWR, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if tt.early {
				if err := tt.change(f); err != nil {
					t.Fatal(err)
				}
			}
			commit("round    2")
			merging := s.Merging()
			if _, err := merging.WriteAt([]byte("round    3"), 0); err != nil {
				t.Fatal(err)
			}
			if !tt.early {
				if err := tt.change(f); err != nil {
					t.Fatal(err)
				}
			}
			b := make([]byte, 10)
			if _, err := merging.ReadAt(b, 0); err != nil || string(b) != "round    3" {
				t.Errorf("merged %q, %v", b, err)
			}
			if _, err := os.Lstat(filepath.Join(dir, merging.Name())); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the program finds what is merged into: %v", err)
			}
			s.Commit()
			if got, err := os.ReadFile(filepath.Join(dir, merging.Name())); err != nil || string(got) != "round    3" {
				t.Errorf("the program reads %q, %v", got, err)
			}
		})
	}
}

// TestASlotIsUsedAgain: whoever lets go of what it has read costs no new file.
func TestASlotIsUsedAgain(t *testing.T) {
	dir := t.TempDir()
	s := createSlots(t, dir, 10)
	var seen []uint64
	for range 5 {
		s.Merging()
		name := s.Commit()
		if _, err := os.ReadFile(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, inodeOf(t, filepath.Join(dir, name)))
	}
	if seen[0] != seen[2] || seen[0] != seen[4] || seen[1] != seen[3] || seen[0] == seen[1] {
		t.Errorf("files %v, want two that take turns", seen)
	}
}

// TestWhatIsInTheWayIsNamed: no space is said to be missing where something else is wrong, and the slot is of use again when that is gone.
func TestWhatIsInTheWayIsNamed(t *testing.T) {
	dir := t.TempDir()
	s := createSlots(t, dir, 10)
	for range 2 { // both files are out of the private directory
		s.Merging()
		s.Commit()
	}
	private := privateDir(dir)
	if err := errors.Join(os.RemoveAll(private), os.WriteFile(private, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	var why *bridge.Error
	if _, err := s.Merging().WriteAt([]byte{1}, 0); !errors.As(err, &why) || why.Code != "SLOT_LOST" || !strings.Contains(why.Message, private) || why.Hint == "" {
		t.Errorf("a file in the way: %v", err)
	}
	if err := os.Remove(private); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Merging().WriteAt([]byte{1}, 0); err != nil {
		t.Errorf("nothing in the way: %v", err)
	}
}

// TestKeptViewsAreCut: a program that keeps each committed model mapped, as it may, does not make them take the memory of more and more.
func TestKeptViewsAreCut(t *testing.T) {
	const size = 240 << 10 // there is room for four
	for name, owner := range map[string]*bridge.Owner{"of the daemon's user": {UID: os.Geteuid(), GID: os.Getegid()}, "in no container": nil} {
		dir := filepath.Join(smallDir(t), "sl")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		s, err := bridge.CreateSlots(bridge.Place{Dir: dir, Owner: owner}, size, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		var first *os.File
		for round := range byte(12) {
			if _, err := s.Merging().WriteAt([]byte{round}, 0); err != nil {
				t.Fatalf("%s, round %d: %v", name, round, err)
			}
			f, err := os.Open(filepath.Join(dir, s.Commit()))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = unix.Munmap(mem) }()
			if first == nil {
				first = f
			}
			b := []byte{9}
			if n, _ := first.ReadAt(b, 0); round == 1 && (n != 1 || b[0] != 0) || round == 11 && n != 0 {
				t.Errorf("%s: after round %d the first model reads as %d: %d bytes", name, round, b, n)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNoSpaceForAnotherFile: a file that a program holds open is replaced as soon as there is space again.
func TestNoSpaceForAnotherFile(t *testing.T) {
	small := smallDir(t)
	s, err := bridge.CreateSlots(bridge.Place{Dir: small}, 200<<10, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Merging()
	held, err := os.OpenFile(filepath.Join(small, s.Commit()), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	s.Merging()
	s.Commit()
	ballast := filepath.Join(small, "ballast")
	if err := errors.Join(held.Truncate(0), os.WriteFile(ballast, make([]byte, 600<<10), 0o600)); err != nil {
		t.Fatal(err)
	}
	var why *bridge.Error
	if _, err := s.Merging().WriteAt([]byte{1}, 0); !errors.As(err, &why) || why.Code != "NO_SPACE" {
		t.Errorf("no space: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Merging().WriteAt([]byte{1}, 0); err != nil {
		t.Errorf("space again: %v", err)
	}
}

func TestNewSlotsReplaceOldOnes(t *testing.T) {
	dir := t.TempDir()
	old := createSlots(t, dir, 10)
	fresh := createSlots(t, dir, 20)
	if err := old.Close(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "local")); err != nil || info.Size() != 20 {
		t.Errorf("closing the old slots took the new ones: %v", err)
	}
	if _, err := fresh.Local().ReadAt(make([]byte, 20), 0); err != nil {
		t.Error(err)
	}
	if _, err := old.Local().ReadAt(make([]byte, 1), 0); err == nil {
		t.Error("read a closed slot")
	}
}

func TestEmptyModel(t *testing.T) {
	if got := createSlots(t, t.TempDir(), 0).Local().Size(); got != 0 {
		t.Errorf("size %d", got)
	}
}

// smallDir is the root of a file system of 1 MiB in memory, where the test may mount one.
func smallDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("needs a file system that it can fill: mount tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// TestAProgramClaimsAShare holds that what a program declares takes no more than three quarters of what is free, and nothing
// if it is more: the rest is for everybody else who needs memory, and a disk.
func TestAProgramClaimsAShare(t *testing.T) {
	small := smallDir(t)
	free := func() uint64 {
		var st unix.Statfs_t
		if err := unix.Statfs(small, &st); err != nil {
			t.Fatal(err)
		}
		return st.Bavail * uint64(st.Bsize)
	}
	before := free()
	for _, at := range []bridge.Place{{Dir: small}, {Dir: small, Spill: filepath.Join(small, "spill")}} {
		_, err := bridge.CreateSlots(at, 300<<10, slog.New(slog.DiscardHandler))
		var why *bridge.Error
		if !errors.As(err, &why) || why.Code != "NO_SPACE" || !strings.Contains(why.Message, "three quarters") || !strings.Contains(why.Message, small) || why.Hint == "" {
			t.Errorf("nine tenths of what is free: %v, want NO_SPACE that says what may be taken of %s", err, small)
		}
	}
	if now := free(); now != before {
		t.Errorf("%d bytes are free after refusals, %d were before", now, before)
	}
	for _, name := range []string{"local", "merged-0", "merged-1"} { // What a session left is not in the next one's way.
		if err := os.WriteFile(filepath.Join(small, name), make([]byte, 200<<10), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	createSlots(t, small, 200<<10)
}

// TestSpill uses a small tmpfs where it may mount one.
func TestSpill(t *testing.T) {
	small, spill := smallDir(t), t.TempDir()
	s, err := bridge.CreateSlots(bridge.Place{Dir: small, Spill: spill}, 600<<10, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	name := s.Local().Name()
	if !filepath.IsAbs(name) || !strings.HasPrefix(name, spill) {
		t.Errorf("local is %q, want it in %s", name, spill)
	}
	if left, _ := os.ReadDir(small); len(left) != 0 {
		t.Errorf("left behind in the full directory: %v", left)
	}
	if _, err := s.Merging().WriteAt([]byte("x"), 600<<10-1); err != nil {
		t.Error(err)
	}
}

// TestSumIsOfWhatWasMerged: a sum goes with the model that it was taken of, and with no other.
func TestSumIsOfWhatWasMerged(t *testing.T) {
	s := createSlots(t, t.TempDir(), 8)
	merge := func(model string) {
		t.Helper()
		if _, err := s.Merging().WriteAt([]byte(model), 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		do   func()
		want string
	}{
		{func() { merge("round  1"); s.Merged("") }, "round  1"},
		{func() { merge("given up"); s.Merged(""); merge("round  2") }, ""},
		{func() { merge("given up"); s.Merged(""); merge("round  3"); s.Merged("") }, "round  3"},
		{func() { merge("round  4") }, ""},
	} {
		tt.do()
		want := ""
		if tt.want != "" {
			want = fmt.Sprintf("%x", sha256.Sum256([]byte(tt.want)))
		}
		if name := s.Commit(); s.Sum(name) != want {
			t.Errorf("%s has the sum %q, want that of %q", name, s.Sum(name), tt.want)
		}
	}
}
