package backup

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/swarmd/swarmd/consensus/state"
)

// Source is what a backup is made of.
type Source struct {
	AtMS      int64
	Confirmed bool
	Origin    Origin
	// Index is the log index of the last command in State.
	Index uint64
	State *state.State
	// Ledger returns whole records from an offset in bytes on; one call's may reach beyond the state's head.
	Ledger func(offset uint64) ([]byte, error)
}

// Write writes a backup. The encoded state is in memory meanwhile, and of the ledger what one call returns. What was written when it
// fails is no backup, and does not read as one.
func Write(w io.Writer, s Source) error {
	encoded, err := state.EncodeSnapshot(s.State)
	if err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	head := s.State.LedgerHead()
	line, err := json.Marshal(Header{
		SwarmID: s.State.SwarmID, AtMS: s.AtMS, Index: s.Index, Confirmed: s.Confirmed, State: uint64(indexBytes + len(encoded)), Ledger: head, Origin: s.Origin,
	})
	if err == nil && len(line) >= MaxHeader {
		err = fmt.Errorf("its header has %d bytes, at most %d", len(line), MaxHeader-1)
	}
	if err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	sum := sha256.New()
	all := io.MultiWriter(w, sum)
	if _, err := all.Write(append([]byte(magic+version+"\n"+string(line)), '\n')); err != nil {
		return err
	}
	z := gzip.NewWriter(all)
	if err := writeState(z, s.Index, encoded); err != nil {
		return err
	}
	if err := copyLedger(z, s.Ledger, head.Bytes); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	_, err = io.WriteString(w, hex.EncodeToString(sum.Sum(nil))+"\n")
	return err
}

// copyLedger writes the ledger's first bytes.
func copyLedger(w io.Writer, read func(offset uint64) ([]byte, error), length uint64) error {
	for offset := uint64(0); offset < length; {
		b, err := read(offset)
		if err != nil {
			return err
		}
		if len(b) == 0 {
			return errors.New("write backup: the ledger ends before the state's last record")
		}
		b = b[:min(uint64(len(b)), length-offset)]
		if _, err := w.Write(b); err != nil {
			return err
		}
		offset += uint64(len(b))
	}
	return nil
}

// WriteSnapshot writes the state as a raft snapshot of this log index has it.
func (b *Backup) WriteSnapshot(w io.Writer, index uint64) error {
	encoded, err := state.EncodeSnapshot(b.State)
	if err != nil {
		return err
	}
	return writeState(w, index, encoded)
}

// writeState writes an index, eight bytes big endian, and an encoded state.
func writeState(w io.Writer, index uint64, encoded []byte) error {
	if _, err := w.Write(binary.BigEndian.AppendUint64(nil, index)); err != nil {
		return err
	}
	_, err := w.Write(encoded)
	return err
}
