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

// splitter calls fn with each line of what is written to it. A newline, a carriage return and the pair end a line.
type splitter struct {
	fn      func(line string)
	held    []byte // the line that has no end yet
	afterCR bool
}

func (s *splitter) write(p []byte) {
	for len(p) > 0 {
		if s.afterCR {
			s.afterCR = false
			if p[0] == '\n' {
				p = p[1:]
				continue
			}
		}
		part := p[:min(len(p), maxLine-len(s.held))]
		if end := bytes.IndexAny(part, "\r\n"); end >= 0 {
			s.held = append(s.held, part[:end]...)
			s.emit()
			s.afterCR = part[end] == '\r'
			p = p[end+1:]
			continue
		}
		s.held = append(s.held, part...)
		p = p[len(part):]
		if len(s.held) == maxLine {
			s.emit()
		}
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
	s.held = s.held[:0]
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
