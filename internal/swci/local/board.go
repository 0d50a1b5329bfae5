package local

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// Board shows a run: log lines scroll, and below them one line per peer is kept up to date in place. Where that is not
// possible (no terminal) a peer's line is printed when what matters in it changes. Safe for concurrent use.
type Board struct {
	mu    sync.Mutex
	w     io.Writer
	tty   bool
	width func() int
	lines []string          // of the block now
	drawn int               // lines of the block that stand on the screen
	last  map[string]string // key printed last, by peer
}

// Status is one peer's line.
type Status struct {
	Peer string
	Key  string // what matters: without a terminal a line is printed when this changes; "" prints nothing
	Text string
}

// NewBoard makes a board that writes to w. width returns the terminal's width in columns; it is only asked when tty.
func NewBoard(w io.Writer, tty bool, width func() int) *Board {
	return &Board{w: w, tty: tty, width: width, last: map[string]string{}}
}

// Log prints one line above the peers' lines.
func (b *Board) Log(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out(b.erase() + clean(line) + "\n" + b.block())
}

// Set replaces the peers' lines.
func (b *Board) Set(peers []Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.tty {
		for _, p := range peers {
			if p.Key != "" && b.last[p.Peer] != p.Key {
				b.last[p.Peer] = p.Key
				b.out(clean(p.Text) + "\n")
			}
		}
		return
	}
	gone := b.erase()
	b.lines = b.lines[:0]
	for _, p := range peers {
		b.lines = append(b.lines, p.Text)
	}
	b.out(gone + b.block())
}

// Close leaves the block as it is: what follows is printed below.
func (b *Board) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines, b.drawn = nil, 0
}

// erase is what takes the block off the screen.
func (b *Board) erase() string {
	if b.drawn == 0 {
		return ""
	}
	s := fmt.Sprintf("\x1b[%dA\x1b[J", b.drawn)
	b.drawn = 0
	return s
}

// block is what draws it. Lines are cut at the width: a wrapped line could not be erased.
func (b *Board) block() string {
	if !b.tty || len(b.lines) == 0 {
		return ""
	}
	width := b.width()
	if width < 20 {
		width = 80
	}
	var s strings.Builder
	for _, l := range b.lines {
		r := []rune(clean(l))
		s.WriteString(string(r[:min(len(r), width-1)]) + "\n")
	}
	b.drawn = len(b.lines)
	return s.String()
}

// out ignores errors: a closed terminal must not end the training.
func (b *Board) out(s string) { _, _ = io.WriteString(b.w, s) }

// clean takes out control characters, with which a program's output could spoil the block or the terminal. Tabs and
// colours are lost with them.
func clean(s string) string {
	var b strings.Builder
	escape := false
	for _, r := range s {
		switch {
		case escape:
			// An escape sequence ends with a letter, except for the bracket that opens it.
			escape = r < '@' || r > '~' || r == '['
		case r == 0x1b:
			escape = true
		case r == '\t':
			b.WriteString("    ")
		case r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0:
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
