package launch

import (
	"bytes"
	"io"
	"strings"
)

const (
	maxLine     = 64 << 10 // bytes held before a line without an end is passed on in pieces
	maxTailLine = 4 << 10  // bytes of a line in the tail
)

// splitLines calls fn with each line until r ends or fails. A newline, a carriage return and the pair end a line. What
// follows the last end is a line too.
func splitLines(r io.Reader, fn func(line string)) {
	buf := make([]byte, maxLine)
	held := 0
	afterCR := false
	for {
		n, err := r.Read(buf[held:])
		data := buf[:held+n]
		searched := held // no end before: a long line must not be searched again at each read
		for {
			if afterCR && len(data) > 0 {
				afterCR = false
				if data[0] == '\n' {
					data = data[1:]
				}
			}
			end := bytes.IndexAny(data[searched:], "\r\n")
			if end < 0 {
				break
			}
			end += searched
			searched = 0
			fn(text(data[:end]))
			afterCR = data[end] == '\r'
			data = data[end+1:]
		}
		if len(data) == maxLine {
			fn(text(data))
			data = nil
		}
		held = copy(buf, data)
		if err != nil {
			if held > 0 {
				fn(text(buf[:held]))
			}
			return
		}
	}
}

func text(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// tail keeps the last lines.
type tail struct {
	keep  int
	lines []string
}

func (t *tail) add(line string) {
	if t.keep <= 0 {
		return
	}
	if len(line) > maxTailLine {
		line = strings.ToValidUTF8(line[:maxTailLine], "") + "…"
	}
	if len(t.lines) == t.keep {
		copy(t.lines, t.lines[1:])
		t.lines = t.lines[:t.keep-1]
	}
	t.lines = append(t.lines, line)
}
