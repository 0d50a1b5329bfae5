// Package ledgerfile keeps a server's copy of the audit log: it appends what Apply adds, compares what is replayed with what is
// there, and takes in, checked, what another server sends of records that are missing.
package ledgerfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// Name is the name of the ledger in a node's state directory.
const Name = "ledger.jsonl"

// ErrBehind says that this server's ledger is not complete.
var ErrBehind = errors.New("this SN's ledger is not complete yet; it fetches what is missing from the other SNs")

// ErrClosed is returned for records that come after Close.
var ErrClosed = errors.New("the ledger is closed")

// Store holds the bytes of a ledger. *os.File with its size is one; tests keep one in memory.
type Store interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Size() (int64, error)
}

// fileStore is the Store on disk.
type fileStore struct{ *os.File }

// StoreCloser is a Store that is closed at its end.
type StoreCloser interface {
	Store
	io.Closer
}

// OpenFile opens the ledger in a node's state directory, or makes an empty one. The caller closes it.
func OpenFile(dir string) (StoreCloser, error) {
	f, err := os.OpenFile(filepath.Join(dir, Name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	return fileStore{f}, nil
}

// Size returns the file's size in bytes.
func (f fileStore) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// memStore is the Store of groups without a directory.
type memStore struct{ b []byte }

// NewInmem returns a Store in memory, for tests.
func NewInmem() Store { return &memStore{} }

// ReadAt implements io.ReaderAt.
func (m *memStore) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(m.b).ReadAt(p, off)
}

// WriteAt implements io.WriterAt; it leaves no gaps.
func (m *memStore) WriteAt(p []byte, off int64) (int, error) {
	if off > int64(len(m.b)) {
		return 0, io.ErrShortWrite
	}
	m.b = append(m.b[:off:off], p...)
	return len(p), nil
}

// Truncate cuts the bytes.
func (m *memStore) Truncate(size int64) error {
	m.b = m.b[:size]
	return nil
}

// Sync does nothing.
func (m *memStore) Sync() error { return nil }

// Size returns the number of bytes.
func (m *memStore) Size() (int64, error) { return int64(len(m.b)), nil }

// ledgerRemedy ends errors of a ledger that does not fit.
const ledgerRemedy = "restore it from a backup or from another SN's copy (swarmctl get ledger), or move it away: this SN then fetches it from the others"

// File is this server's ledger. It is safe for concurrent use.
type File struct {
	log   *slog.Logger
	store Store

	mu   sync.Mutex
	head ledger.Head // of what is in the store
	ends []int64     // where each record ends in the store
	want ledger.Head // the state's
	// behind tells that records up to want are missing, as after a snapshot from another server. They are fetched then, and
	// Apply adds none.
	behind bool
	sure   int           // records from before it fell behind: what is fetched is not proven until the head is reached
	wake   chan struct{} // capacity 1: it fell behind
	shut   bool
}

// Open reads and checks the whole ledger. An incomplete last line, as a crash leaves one, is cut off.
func Open(store Store, log *slog.Logger) (*File, error) {
	f := &File{log: log, store: store, wake: make(chan struct{}, 1)}
	size, err := store.Size()
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	r := newLineReader(io.NewSectionReader(store, 0, size))
	for {
		line, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			log.Warn("cut off the ledger's incomplete last record, as a crash leaves one", "record", f.head.Length+1, "bytes", size-int64(f.head.Bytes)) //nolint:gosec // a file's size
			if err := store.Truncate(int64(f.head.Bytes)); err != nil {                                                                                  //nolint:gosec // likewise
				return nil, fmt.Errorf("open ledger: cut off an incomplete record: %w", err)
			}
			break
		}
		if err == nil {
			err = f.follow(line)
		}
		if err != nil {
			return nil, fmt.Errorf("open ledger: record %d is not what this SN wrote: %w: %s", f.head.Length+1, err, ledgerRemedy)
		}
	}
	f.sure = len(f.ends)
	return f, nil
}

// follow counts a line that is in the store, or goes there.
func (f *File) follow(line []byte) error {
	head, err := ledger.Follow(f.head, line)
	if err != nil {
		return err
	}
	f.head, f.ends = head, append(f.ends, int64(head.Bytes)) //nolint:gosec // a file's size
	return nil
}

// start returns where record i, from 0, begins in the store.
func (f *File) start(i int) int64 {
	if i == 0 {
		return 0
	}
	return f.ends[i-1]
}

// write appends lines to the store and counts them.
func (f *File) write(lines [][]byte) error {
	if f.shut {
		return ErrClosed
	}
	at := f.start(len(f.ends))
	if _, err := f.store.WriteAt(bytes.Join(lines, nil), at); err != nil {
		// What was written of it is cut off now if it can be, else at the next start.
		return fmt.Errorf("write ledger: %w: free space on its disk and start again", errors.Join(err, f.store.Truncate(at)))
	}
	for _, line := range lines {
		if err := f.follow(line); err != nil {
			return fmt.Errorf("write ledger: %w", err)
		}
	}
	return nil
}

// Applied takes the records of an applied command. Those that are there already, as when the log is replayed, must be the
// same. An error means that this server must stop.
func (f *File) Applied(before, after ledger.Head, lines [][]byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.want = after
	if f.behind || len(lines) == 0 {
		return nil
	}
	first := int(before.Length) //nolint:gosec // a count of records
	have := min(max(len(f.ends)-first, 0), len(lines))
	for i, line := range lines[:have] {
		if err := f.compare(first+i, line); err != nil {
			return err
		}
	}
	switch {
	case have == len(lines):
		return nil
	case have == 0 && len(f.ends) < first:
		f.fallBehind()
		return nil
	case have == 0 && f.head != before:
		return fmt.Errorf("the ledger's record %d has another hash than the log says: %s", first, ledgerRemedy)
	}
	return f.write(lines[have:])
}

