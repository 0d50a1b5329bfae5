package spire

import (
	"bufio"
	"encoding/json"
	"errors"
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
	b.WriteString(quoted(l.msg))
	for _, f := range l.fields {
		value := quoted(f.value)
		if value == "" || value == f.value && strings.ContainsAny(value, ` "=`) {
			value = strconv.Quote(value)
		}
		b.WriteString(" " + quoted(f.key) + "=" + value)
	}
	return b.String()
}

// quoted quotes what a terminal would obey: parts of a log line come from the network.
func quoted(s string) string {
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

// parseLine reads a line of JSON as logrus writes it. Any other line, as of a program that ends before it has opened its log, is
// the message, as information. A field that is no string has its JSON as its value.
func parseLine(text string) line {
	raw := map[string]json.RawMessage{}
	plain := line{level: slog.LevelInfo, msg: text}
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &raw) != nil {
		return plain
	}
	values := map[string]string{}
	for k, v := range raw {
		var s string
		if json.Unmarshal(v, &s) != nil {
			s = string(v)
		}
		values[k] = s
	}
	msg, ok := values["msg"]
	if !ok {
		return plain
	}
	l := line{level: level(values["level"]), msg: msg}
	for _, k := range slices.Sorted(maps.Keys(values)) {
		if k == "msg" || k == "level" || k == "time" || len(l.fields) == maxFields {
			continue
		}
		l.fields = append(l.fields, field{k, values[k]})
	}
	return l
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
