package local

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/swarmd/swarmd/internal/text"
)

// How often a peer's line is printed where it can't be kept up to date in place: a short run is seen live, a long one does
// not fill a log.
const (
	lineEvery   = 2 * time.Second
	lineAtMost  = time.Minute
	lineStretch = 20 // a line per this part of the time that the run has taken so far
)

// Board shows a run: log lines scroll, and below them a head and one line per peer are kept up to date in place. Where that is not
// possible (no terminal) a peer's line is printed now and then when what matters in it has changed. Safe for concurrent use.
type Board struct {
	mu    sync.Mutex
	w     io.Writer
	tty   bool
	width func() int
	now   func() time.Time
	began time.Time          // of the first line that was printed without a terminal
	head  string             // the block's first line, if any
	lines []string           // of the block now, below it
	drawn int                // rows of the block that stand on the screen
	last  map[string]printed // by peer
}

// printed is what was printed last of a peer, without a terminal.
type printed struct {
	key string
	at  time.Time
}

// Status is one peer's line.
type Status struct {
	Peer string
	Key  string // what matters: without a terminal a line is printed when this has changed; "" prints nothing
	News bool   // the change matters by itself: it is printed at once
	Text string
}

// NewBoard makes a board that writes to h.Stderr.
func NewBoard(h Host) *Board {
	return &Board{w: h.Stderr, tty: h.TTY, width: h.Width, now: h.Now, last: map[string]printed{}}
}

// Log prints one line above the peers' lines.
func (b *Board) Log(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out(b.erase() + text.Plain(line) + "\n" + b.block())
}

// Head replaces the line that stands above those of the peers and is never cut. Without a terminal it is printed once.
func (b *Board) Head(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if line = text.Line(line); !b.tty {
		b.out(line + "\n")
		return
	}
	gone := b.erase()
	b.head = line
	b.out(gone + b.block())
}

// Set replaces the peers' lines.
func (b *Board) Set(peers []Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.tty {
		for _, p := range peers {
			b.line(p)
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

// line prints one peer's line if it is time.
func (b *Board) line(p Status) {
	now, last := b.now(), b.last[p.Peer]
	if b.began.IsZero() {
		b.began = now
	}
	due := last.at.Add(min(max(lineEvery, now.Sub(b.began)/lineStretch), lineAtMost))
	if p.Key == "" || p.Key == last.key || !p.News && now.Before(due) {
		return
	}
	b.last[p.Peer] = printed{p.Key, now}
	b.out(text.Line(p.Text) + "\n")
}

// Close leaves the block as it is: what follows is printed below.
func (b *Board) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.head, b.lines, b.drawn = "", nil, 0
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

// block is what draws it. The peers' lines are cut at the width; the head, which people copy from, takes as many rows as it needs.
func (b *Board) block() string {
	if !b.tty || b.head == "" && len(b.lines) == 0 {
		return ""
	}
	width := b.width()
	if width < 20 {
		width = 80
	}
	var s strings.Builder
	if b.head != "" {
		s.WriteString(b.head + "\n")
		b.drawn = (len([]rune(b.head)) + width - 1) / width
	}
	for _, l := range b.lines {
		r := []rune(text.Line(l))
		s.WriteString(string(r[:min(len(r), width-1)]) + "\n")
	}
	b.drawn += len(b.lines)
	return s.String()
}

// out ignores errors: a closed terminal must not end the training.
func (b *Board) out(s string) { _, _ = io.WriteString(b.w, s) }
