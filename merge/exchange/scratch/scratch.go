// Package scratch encrypts the files in which a merge keeps what others contribute.
package scratch

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// File is a scratch file. Close removes it.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// encrypted is a scratch file that sees ciphertext only: what others contribute must not be found on a disk, in a snapshot of
// it or in a backup. The key is in memory alone and goes with the file. It is no protection against a change: who may write
// to the file of a running daemon may change the daemon.
//
// A read begins where a write began and takes no more than that wrote. AES-CTR gives each write a range of counters of its
// own, named by the write's number: two texts that lay at one place, one after the other, have no key stream in common.
type encrypted struct {
	file  File
	block cipher.Block

	mu     sync.Mutex // guards what is below
	writes uint64     // begun so far
	places map[int64]*place
}

// place is what was written at an offset last. Its lock is held while the file is read or written there, so that number and
// bytes belong together.
type place struct {
	mu     sync.RWMutex
	number uint64
	bytes  int // 0: nothing whole
}

// keyBytes is that of AES-256.
const keyBytes = 32

// piece is how much is encrypted at a time.
const piece = 256 << 10

var pieces = sync.Pool{New: func() any { b := make([]byte, piece); return &b }}

// Encrypted wraps what open makes, a file of so many bytes, so that it sees ciphertext only. Nil stays nil. A read begins where a
// write began and takes no more than that wrote; what was not written whole reads as the end of the file.
func Encrypted(open func(bytes int64) (File, error)) func(bytes int64) (File, error) {
	if open == nil {
		return nil
	}
	return func(bytes int64) (File, error) {
		f, err := open(bytes)
		if err != nil {
			return nil, err
		}
		var key [keyBytes]byte
		_, _ = rand.Read(key[:]) // It never fails.
		block, err := aes.NewCipher(key[:])
		if err != nil {
			_ = f.Close() // It is scratch, and there is an error already.
			return nil, fmt.Errorf("encrypt a scratch file: %w", err)
		}
		return &encrypted{file: f, block: block, places: make(map[int64]*place)}, nil
	}
}

// stream is the key stream of one write.
func (s *encrypted) stream(number uint64) cipher.Stream {
	var iv [aes.BlockSize]byte // The upper half is the write's number, the lower one counts its blocks from 0.
	binary.BigEndian.PutUint64(iv[:], number)
	return cipher.NewCTR(s.block, iv[:])
}

// at returns the place at an offset; nil: there is none, and none is to be added.
func (s *encrypted) at(off int64, add bool) *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.places[off]
	if p == nil && add {
		p = new(place)
		s.places[off] = p
	}
	return p
}

// number returns one that no write has had.
func (s *encrypted) number() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	return s.writes
}

// WriteAt encrypts b into the file. It leaves b as it is.
func (s *encrypted) WriteAt(b []byte, off int64) (int, error) {
	p := s.at(off, true)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes, p.number = 0, s.number()
	stream, room := s.stream(p.number), pieces.Get().(*[]byte)
	defer pieces.Put(room)
	buf := *room
	for done := 0; done < len(b); {
		n := min(len(b)-done, piece)
		stream.XORKeyStream(buf[:n], b[done:done+n])
		k, err := s.file.WriteAt(buf[:n], off+int64(done))
		done += k
		if err != nil {
			return done, err
		}
	}
	p.bytes = len(b)
	return len(b), nil
}

// ReadAt decrypts what a write at the same offset wrote.
func (s *encrypted) ReadAt(b []byte, off int64) (int, error) {
	p := s.at(off, false)
	if p == nil {
		return 0, io.EOF
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if len(b) > p.bytes {
		return 0, io.EOF
	}
	n, err := s.file.ReadAt(b, off)
	s.stream(p.number).XORKeyStream(b[:n], b[:n])
	return n, err
}

// Close removes the file.
func (s *encrypted) Close() error { return s.file.Close() }
