package daemon

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
// message as key=value, so that scripts that look for the original's markers find them.
type handler struct {
	mu    *sync.Mutex
	out   io.Writer
	level slog.Leveler
	name  string
	attrs string
	group string
}

var _ slog.Handler = (*handler)(nil)

// newLogger returns a logger that writes whole lines to out.
func newLogger(out io.Writer, name string, level slog.Leveler) *slog.Logger {
	return slog.New(&handler{mu: new(sync.Mutex), out: out, level: level, name: name})
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level.Level() }

// Handle implements slog.Handler.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	name := h.name
	attrs := h.attrs
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == loggerKey {
			name = a.Value.String()
		} else {
			attrs += format(h.group, a)
		}
		return true
	})
	b.WriteString(strings.Replace(r.Time.Format("2006-01-02 15:04:05.000"), ".", ",", 1))
	b.WriteString(" : " + name + " : " + levelName(r.Level) + " : " + r.Message + attrs + "\n")
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.out, b.String())
	return err
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	for _, a := range attrs {
		if a.Key == loggerKey {
			next.name = a.Value.String()
		} else {
			next.attrs += format(h.group, a)
		}
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
	if strings.ContainsAny(text, " \t\r\n\"=") || text == "" {
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
