// Package segments opens the files of raft's log on disk.
package segments

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// Files opens the files of raft's log. Where the end of the log was cut off, as happens to a leader that was deposed
// with entries that nobody else had, raft-wal v0.4.0 seals the file in which the cut lies without an index, and can't read
// it after a restart. Such a file is read through instead, as the unsealed one always is.
type Files struct{ *segment.Filer }

// New returns the files of a log's directory.
func New(dir string) Files { return Files{segment.NewFiler(dir, fs.New())} }

// Open opens a sealed file for reading.
func (s Files) Open(info types.SegmentInfo) (types.SegmentReader, error) {
	if info.IndexStart != 0 {
		return s.Filer.Open(info)
	}
	w, err := s.RecoverTail(info)
	if err != nil {
		return nil, err
	}
	if last := w.LastIndex(); last < info.MaxIndex {
		err := fmt.Errorf("segment from entry %d ends at %d, not at %d: %w", info.BaseIndex, last, info.MaxIndex, types.ErrCorrupt)
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}