// compare holds a record in the store to what it must be.
func (f *File) compare(i int, line []byte) error {
	at := f.start(i)
	stored := make([]byte, f.ends[i]-at)
	if _, err := f.store.ReadAt(stored, at); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read ledger: %w", err)
	}
	if !bytes.Equal(stored, line) {
		return fmt.Errorf("the ledger's record %d is not what the log says: %s", i+1, ledgerRemedy)
	}
	return nil
}

// Restored takes the head of a snapshot's state.
func (f *File) Restored(want ledger.Head) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.want = want
	n := int(want.Length) //nolint:gosec // a count of records
	if len(f.ends) < n {
		f.fallBehind()
		return nil
	}
	if n == 0 {
		return nil
	}
	at := f.start(n - 1)
	line := make([]byte, f.ends[n-1]-at)
	if _, err := f.store.ReadAt(line, at); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read ledger: %w", err)
	}
	if ledger.Hash(line) != want.Hash {
		return fmt.Errorf("the ledger's record %d has another hash than the snapshot says: %s", n, ledgerRemedy)
	}
	return nil
}

func (f *File) fallBehind() {
	if !f.behind {
		f.behind, f.sure = true, len(f.ends)
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Wake returns the channel that says, once each time, that records are missing.
func (f *File) Wake() <-chan struct{} { return f.wake }

// Missing tells up to where records are missing and how many are there; ok is false if none is.
func (f *File) Missing() (have uint64, want ledger.Head, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.head.Length, f.want, f.behind
}

// Fetched takes records from another server that follow the first have ones. When the state's head is reached they are
// either proven or all thrown away, which is an error.
func (f *File) Fetched(have uint64, data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.behind || have != f.head.Length {
		return nil
	}
	for f.head.Length < f.want.Length {
		line, rest, ok := ledger.CutLine(data)
		if !ok {
			break
		}
		data = rest
		next, err := ledger.Follow(f.head, line)
		if err == nil && next.Bytes > f.want.Bytes {
			err = fmt.Errorf("its records are longer than the %d bytes of the state's", f.want.Bytes)
		}
		if err != nil {
			return errors.Join(err, f.forget())
		}
		if err := f.write([][]byte{line}); err != nil {
			return Fatal{Err: err}
		}
	}
	if f.head.Length < f.want.Length {
		return nil
	}
	if f.head != f.want {
		return errors.Join(errors.New("its records end in another hash than the state's"), f.forget())
	}
	if err := f.store.Sync(); err != nil {
		return Fatal{Err: fmt.Errorf("sync ledger: %w", err)}
	}
	f.behind = false
	return nil
}

// Fatal marks an error that asking another server does not mend.
type Fatal struct{ Err error }

// Error returns the error's text.
func (f Fatal) Error() string { return f.Err.Error() }

// Unwrap returns the error.
func (f Fatal) Unwrap() error { return f.Err }

// forget throws away what was fetched and not proven.
func (f *File) forget() error {
	at := f.start(f.sure)
	if err := f.store.Truncate(at); err != nil {
		return Fatal{Err: fmt.Errorf("cut ledger: %w", err)}
	}
	f.head, f.ends = ledger.Head{}, f.ends[:f.sure]
	if f.sure == 0 {
		return nil
	}
	line := make([]byte, at-f.start(f.sure-1))
	if _, err := f.store.ReadAt(line, f.start(f.sure-1)); err != nil && !errors.Is(err, io.EOF) {
		return Fatal{Err: fmt.Errorf("read ledger: %w", err)}
	}
	f.head = ledger.Head{Length: uint64(f.sure), Hash: ledger.Hash(line), Bytes: uint64(at)} //nolint:gosec // counts
	return nil
}

// Number returns how many records lie before an offset in bytes.
func (f *File) Number(offset uint64) (n uint64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if offset == 0 {
		return 0, true
	}
	i, ok := slices.BinarySearch(f.ends, int64(offset)) //nolint:gosec // one that is too large is not found
	return uint64(i) + 1, ok                            //nolint:gosec // an index
}

// Read returns whole records that begin after the first n, at most limit bytes of them unless one is longer. Records that
// are not proven are not given out.
func (f *File) Read(n uint64, limit int64) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.behind {
		return nil, ErrBehind
	}
	if n >= uint64(len(f.ends)) {
		return nil, nil
	}
	i := int(n) //nolint:gosec // less than the number of records
	at, last := f.start(i), i+1
	for last < len(f.ends) && f.ends[last]-at <= limit {
		last++
	}
	out := make([]byte, f.ends[last-1]-at)
	if _, err := f.store.ReadAt(out, at); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	return out, nil
}

// Sync writes to disk what the store buffers.
func (f *File) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shut {
		return nil
	}
	if err := f.store.Sync(); err != nil {
		return fmt.Errorf("sync ledger: %w", err)
	}
	return nil
}

// Close syncs and forbids further writes; whoever opened the store closes it.
func (f *File) Close() error {
	err := f.Sync()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shut = true
	return err
}

// lineReader reads lines of bounded length.
type lineReader struct{ r *bufio.Reader }

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{bufio.NewReaderSize(r, ledger.MaxRecord)}
}

// next returns the next line, valid until the next call. io.EOF is the end, io.ErrUnexpectedEOF an end within a line.
func (l *lineReader) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	switch {
	case err == nil:
		return line, nil
	case errors.Is(err, io.EOF) && len(line) > 0:
		return nil, io.ErrUnexpectedEOF
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, fmt.Errorf("%w: longer than %d bytes", ledger.ErrMalformed, ledger.MaxRecord)
	}
	return nil, err
}
