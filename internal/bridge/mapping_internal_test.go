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
