package bridge

import (
	"os"
	"runtime/debug"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapping is a weight file mapped into the daemon, so that moving weights costs one copy and no system calls, which go page
// by page. Only files in memory are mapped: on a disk, a write through a mapping waits for the disk and can find it full.
//
// A program can truncate its file, and whoever touches a mapping beyond the end of its file gets SIGBUS. So the memory is
// touched only within survive.
type mapping struct {
	mu  sync.RWMutex // held for reading by whoever touches the memory, for writing to unmap
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
	return m.within(len(p), off) && m.survive(func() { copy(p, m.mem[off:]) })
}

// write is read in the other direction.
func (m *mapping) write(p []byte, off int64) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.within(len(p), off) && m.survive(func() { copy(m.mem[off:], p) })
}

// lend lets use touch n bytes of the file at off; whole says whether they were all there. It does not call use if there is no
// mapping of them.
func (m *mapping) lend(off int64, n int, use func([]byte)) (lent, whole bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.within(n, off) {
		return false, false
	}
	return true, m.survive(func() { use(m.mem[off : off+int64(n) : off+int64(n)]) })
}

func (m *mapping) within(n int, off int64) bool {
	return off >= 0 && off <= int64(len(m.mem)) && int64(n) <= int64(len(m.mem))-off
}

// survive runs what touches the memory and reports whether it met no fault there. Other panics go on, also for faults in
// another mapping: what touches two is run by survive of both.
func (m *mapping) survive(touch func()) (whole bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch p := recover(); {
		case p == nil:
			whole = true
		case !m.faulted(p):
			panic(p)
		}
	}()
	touch()
	return
}

// faulted reports whether a panic is that of a fault in this memory.
func (m *mapping) faulted(p any) bool {
	fault, ok := p.(interface{ Addr() uintptr }) // as debug.SetPanicOnFault says
	if !ok {
		return false
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(m.mem))) //nolint:gosec // Only compared.
	return fault.Addr() >= start && fault.Addr()-start < uintptr(len(m.mem))
}

// close waits for whoever touches the memory, and unmaps.
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
