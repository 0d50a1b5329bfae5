package raftnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// hclogger lets the hashicorp libraries write to a slog.Logger. What they call info is debug for us, because an
// operator's quiet day has elections and pipelines in it by the dozen; the group itself logs what matters.
type hclogger struct {
	log  *slog.Logger
	name string
	args []any
}

var _ hclog.Logger = (*hclogger)(nil)

// NewLog bridges a library's log to slog under the attribute "part".
func NewLog(l *slog.Logger, name string) hclog.Logger {
	return &hclogger{log: l.With("part", name), name: name}
}

func slogLevel(level hclog.Level) slog.Level {
	switch level {
	case hclog.Error:
		return slog.LevelError
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Trace:
		return slog.LevelDebug - 4
	default:
		return slog.LevelDebug
	}
}

// routine are warnings of the libraries that come with every start, join and stop: nothing for an operator.
var routine = []string{
	"no known peers, aborting election",
	"failed to get previous log",
	"appendEntries rejected, sending older logs",
	"rejecting pre-vote request",
	"rejecting vote request",
	"rejecting appendEntries request",
}

// founding reports whether a warning is of the first election that a server knows of: there was no leader to be lost. Every
// founding begins with it, and every start of a server alone.
func founding(msg string, args []any) bool {
	if !strings.HasPrefix(msg, "heartbeat timeout reached, starting election") {
		return false
	}
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] == "last-leader-id" {
			return fmt.Sprint(args[i+1]) == ""
		}
	}
	return false
}

// broughtByStop recognises the error of a call that this server itself broke off, as it does only when it stops. Not all that
// carry it on wrap it.
func broughtByStop(value any) bool {
	err, ok := value.(error)
	return ok && (errors.Is(err, context.Canceled) || strings.Contains(err.Error(), context.Canceled.Error()))
}

// Log writes one record with snake_case keys; values that hclog formats lazily are resolved here.
func (h *hclogger) Log(level hclog.Level, msg string, args ...any) {
	l := slogLevel(level)
	if slices.ContainsFunc(routine, func(s string) bool { return strings.HasPrefix(msg, s) }) || slices.ContainsFunc(args, broughtByStop) || founding(msg, args) {
		l = slog.LevelDebug
	}
	ctx := context.Background()
	if !h.log.Enabled(ctx, l) {
		return
	}
	attrs := make([]slog.Attr, 0, len(args)/2+1)
	for i := 0; i+1 < len(args); i += 2 {
		key := strings.ReplaceAll(fmt.Sprint(args[i]), "-", "_")
		value := args[i+1]
		if f, ok := value.(hclog.Format); ok && len(f) > 0 {
			if layout, ok := f[0].(string); ok {
				value = fmt.Sprintf(layout, f[1:]...)
			}
		}
		attrs = append(attrs, slog.Any(key, value))
	}
	h.log.LogAttrs(ctx, l, msg, attrs...) //nolint:sloglint // the message is raft's
}

// Trace logs below debug.
func (h *hclogger) Trace(msg string, args ...any) { h.Log(hclog.Trace, msg, args...) }

// Debug logs at debug.
func (h *hclogger) Debug(msg string, args ...any) { h.Log(hclog.Debug, msg, args...) }

// Info logs at debug: see hclogger.
func (h *hclogger) Info(msg string, args ...any) { h.Log(hclog.Info, msg, args...) }

// Warn logs at warning.
func (h *hclogger) Warn(msg string, args ...any) { h.Log(hclog.Warn, msg, args...) }

// Error logs at error.
func (h *hclogger) Error(msg string, args ...any) { h.Log(hclog.Error, msg, args...) }

// IsTrace reports whether trace records are kept.
func (h *hclogger) IsTrace() bool { return h.enabled(hclog.Trace) }

// IsDebug reports whether debug records are kept.
func (h *hclogger) IsDebug() bool { return h.enabled(hclog.Debug) }

// IsInfo reports whether info records are kept.
func (h *hclogger) IsInfo() bool { return h.enabled(hclog.Info) }

// IsWarn reports whether warnings are kept.
func (h *hclogger) IsWarn() bool { return h.enabled(hclog.Warn) }

// IsError reports whether errors are kept.
func (h *hclogger) IsError() bool { return h.enabled(hclog.Error) }

func (h *hclogger) enabled(level hclog.Level) bool {
	return h.log.Enabled(context.Background(), slogLevel(level))
}

// ImpliedArgs returns the pairs given to With.
func (h *hclogger) ImpliedArgs() []any { return h.args }

// With returns a logger that adds the pairs to every record.
func (h *hclogger) With(args ...any) hclog.Logger {
	return &hclogger{log: h.log.With(args...), name: h.name, args: append(h.args[:len(h.args):len(h.args)], args...)}
}

// Name returns the part's name.
func (h *hclogger) Name() string { return h.name }

// Named returns a logger of a part of this part.
func (h *hclogger) Named(name string) hclog.Logger { return h.ResetNamed(h.name + "." + name) }

// ResetNamed returns a logger with another name.
func (h *hclogger) ResetNamed(name string) hclog.Logger {
	return &hclogger{log: h.log, name: name, args: h.args}
}

// SetLevel does nothing: the slog handler decides.
func (h *hclogger) SetLevel(hclog.Level) {}

// GetLevel returns the lowest level that is kept.
func (h *hclogger) GetLevel() hclog.Level {
	for _, l := range []hclog.Level{hclog.Trace, hclog.Debug, hclog.Warn} {
		if h.enabled(l) {
			return l
		}
	}
	return hclog.Error
}

// StandardLogger returns a log.Logger that writes at debug.
func (h *hclogger) StandardLogger(opts *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(h.StandardWriter(opts), "", 0)
}

// StandardWriter returns a writer whose lines are logged at debug.
func (h *hclogger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return lineWriter{h} }

type lineWriter struct{ h *hclogger }

// Write logs p as one record.
func (w lineWriter) Write(p []byte) (int, error) {
	w.h.Debug("library message", "text", strings.TrimSpace(string(p)))
	return len(p), nil
}
