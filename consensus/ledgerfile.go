package consensus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// LedgerFile is the name of the ledger in a node's state directory.
const LedgerFile = "ledger.jsonl"

// LedgerStore holds the bytes of a ledger. *os.File with its size is one; tests keep one in memory.
type LedgerStore interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Size() (int64, error)
}

// fileStore is the LedgerStore on disk.
type fileStore struct{ *os.File }

// Size returns the file's size in bytes.
func (f fileStore) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// memStore is the LedgerStore of groups without a directory.
type memStore struct{ b []byte }

// NewInmemLedger returns a LedgerStore in memory, for tests.
func NewInmemLedger() LedgerStore { return &memStore{} }

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

// book is this server's ledger. It is safe for concurrent use.
type book struct {
	log   *slog.Logger
	store LedgerStore

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

// openBook reads and checks the whole ledger. An incomplete last line, as a crash leaves one, is cut off.
func openBook(store LedgerStore, log *slog.Logger) (*book, error) {
	b := &book{log: log, store: store, wake: make(chan struct{}, 1)}
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
			log.Warn("cut off the ledger's incomplete last record, as a crash leaves one", "record", b.head.Length+1, "bytes", size-int64(b.head.Bytes)) //nolint:gosec // a file's size
			if err := store.Truncate(int64(b.head.Bytes)); err != nil {                                                                                  //nolint:gosec // likewise
				return nil, fmt.Errorf("open ledger: cut off an incomplete record: %w", err)
			}
			break
		}
		if err == nil {
			err = b.follow(line)
		}
		if err != nil {
			return nil, fmt.Errorf("open ledger: record %d is not what this SN wrote: %w: %s", b.head.Length+1, err, ledgerRemedy)
		}
	}
	b.sure = len(b.ends)
	return b, nil
}

// follow counts a line that is in the store, or goes there.
func (b *book) follow(line []byte) error {
	head, err := ledger.Follow(b.head, line)
	if err != nil {
		return err
	}
	b.head, b.ends = head, append(b.ends, int64(head.Bytes)) //nolint:gosec // a file's size
	return nil
}

// start returns where record i, from 0, begins in the store.
func (b *book) start(i int) int64 {
	if i == 0 {
		return 0
	}
	return b.ends[i-1]
}

// write appends lines to the store and counts them.
func (b *book) write(lines [][]byte) error {
	if b.shut {
		return ErrShutdown
	}
	at := b.start(len(b.ends))
	if _, err := b.store.WriteAt(bytes.Join(lines, nil), at); err != nil {
		// What was written of it is cut off now if it can be, else at the next start.
		return fmt.Errorf("write ledger: %w: free space on its disk and start again", errors.Join(err, b.store.Truncate(at)))
	}
	for _, line := range lines {
		if err := b.follow(line); err != nil {
			return fmt.Errorf("write ledger: %w", err)
		}
	}
	return nil
}

// applied takes the records of an applied command. Those that are there already, as when the log is replayed, must be the
// same. An error means that this server must stop.
func (b *book) applied(before, after ledger.Head, lines [][]byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.want = after
	if b.behind || len(lines) == 0 {
		return nil
	}
	first := int(before.Length) //nolint:gosec // a count of records
	have := min(max(len(b.ends)-first, 0), len(lines))
	for i, line := range lines[:have] {
		if err := b.compare(first+i, line); err != nil {
			return err
		}
	}
	switch {
	case have == len(lines):
		return nil
	case have == 0 && len(b.ends) < first:
		b.fallBehind()
		return nil
	case have == 0 && b.head != before:
		return fmt.Errorf("the ledger's record %d has another hash than the log says: %s", first, ledgerRemedy)
	}
	return b.write(lines[have:])
}

// compare holds a record in the store to what it must be.
func (b *book) compare(i int, line []byte) error {
	at := b.start(i)
	stored := make([]byte, b.ends[i]-at)
	if _, err := b.store.ReadAt(stored, at); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read ledger: %w", err)
	}
	if !bytes.Equal(stored, line) {
		return fmt.Errorf("the ledger's record %d is not what the log says: %s", i+1, ledgerRemedy)
	}
	return nil
}

