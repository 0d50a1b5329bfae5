package spire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	maxLine   = 64 << 10 // bytes held before a line without an end is passed on in pieces
	maxFields = 64       // of one line
)

// line is one line of a SPIRE program's log.
type line struct {
	level  slog.Level
	msg    string
	fields []field
}

type field struct{ key, value string }

// String is the line as people read it, without its time.
func (l line) String() string {
	var b strings.Builder
	if l.level != slog.LevelInfo {
		b.WriteString(strings.ToLower(l.level.String()) + ": ")
	}
	b.WriteString(plain(l.msg))
	for _, f := range l.fields {
		value := plain(f.value)
		if value == "" || value == f.value && strings.ContainsAny(value, ` "=`) {
			value = strconv.Quote(value)
		}
		b.WriteString(" " + plain(f.key) + "=" + value)
	}
	return b.String()
}

// plain quotes what a terminal would obey: parts of a log line come from the network.
func plain(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// eachLine calls fn with each line until r ends or fails. What follows the last newline is a line too.
func eachLine(r io.Reader, fn func(string)) {
	br := bufio.NewReaderSize(r, maxLine)
	for {
		b, err := br.ReadSlice('\n')
		if len(b) > 0 {
			fn(strings.ToValidUTF8(strings.TrimRight(string(b), "\r\n"), "\uFFFD"))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// parseLine reads a line as logrus writes it, text (key=value) or JSON. Any other line is the message, as information.
func parseLine(text string) line {
	if strings.HasPrefix(text, "{") {
		if l, ok := parseJSON(text); ok {
			return l
		}
	}
	if l, ok := parseText(text); ok {
		return l
	}
	return line{level: slog.LevelInfo, msg: text}
}

func parseJSON(text string) (line, bool) {
	var m map[string]any
	if json.Unmarshal([]byte(text), &m) != nil {
		return line{}, false
	}
	msg, ok := m["msg"].(string)
	if !ok {
		return line{}, false
	}
	name, _ := m["level"].(string)
	l := line{level: level(name), msg: msg}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if k == "msg" || k == "level" || k == "time" || len(l.fields) == maxFields {
			continue
		}
		l.fields = append(l.fields, field{k, fmt.Sprint(m[k])})
	}
	return l, true
}

func parseText(text string) (line, bool) {
	l, found := line{}, false
	for rest := text; rest != ""; rest = strings.TrimLeft(rest, " ") {
		key, after, ok := strings.Cut(rest, "=")
		if !ok || key == "" || strings.ContainsAny(key, " \"") {
			return line{}, false
		}
		var value string
		if strings.HasPrefix(after, `"`) {
			quoted, err := strconv.QuotedPrefix(after)
			if err != nil {
				return line{}, false
			}
			if value, err = strconv.Unquote(quoted); err != nil {
				return line{}, false
			}
			rest = after[len(quoted):]
		} else {
			value, rest, _ = strings.Cut(after, " ")
		}
		switch {
		case key == "msg":
			l.msg, found = value, true
		case key == "level":
			l.level = level(value)
		case key != "time" && len(l.fields) < maxFields:
			l.fields = append(l.fields, field{key, value})
		}
	}
	return l, found
}

func level(logrus string) slog.Level {
	switch logrus {
	case "panic", "fatal", "error":
		return slog.LevelError
	case "warning", "warn":
		return slog.LevelWarn
	case "debug", "trace":
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
