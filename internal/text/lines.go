package text

import "strings"

// MaxLine bounds a line of a log, in bytes.
const MaxLine = 8 << 10

// Lines divides what is written to it into lines of MaxLine bytes at most: longer ones are broken.
type Lines struct {
	Emit func(line string) error // without its end

	part strings.Builder // of a line that is not whole
}

// Write implements io.Writer. It fails with Emit.
func (l *Lines) Write(p []byte) (int, error) {
	for left := string(p); left != ""; {
		line, rest, whole := strings.Cut(left, "\n")
		if room := MaxLine - l.part.Len(); len(line) > room {
			line, rest, whole = left[:room], left[room:], true
		}
		l.part.WriteString(line)
		if left = rest; !whole {
			break
		}
		if err := l.emit(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Rest hands on what was written after the last whole line; nothing is nothing.
func (l *Lines) Rest() error {
	if l.part.Len() == 0 {
		return nil
	}
	return l.emit()
}

func (l *Lines) emit() error {
	line := l.part.String()
	l.part.Reset()
	return l.Emit(line)
}
