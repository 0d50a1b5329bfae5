package scratch_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/swarmd/swarmd/merge/exchange/scratch"
)

// memory is a file.
type memory []byte

func (m memory) ReadAt(p []byte, off int64) (int, error)  { return copy(p, m[off:]), nil }
func (m memory) WriteAt(p []byte, off int64) (int, error) { return copy(m[off:], p), nil }

// piece is the length of a leaf, and of what is encrypted at a time.
const piece = 256 << 10

// torn is a scratch file of which writes fail when it is told so, after half of them.
type torn struct {
	memory
	err error
}

func (f *torn) WriteAt(b []byte, off int64) (int, error) {
	if f.err != nil {
		n, _ := f.memory.WriteAt(b[:len(b)/2], off)
		return n, f.err
	}
	return f.memory.WriteAt(b, off)
}

func (f *torn) Close() error { return nil }

func encryptedFile(tb testing.TB, n int) (scratch.File, *torn) {
	tb.Helper()
	f := &torn{memory: make(memory, n)}
	s, err := scratch.Encrypted(func(int64) (scratch.File, error) { return f, nil })(int64(n))
	if err != nil {
		tb.Fatal(err)
	}
	return s, f
}

// TestAPlaceThatIsWrittenTwice holds that two texts at one place, and equal texts at two, have no key stream in common.
func TestAPlaceThatIsWrittenTwice(t *testing.T) {
	const n = piece + 112 // A write may be longer than a leaf.
	s, f := encryptedFile(t, 2*n)
	var streams [][]byte // key streams, one behind the other as they were used
	for k, fill := range []byte{1, 2, 1, 1} {
		off := int64(k / 3 * n) // The last one lies elsewhere.
		text := bytes.Repeat([]byte{fill}, n)
		if m, err := s.WriteAt(text, off); m != n || err != nil {
			t.Fatal(m, err)
		}
		if !bytes.Equal(text, bytes.Repeat([]byte{fill}, n)) {
			t.Fatal("what was written was changed")
		}
		for _, m := range []int{n, 10} {
			got := make([]byte, m)
			if r, err := s.ReadAt(got, off); r != m || err != nil || !bytes.Equal(got, text[:m]) {
				t.Fatalf("write %d: read %d of %d, %v, or other bytes", k, r, m, err)
			}
		}
		stream := bytes.Clone(f.memory[off : off+n])
		for at := range stream {
			stream[at] ^= fill
		}
		streams = append(streams, stream)
	}
	all := bytes.Join(streams, nil)
	seen := make(map[[16]byte]bool)
	for at := 0; at+16 <= len(all); at++ {
		b := [16]byte(all[at:])
		if seen[b] {
			t.Fatalf("a block of the key streams at %d was there before", at)
		}
		if at%16 == 0 {
			seen[b] = true
		}
	}
}

func TestWhatWasNotWrittenWholeIsNotRead(t *testing.T) {
	s, f := encryptedFile(t, 100)
	b := make([]byte, 10)
	unread := func(what string, n int) {
		t.Helper()
		if m, err := s.ReadAt(b[:n], 0); m != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("%s: read %d, %v, want the end", what, m, err)
		}
	}
	unread("nothing was written", 10)
	if _, err := s.WriteAt(b[:5], 0); err != nil {
		t.Fatal(err)
	}
	unread("less was written", 6)
	f.err = errors.New("no space left on device")
	if n, err := s.WriteAt(b, 0); n != 5 || !errors.Is(err, f.err) {
		t.Errorf("a full disk: %d, %v", n, err)
	}
	unread("half was written", 1)
}

// BenchmarkEncrypted writes and reads a leaf as the spill does, in memory, encrypted and plain.
func BenchmarkEncrypted(b *testing.B) {
	const leaves = 64
	leaf, got := make([]byte, piece), make([]byte, piece)
	encrypted, plain := encryptedFile(b, leaves*piece)
	for _, c := range []struct {
		name string
		file scratch.File
	}{{"plain", plain}, {"encrypted", encrypted}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(piece)
			for k := 0; b.Loop(); k++ {
				off := int64(k%leaves) * piece
				if _, err := c.file.WriteAt(leaf, off); err != nil {
					b.Fatal(err)
				}
				if _, err := c.file.ReadAt(got, off); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
