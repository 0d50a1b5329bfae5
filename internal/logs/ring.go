package logs

import (
	"context"
	"fmt"
	"sync"

	"github.com/swarmd/swarmd/internal/text"
)

// Ring keeps the last lines that were written to it. It is safe for concurrent use.
type Ring struct {
	max int // bytes

	mu      sync.Mutex
	lines   []string
	first   uint64 // number of lines[0]
	bytes   int
	split   text.Lines
	changed chan struct{}
}

// NewRing returns a ring of so many bytes.
func NewRing(bytes int) *Ring {
	r := &Ring{max: bytes, changed: make(chan struct{})}
	r.split.Emit = r.add
	return r
}

// Write keeps lines. It never fails.
func (r *Ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.split.Write(p) // add never fails
	close(r.changed)
	r.changed = make(chan struct{})
	return len(p), nil
}

// add keeps a line, and lets the oldest go. The caller holds mu.
func (r *Ring) add(line string) error {
	r.lines = append(r.lines, line)
	r.bytes += len(line) + 1
	for r.bytes > r.max && len(r.lines) > 1 {
		r.bytes -= len(r.lines[0]) + 1
		r.lines[0] = "" // not to be kept by the array
		r.lines = r.lines[1:]
		r.first++
	}
	return nil
}

// since returns the lines from a number on, the number of the first of them, and what is closed when there are more.
func (r *Ring) since(from uint64) (lines []string, first uint64, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first = min(max(from, r.first), r.first+uint64(len(r.lines)))
	return append(lines, r.lines[first-r.first:]...), first, r.changed
}

// Log hands out the last lines, and those that follow where they are asked for. It returns nil when there is no more, or ctx has ended.
func (r *Ring) Log(ctx context.Context, w Wanted, emit func(Line) error) error {
	lines, next, changed := r.since(0)
	if cut := len(lines) - w.Tail; cut > 0 {
		lines, next = lines[cut:], next+uint64(cut)
	}
	for {
		for _, l := range lines {
			if err := emit(Line{Text: l}); err != nil {
				return err
			}
		}
		if next += uint64(len(lines)); !w.Follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		due := next
		if lines, next, changed = r.since(due); next > due {
			if err := emit(Line{Text: fmt.Sprintf("… %d lines were left out: they came faster than they could be sent", next-due)}); err != nil {
				return err
			}
		}
	}
}
