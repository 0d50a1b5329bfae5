package attestor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// maxExecutable bounds what is hashed: whoever may connect to the agent can make it hash his program.
	maxExecutable = 512 << 20
	// maxDigests bounds the cache.
	maxDigests = 256
	// settled is the age from which on a file's times tell it from a changed one: file systems count in ticks.
	settled = 2 * time.Second
)

// digest is the SHA-256 of a file.
type digest [sha256.Size]byte

func (d digest) String() string { return hex.EncodeToString(d[:]) }

func parseDigest(s string) (digest, error) {
	var d digest
	raw, err := hex.DecodeString(strings.TrimPrefix(s, "sha256:"))
	if err != nil || len(raw) != len(d) {
		return d, fmt.Errorf("digest %q: want the %d hexadecimal digits that sha256sum prints", s, 2*len(d))
	}
	copy(d[:], raw)
	return d, nil
}

// fileKey changes when a file is replaced or written to.
type fileKey struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

func keyOf(f *os.File) (fileKey, error) {
	info, err := f.Stat()
	if err != nil {
		return fileKey{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() {
		return fileKey{}, fmt.Errorf("%s is no regular file", f.Name())
	}
	return fileKey{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}, nil
}

// digests remembers files' digests, so that a process is attested cheaply. The zero value is ready.
type digests struct {
	mu      sync.Mutex
	known   map[fileKey]digest
	hashing sync.Mutex // one at a time, so that nobody can make the agent hash on all cores
}

// of returns the digest of an open file.
func (d *digests) of(ctx context.Context, f *os.File) (digest, error) {
	key, err := keyOf(f)
	if err != nil {
		return digest{}, err
	}
	if sum, ok := d.get(key); ok {
		return sum, nil
	}
	d.hashing.Lock()
	defer d.hashing.Unlock()
	if sum, ok := d.get(key); ok {
		return sum, nil
	}
	sum, err := hash(ctx, f)
	if err != nil {
		return digest{}, err
	}
	after, err := keyOf(f)
	if err != nil {
		return digest{}, err
	}
	if after != key {
		return digest{}, fmt.Errorf("%s was written to while it was read", f.Name())
	}
	if time.Since(time.Unix(key.ctime.Unix())) > settled {
		d.put(key, sum)
	}
	return sum, nil
}

func (d *digests) get(key fileKey) (digest, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sum, ok := d.known[key]
	return sum, ok
}

func (d *digests) put(key fileKey, sum digest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || len(d.known) >= maxDigests {
		d.known = map[fileKey]digest{}
	}
	d.known[key] = sum
}

func hash(ctx context.Context, f *os.File) (digest, error) {
	h := sha256.New()
	buf := make([]byte, 1<<20)
	for total := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return digest{}, err
		}
		n, err := f.ReadAt(buf, total)
		h.Write(buf[:n])
		if total += int64(n); total > maxExecutable {
			return digest{}, fmt.Errorf("%s has more than %d bytes", f.Name(), maxExecutable)
		}
		if errors.Is(err, io.EOF) {
			return digest(h.Sum(nil)), nil
		}
		if err != nil {
			return digest{}, err
		}
	}
}

func fileDigest(path string) (digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return digest{}, err
	}
	defer f.Close()
	return hash(context.Background(), f)
}
