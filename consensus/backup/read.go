package backup

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
)

// Read reads a backup and checks all of it: the digest, the state's invariants, the ledger's chain, and that state and ledger belong
// together: what is signed in the ledger of bans, node keys, admissions, models and foundings is so in the state. It calls line, which may be nil, with each record's line and the head after it; only when Read has returned without an
// error are these records proven. It holds the state and one line in memory. Errors wrap one of this package's, or are r's or line's.
func Read(r io.Reader, line func(head ledger.Head, line []byte) error) (*Backup, error) {
	body := &body{r: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	b, err := read(bufio.NewReaderSize(body, 64<<10), line)
	if errors.Is(err, state.ErrVersion) { // unless a name in it is another than was written
		if _, rest := io.Copy(io.Discard, body); rest != nil {
			return nil, rest
		}
	} else if err != nil {
		return nil, err
	}
	if !body.matches() {
		return nil, fmt.Errorf("%w: its digest is another", ErrDamaged)
	}
	return b, err
}

// ReadHeader reads only what a file says of itself; nothing of it is proven.
func ReadHeader(r io.Reader) (Header, error) {
	return readHeader(bufio.NewReaderSize(r, 64<<10))
}

func read(r *bufio.Reader, line func(ledger.Head, []byte) error) (*Backup, error) {
	h, err := readHeader(r)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, damaged(err)
	}
	z.Multistream(false)
	b := &Backup{Header: h}
	if b.State, err = readState(z, h); err != nil {
		return nil, err
	}
	check := newLedgerCheck(b.State)
	err = readLedger(z, h.Ledger, func(head ledger.Head, text []byte) error {
		_, body, err := ledger.Parse(text)
		if err != nil {
			return fmt.Errorf("%w: its ledger: %w", ErrDamaged, err)
		}
		if err := check.add(head.Length, body); err != nil || line == nil {
			return err
		}
		return line(head, text)
	})
	if err == nil {
		err = check.end()
	}
	if err != nil {
		return nil, err
	}
	switch _, err := r.ReadByte(); {
	case err == nil:
		return nil, fmt.Errorf("%w: more follows behind the ledger", ErrDamaged)
	case !errors.Is(err, io.EOF):
		return nil, damaged(err)
	}
	return b, nil
}

// readHeader reads the first two lines.
func readHeader(r *bufio.Reader) (h Header, err error) {
	first, err := readLine(r, len(magic)+16)
	if v, ok := strings.CutPrefix(first, magic); !ok {
		if errors.Is(err, errRead) {
			return h, err
		}
		return h, ErrNotBackup
	} else if err == nil && v != version {
		return h, fmt.Errorf("%w: version %.16q, not %s", ErrVersion, v, version)
	}
	if err != nil {
		return h, err
	}
	text, err := readLine(r, MaxHeader)
	if err != nil {
		return h, err
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return h, fmt.Errorf("%w: its header does not read: %w", ErrDamaged, err)
	}
	if again, err := json.Marshal(h); err != nil || string(again) != text {
		return h, fmt.Errorf("%w: its header is not in the form in which it is written", ErrDamaged)
	}
	if h.Index > maxIndex {
		return h, fmt.Errorf("%w: log index %d", ErrDamaged, h.Index)
	}
	if h.State < indexBytes || h.State > indexBytes+state.MaxSnapshotBytes {
		return h, fmt.Errorf("%w: a state of %d bytes", ErrDamaged, h.State)
	}
	return h, nil
}

// errRead marks an error of who gives the bytes.
var errRead = errors.New("read backup")

// readLine reads a line of at most limit bytes, without its line feed. What there is of it is returned with an error too.
func readLine(r *bufio.Reader, limit int) (string, error) {
	var b bytes.Buffer
	for b.Len() <= limit {
		c, err := r.ReadByte()
		if errors.Is(err, io.EOF) {
			return b.String(), ErrCutOff
		}
		if err != nil {
			return b.String(), fmt.Errorf("%w: %w", errRead, err)
		}
		if c == '\n' {
			return b.String(), nil
		}
		b.WriteByte(c)
	}
	return b.String(), fmt.Errorf("%w: its head has a line longer than %d bytes", ErrDamaged, limit)
}

// readState reads the state, and holds it to the header.
func readState(r io.Reader, h Header) (*state.State, error) {
	raw, err := io.ReadAll(io.LimitReader(r, int64(h.State))) //nolint:gosec // bounded by the header's check
	if err == nil && uint64(len(raw)) < h.State {
		err = fmt.Errorf("%w: its state has %d of %d bytes", ErrDamaged, len(raw), h.State)
	}
	if err != nil {
		return nil, damaged(err)
	}
	if index := binary.BigEndian.Uint64(raw); index != h.Index {
		return nil, fmt.Errorf("%w: its state is of index %d, its header says %d", ErrDamaged, index, h.Index)
	}
	s, err := state.DecodeSnapshot(raw[indexBytes:])
	if errors.Is(err, state.ErrVersion) {
		return nil, fmt.Errorf("%w: %w", ErrVersion, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if s.SwarmID != h.SwarmID || s.LedgerHead() != h.Ledger {
		return nil, fmt.Errorf("%w: its state is of another swarm or time than its header says", ErrDamaged)
	}
	return s, nil
}

// readLedger reads the ledger up to its end, which must be want.
func readLedger(r io.Reader, want ledger.Head, line func(ledger.Head, []byte) error) error {
	var head ledger.Head
	for buffered := bufio.NewReaderSize(r, ledger.MaxRecord); ; {
		text, err := buffered.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(text) == 0 {
			break
		}
		if errors.Is(err, bufio.ErrBufferFull) || errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: record %d of its ledger is not one line", ErrDamaged, head.Length+1)
		}
		if err != nil {
			return damaged(err)
		}
		if head.Length == want.Length {
			return fmt.Errorf("%w: its ledger is longer than the state says", ErrDamaged)
		}
		if head, err = ledger.Follow(head, text); err != nil {
			return fmt.Errorf("%w: its ledger: %w", ErrDamaged, err)
		}
		if err := line(head, text); err != nil {
			return err
		}
	}
	if head != want {
		return fmt.Errorf("%w: its ledger has %d records and ends otherwise than the state says, which has %d", ErrDamaged, head.Length, want.Length)
	}
	return nil
}

// damaged makes an error of this package of one of the decompressor's.
func damaged(err error) error {
	switch {
	case errors.Is(err, ErrDamaged), errors.Is(err, ErrCutOff), errors.Is(err, errRead):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return ErrCutOff
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// body reads all of a file but its trailer.
type body struct {
	r   *bufio.Reader
	sum hash.Hash // of what was read
}

// Read implements io.Reader. io.EOF comes before the trailer, io.ErrUnexpectedEOF where there is none.
func (b *body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	ahead, err := b.r.Peek(trailer + 1)
	switch {
	case len(ahead) == trailer+1:
	case errors.Is(err, io.EOF):
		return 0, io.EOF
	default:
		return 0, fmt.Errorf("%w: %w", errRead, err)
	}
	n := min(len(p), b.r.Buffered()-trailer)
	n, err = b.r.Read(p[:n])
	_, _ = b.sum.Write(p[:n]) // a hash never returns an error
	return n, err
}

// matches tells, when all before it was read, whether the trailer is the digest.
func (b *body) matches() bool {
	got, err := io.ReadAll(io.LimitReader(b.r, trailer+1))
	return err == nil && string(got) == hex.EncodeToString(b.sum.Sum(nil))+"\n"
}
