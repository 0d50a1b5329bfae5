package bridge

import (
	"os"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"
)

// mapping is a weight file mapped into the daemon, so that moving weights costs one copy and no system calls, which go page
// by page. Only files in memory are mapped: on a disk, a write through a mapping waits for the disk and can find it full.
//
// A program can truncate its file, and whoever touches a mapping beyond the end of its file gets SIGBUS. So nobody but copy
// touches the memory, which survives that.
type mapping struct {
	mu  sync.RWMutex // held for reading by every copy, for writing to unmap
	mem []byte       // nil: not mapped, or not any more
}

// open maps the whole file if that is possible and pays. The pages are in memory already; their table is made at once, so
// that no copy stops for it.
func (m *mapping) open(f *os.File, size int64) {
	var fs unix.Statfs_t
	if size == 0 || size != int64(int(size)) || unix.Fstatfs(int(f.Fd()), &fs) != nil || fs.Type != unix.TMPFS_MAGIC {
		return
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return // The file can be read and written without.
	}
	m.mem = mem
}

// read copies from the file at off into p. It returns false if that is to be done without the mapping: there is none, or the
// file does not reach so far, now or any more.
func (m *mapping) read(p []byte, off int64) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.within(len(p), off) && survive(func() { copy(p, m.mem[off:]) })
}

// write is read in the other direction.
func (m *mapping) write(p []byte, off int64) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.within(len(p), off) && survive(func() { copy(m.mem[off:], p) })
}

func (m *mapping) within(n int, off int64) bool {
	return off >= 0 && off <= int64(len(m.mem)) && int64(n) <= int64(len(m.mem))-off
}

// survive runs a copy and reports whether it met no fault.
func survive(copies func()) (whole bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { whole = recover() == nil }()
	copies()
	return
}

// close waits for copies and unmaps.
func (m *mapping) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	mem := m.mem
	m.mem = nil
	if mem == nil {
		return nil
	}
	return unix.Munmap(mem)
}
