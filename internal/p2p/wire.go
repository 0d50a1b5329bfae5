package p2p

import (
	"errors"
	"io"
	"net"
	"sync"
)

const (
	// maxBurst is how many bytes of TLS records go to the kernel at a time: about what one segment of loopback or of a card
	// with segmentation offload carries, four full records and a short one.
	maxBurst = 64<<10 + 5*recordOverhead + 64
	// recordOverhead is what TLS 1.3 adds to a record: header, content type and tag.
	recordOverhead = 5 + 1 + 16
	// maxRecord is how much plaintext one record takes.
	maxRecord = 16 << 10
	// readAhead is how many bytes at most are taken from the kernel at a time where a connection reads ahead.
	readAhead = 64 << 10
)

// bursts are buffers of maxBurst bytes. Connections share them, because most write little.
var bursts = sync.Pool{New: func() any { b := make([]byte, 0, maxBurst); return &b }}

// wire lies between TLS and the socket. TLS makes a system call for each record of 16 KiB in either direction, which costs
// about as much as encrypting it; wire makes one for several.
type wire struct {
	net.Conn

	bursting  sync.Mutex // held during a burst
	fewUnsent bool       // the kernel takes little at a time; of the writer

	mu   sync.Mutex // guards held and err
	held *[]byte    // records of the burst that is being written; nil outside of a burst
	err  error      // once a record was cut short nothing that follows makes sense, be it TLS's own notice of the end

	// The rest belongs to the reader, of which TLS has one at a time.
	most  int    // how many bytes may be read ahead; 0: none
	want  int    // how many are worth it: as many as came at once, and as many again
	ahead []byte // of want bytes, when it was last used
	rest  []byte // of ahead, not yet read
	ended bool   // the socket ended beneath what TLS has read; written by the reader
}

// burst lets write write to TLS and sends its records together. If write panics nothing more is sent.
func (w *wire) burst(write func() (int, error)) (n int, err error) {
	w.bursting.Lock()
	defer w.bursting.Unlock()
	w.mu.Lock()
	w.held = bursts.Get().(*[]byte)
	w.mu.Unlock()
	returned := false
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !returned && w.err == nil {
			w.err = errBroken
		}
		if flushed := w.flushLocked(); err == nil {
			err = flushed
		}
		*w.held = (*w.held)[:0]
		bursts.Put(w.held)
		w.held = nil
	}()
	n, err = write()
	returned = true
	return n, err
}

// errBroken is what the rest of a burst meets that broke off with a panic.
var errBroken = errors.New("a write broke off")

// Write takes one record.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	if w.held == nil {
		var n int
		n, w.err = w.Conn.Write(p)
		return n, w.err
	}
	if len(*w.held)+len(p) > cap(*w.held) {
		if err := w.flushLocked(); err != nil {
			return 0, err
		}
		if len(p) > cap(*w.held) {
			return w.Conn.Write(p)
		}
	}
	*w.held = append(*w.held, p...)
	return len(p), nil
}

func (w *wire) flushLocked() error {
	if w.err != nil {
		return w.err
	}
	if len(*w.held) == 0 {
		return nil
	}
	_, w.err = w.Conn.Write(*w.held)
	*w.held = (*w.held)[:0]
	return w.err
}

// Read reads ahead if it may, and if more comes than TLS asks for: the connections of a small model have small buffers.
func (w *wire) Read(p []byte) (int, error) {
	if len(w.rest) > 0 {
		n := copy(p, w.rest)
		w.rest = w.rest[n:]
		return n, nil
	}
	if len(p) >= w.want {
		n, err := w.noted(w.Conn.Read(p))
		w.full(n, len(p))
		return n, err
	}
	if len(w.ahead) < w.want {
		w.ahead = make([]byte, w.want)
	}
	n, err := w.noted(w.Conn.Read(w.ahead))
	w.full(n, len(w.ahead))
	w.rest = w.ahead[:n]
	if n > 0 {
		n = copy(p, w.rest)
		w.rest = w.rest[n:]
		return n, nil
	}
	return 0, err
}

// full notes that a read got as many bytes as it had room for: there are more.
func (w *wire) full(n, room int) {
	if n == room {
		w.want = max(w.want, min(2*room, w.most))
	}
}

func (w *wire) noted(n int, err error) (int, error) {
	if errors.Is(err, io.EOF) {
		w.ended = true
	}
	return n, err
}
