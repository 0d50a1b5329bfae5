package launch

import (
	"bytes"
	"strings"

	"github.com/swarmd/swarmd/internal/text"
)

const (
	maxLine     = 64 << 10 // bytes held before a line without an end is passed on in pieces
	maxTailLine = 4 << 10  // bytes of a line in the tail
)

// splitter calls fn with each line of what is written to it. A newline ends a line, also behind carriage returns. What a
// carriage return goes back over is left out, as on a terminal: of a progress bar its last state is one line.
type splitter struct {
	fn      func(line string)
	held    []byte // the line that has no end yet
	afterCR bool   // what follows, unless it is the line's end, is written over held
}

func (s *splitter) write(p []byte) {
	for len(p) > 0 {
		switch p[0] {
		case '\n':
			s.emit()
			p = p[1:]
			continue
		case '\r':
			s.afterCR = true
			p = p[1:]
			continue
		}
		if s.afterCR {
			s.held, s.afterCR = s.held[:0], false
		}
		if len(s.held) == maxLine {
			s.emit()
		}
		part := p[:min(len(p), maxLine-len(s.held))]
		if end := bytes.IndexAny(part, "\r\n"); end >= 0 {
			part = part[:end]
		}
		s.held = append(s.held, part...)
		p = p[len(part):]
	}
}

// flush passes on what follows the last end.
func (s *splitter) flush() {
	if len(s.held) > 0 {
		s.emit()
	}
}

func (s *splitter) emit() {
	s.fn(decoded(s.held))
	s.held, s.afterCR = s.held[:0], false
}

func decoded(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// tail keeps the last lines.
type tail struct {
	keep  int
	lines []string
}

func (t *tail) add(line string) {
	if t.keep <= 0 {
		return
	}
	line = text.Clip(line, maxTailLine)
	if len(t.lines) == t.keep {
		copy(t.lines, t.lines[1:])
		t.lines = t.lines[:t.keep-1]
	}
	t.lines = append(t.lines, line)
}