// restored takes the head of a snapshot's state.
func (b *book) restored(want ledger.Head) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.want = want
	n := int(want.Length) //nolint:gosec // a count of records
	if len(b.ends) < n {
		b.fallBehind()
		return nil
	}
	if n == 0 {
		return nil
	}
	at := b.start(n - 1)
	line := make([]byte, b.ends[n-1]-at)
	if _, err := b.store.ReadAt(line, at); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read ledger: %w", err)
	}
	if ledger.Hash(line) != want.Hash {
		return fmt.Errorf("the ledger's record %d has another hash than the snapshot says: %s", n, ledgerRemedy)
	}
	return nil
}

func (b *book) fallBehind() {
	if !b.behind {
		b.behind, b.sure = true, len(b.ends)
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// missing tells up to where records are missing and how many are there; ok is false if none is.
func (b *book) missing() (have uint64, want ledger.Head, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.head.Length, b.want, b.behind
}

// fetched takes records from another server that follow the first have ones. When the state's head is reached they are
// either proven or all thrown away, which is an error.
func (b *book) fetched(have uint64, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.behind || have != b.head.Length {
		return nil
	}
	for b.head.Length < b.want.Length {
		line, rest, ok := ledger.CutLine(data)
		if !ok {
			break
		}
		data = rest
		next, err := ledger.Follow(b.head, line)
		if err == nil && next.Bytes > b.want.Bytes {
			err = fmt.Errorf("its records are longer than the %d bytes of the state's", b.want.Bytes)
		}
		if err != nil {
			return errors.Join(err, b.forget())
		}
		if err := b.write([][]byte{line}); err != nil {
			return fatal{err}
		}
	}
	if b.head.Length < b.want.Length {
		return nil
	}
	if b.head != b.want {
		return errors.Join(errors.New("its records end in another hash than the state's"), b.forget())
	}
	if err := b.store.Sync(); err != nil {
		return fatal{fmt.Errorf("sync ledger: %w", err)}
	}
	b.behind = false
	return nil
}

// fatal marks an error that asking another server does not mend.
type fatal struct{ error }

// Unwrap returns the error.
func (f fatal) Unwrap() error { return f.error }

// forget throws away what was fetched and not proven.
func (b *book) forget() error {
	at := b.start(b.sure)
	if err := b.store.Truncate(at); err != nil {
		return fatal{fmt.Errorf("cut ledger: %w", err)}
	}
	b.head, b.ends = ledger.Head{}, b.ends[:b.sure]
	if b.sure == 0 {
		return nil
	}
	line := make([]byte, at-b.start(b.sure-1))
	if _, err := b.store.ReadAt(line, b.start(b.sure-1)); err != nil && !errors.Is(err, io.EOF) {
		return fatal{fmt.Errorf("read ledger: %w", err)}
	}
	b.head = ledger.Head{Length: uint64(b.sure), Hash: ledger.Hash(line), Bytes: uint64(at)} //nolint:gosec // counts
	return nil
}

// number returns how many records lie before an offset in bytes.
func (b *book) number(offset uint64) (n uint64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if offset == 0 {
		return 0, true
	}
	i, ok := slices.BinarySearch(b.ends, int64(offset)) //nolint:gosec // one that is too large is not found
	return uint64(i) + 1, ok                            //nolint:gosec // an index
}

// read returns whole records that begin after the first n, at most limit bytes of them unless one is longer. Records that
// are not proven are not given out.
func (b *book) read(n uint64, limit int64) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.behind {
		return nil, ErrLedgerBehind
	}
	if n >= uint64(len(b.ends)) {
		return nil, nil
	}
	i := int(n) //nolint:gosec // less than the number of records
	at, last := b.start(i), i+1
	for last < len(b.ends) && b.ends[last]-at <= limit {
		last++
	}
	out := make([]byte, b.ends[last-1]-at)
	if _, err := b.store.ReadAt(out, at); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	return out, nil
}

func (b *book) sync() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shut {
		return nil
	}
	if err := b.store.Sync(); err != nil {
		return fmt.Errorf("sync ledger: %w", err)
	}
	return nil
}

// close syncs and forbids further writes; whoever opened the store closes it.
func (b *book) close() error {
	err := b.sync()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shut = true
	return err
}
