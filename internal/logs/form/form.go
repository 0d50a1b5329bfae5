// Package form is the form in which daemons write their logs: that of the original, so that scripts that look for its markers find them.
package form

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
)

// loggerKey is the attribute that names the logger of a record, in the place where the original prints it.
const loggerKey = "logger"

// handler writes records as the original does, `asctime : logger : LEVEL : message`, with the attributes behind the
// message as key=value.
type handler struct {
	sink  *sink
	level slog.Leveler
	name  string
	attrs string
	group string
	part  string
}

// sink is what all handlers of one logger share.
type sink struct {
	mu   sync.Mutex
	out  io.Writer
	said map[string]time.Time // libraries' lines and when they were last written
}

const (
	// partKey marks the records that a library wrote; its value names the library's part.
	partKey = "part"
	// saidAgain is how often a library may say the same of the same peer: raft complains of a dead one twice a second.
	saidAgain = time.Minute
	saidMax   = 1000 // lines that are remembered
)

var _ slog.Handler = (*handler)(nil)

// New returns a logger that writes whole lines to out.
func New(out io.Writer, name string, level slog.Leveler) *slog.Logger {
	return slog.New(&handler{sink: &sink{out: out, said: map[string]time.Time{}}, level: level, name: name})
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level.Level() }

// Handle implements slog.Handler.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	name, attrs, topic := h.name, h.attrs, r.Message
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case loggerKey:
			name = a.Value.String()
			return true
		case "peer", "target", "server_id":
			topic += a.Value.String()
		}
		attrs += format(h.group, a)
		return true
	})
	level := r.Level
	if h.part != "" {
		level = min(level, slog.LevelWarn)
		if !h.wanted(topic, level, r.Time) {
			return nil
		}
	}
	b.WriteString(strings.Replace(r.Time.Format("2006-01-02 15:04:05.000"), ".", ",", 1))
	b.WriteString(" : " + name + " : " + levelName(level) + " : " + r.Message + attrs + "\n")
	h.sink.mu.Lock()
	defer h.sink.mu.Unlock()
	_, err := io.WriteString(h.sink.out, b.String())
	return err
}

// wanted reports whether an operator should see a library's record now. What a library calls an error is at most a warning
// for the daemon, which survives it, and that a stream between SNs ended is news to nobody: who is gone is said elsewhere.
func (h *handler) wanted(topic string, level slog.Level, now time.Time) bool {
	if h.level.Level() <= slog.LevelDebug || level < slog.LevelWarn {
		return true
	}
	if h.part == "raft_net" {
		return false
	}
	s := h.sink
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.said[topic]; ok && now.Sub(last) < saidAgain {
		return false
	}
	if len(s.said) >= saidMax {
		clear(s.said)
	}
	s.said[topic] = now
	return true
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	for _, a := range attrs {
		if a.Key == loggerKey {
			next.name = a.Value.String()
			continue
		}
		if a.Key == partKey {
			next.part = a.Value.String()
		}
		next.attrs += format(h.group, a)
	}
	return &next
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	next := *h
	next.group += name + "."
	return &next
}

// format renders one attribute, quoted if it would not read back as one word.
func format(group string, a slog.Attr) string {
	v := a.Value.Resolve()
	text := v.String()
	if v.Kind() == slog.KindTime {
		text = v.Time().Format(time.RFC3339)
	}
	// What a terminal obeys is quoted too: much of it came from peers.
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return strings.ContainsRune(" \"=", r) || !strconv.IsPrint(r) }) {
		text = strconv.Quote(text)
	}
	return " " + group + a.Key + "=" + text
}

func levelName(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "ERROR"
	case l >= slog.LevelWarn:
		return "WARNING"
	case l >= slog.LevelInfo:
		return "INFO"
	}
	return "DEBUG"
}
