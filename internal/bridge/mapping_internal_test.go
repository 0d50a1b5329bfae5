package bridge

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// inMemory makes slots on a file system in memory.
func inMemory(t *testing.T, size int64) *Slots {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "swarm-test-")
	if err != nil {
		t.Skip("needs /dev/shm: ", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s, err := CreateSlots(Place{Dir: dir}, size, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if s.Local().view.mem == nil {
		t.Fatal("a weight file in memory is not mapped")
	}
	return s
}

func TestMappingSurvivesTruncation(t *testing.T) {
	const size = 64 << 10
	local := inMemory(t, size).Local()
	if err := os.Truncate(local.path, 8<<10); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	// As if the truncation came between check and copy.
	if local.view.read(b, 0) || local.view.write(b, 0) {
		t.Error("a copy beyond the end of the file says that it is whole")
	}
	if !local.view.read(b[:4<<10], 0) {
		t.Error("what is left of the file can't be read")
	}
	var slot *Error
	if _, err := local.ReadAt(b, 0); !errors.As(err, &slot) || slot.Code != "SLOT_SIZE" {
		t.Errorf("ReadAt: %v", err)
	}
	if _, err := local.WriteAt(b, 0); !errors.As(err, &slot) || slot.Code != "SLOT_SIZE" {
		t.Errorf("WriteAt: %v", err)
	}
	if info, err := os.Stat(local.path); err != nil || info.Size() != 8<<10 {
		t.Errorf("the file has %d bytes, %v: a write has extended it", info.Size(), err)
	}
}

// TestMappingEndsWithinAPage: there a copy meets no fault, and only the file's length tells.
func TestMappingEndsWithinAPage(t *testing.T) {
	const size = 64 << 10
	local := inMemory(t, size).Local()
	if err := os.Truncate(local.path, size-100); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if !local.view.read(b, 0) || !local.view.write(b, 0) {
		t.Fatal("a copy within the last page meets a fault")
	}
	var slot *Error
	if _, err := local.ReadAt(b, 0); !errors.As(err, &slot) || slot.Code != "SLOT_SIZE" {
		t.Errorf("ReadAt: %v", err)
	}
	if _, err := local.WriteAt(b, 0); !errors.As(err, &slot) || slot.Code != "SLOT_SIZE" {
		t.Errorf("WriteAt: %v", err)
	}
}

func TestMappingIsTheFile(t *testing.T) {
	const size = 12345
	local := inMemory(t, size).Local()
	want := bytes.Repeat([]byte{1, 2, 3}, size/3)
	if _, err := local.WriteAt(want, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(local.path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file has other bytes, %v", err)
	}
	if n, err := local.ReadAt(make([]byte, 10), size-5); n != 5 || err == nil {
		t.Errorf("reading beyond the end: %d bytes, %v", n, err)
	}
}

func TestLendIsInPlace(t *testing.T) {
	const size = 12345
	local := inMemory(t, size).Local()
	lent, err := local.Lend(100, 3, func(b []byte) { copy(b, "abc") })
	if !lent || err != nil {
		t.Fatalf("lent: %t, %v", lent, err)
	}
	if got, err := os.ReadFile(local.path); err != nil || string(got[99:104]) != "\x00abc\x00" {
		t.Errorf("the file has %q, %v", got[99:104], err)
	}
	for _, span := range [][2]int64{{size, 1}, {-1, 1}, {size - 1, 2}} {
		if lent, err := local.Lend(span[0], int(span[1]), func([]byte) { t.Error("lent") }); lent || err != nil {
			t.Errorf("%d bytes at %d: lent: %t, %v", span[1], span[0], lent, err)
		}
	}
}

// TestLendSurvivesTruncation has a program truncate one of two files that are lent at once: who is named is the one.
func TestLendSurvivesTruncation(t *testing.T) {
	const size = 64 << 10
	s := inMemory(t, size)
	local, merging := s.Local(), s.Merging()
	both := func() (inner, outer error) {
		_, outer = local.Lend(0, size, func(from []byte) {
			_, inner = merging.Lend(0, size, func(to []byte) { copy(to, from) })
		})
		return inner, outer
	}
	if inner, outer := both(); inner != nil || outer != nil {
		t.Fatal(inner, outer)
	}
	var slot *Error
	if err := os.Truncate(local.path, 8<<10); err != nil {
		t.Fatal(err)
	}
	if inner, outer := both(); inner != nil || !errors.As(outer, &slot) || slot.Code != "SLOT_SIZE" {
		t.Errorf("the program's file is short: %v, %v", inner, outer)
	}
	if err := os.Truncate(local.path, size); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(merging.path, 8<<10); err != nil {
		t.Fatal(err)
	}
	if inner, outer := both(); !errors.As(inner, &slot) || slot.Code != "SLOT_SIZE" || outer != nil {
		t.Errorf("the merging file is short: %v, %v", inner, outer)
	}
	// Cut within a page, and long again when it is looked at.
	if err := os.Truncate(merging.path, size); err != nil {
		t.Fatal(err)
	}
	if _, err := local.Lend(0, 1, func([]byte) { _ = os.Truncate(local.path, size-100) }); !errors.As(err, &slot) {
		t.Errorf("cut within a page: %v", err)
	}
}

func TestLendPassesOtherPanicsOn(t *testing.T) {
	local := inMemory(t, 4096).Local()
	other, err := unix.Mmap(-1, 0, 4096, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(other) }()
	for name, use := range map[string]func([]byte){
		"panic": func([]byte) { panic("mine") },
		"fault": func(b []byte) { copy(b, other) },
		"nil":   func(b []byte) { b[0] = *(*byte)(nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: swallowed", name)
				}
			}()
			_, _ = local.Lend(0, 4096, use)
		}()
	}
}

// TestClosingWaitsForCopies has copies that run while the memory is unmapped.
func TestClosingWaitsForCopies(t *testing.T) {
	const size = 1 << 20
	s := inMemory(t, size)
	local := s.Local()
	var wg sync.WaitGroup
	started := make(chan struct{}, 4)
	for range 4 {
		wg.Go(func() {
			b := make([]byte, size)
			for {
				_, err := local.ReadAt(b, 0)
				select {
				case started <- struct{}{}:
				default:
				}
				if err != nil {
					if !errors.Is(err, os.ErrClosed) {
						t.Errorf("ReadAt: %v", err)
					}
					return
				}
			}
		})
	}
	<-started
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

func TestOnlyFilesInMemoryAreMapped(t *testing.T) {
	dir := t.TempDir() // On a disk, as a rule.
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	s, err := CreateSlots(Place{Dir: dir}, 4096, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if mapped, memory := s.Local().view.mem != nil, fs.Type == unix.TMPFS_MAGIC; mapped != memory {
		t.Errorf("mapped: %t, in memory: %t", mapped, memory)
	}
}
