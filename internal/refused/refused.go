// Package refused makes warnings of TLS handshakes that an HTTP server refused.
package refused

import (
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	// Anybody can cause refusals, and who is refused tries again: each reason is said once in so long, so many at most.
	refusedEvery = time.Minute
	refusedMost  = 20
	// maxRefused bounds what is logged of one reason, in bytes: a part of it is what the peer sent.
	maxRefused = 1000

	handshakeError = "http: TLS handshake error from "
)

// Log is the log of Go's HTTP server. It makes a warning of a handshake that was refused, since nothing but this log
// can say why: TLS tells the other side no more than "bad certificate". The rest is for debugging.
type Log struct {
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex
	since time.Time
	said  map[string]bool
}

// NewLog returns a log that writes to log; now is its clock.
func NewLog(log *slog.Logger, now func() time.Time) *Log { return &Log{log: log, now: now} }

// Write takes one line of the server's log.
func (l *Log) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	rest, handshake := strings.CutPrefix(text, handshakeError)
	remote, why, found := strings.Cut(rest, ": ")
	switch {
	case handshake && found && !vanished(why) && l.first(why):
		l.log.Warn("API connection refused", "remote", remote, "error", why[:min(len(why), maxRefused)])
	default:
		l.log.Debug("HTTP server", "text", text)
	}
	return len(line), nil
}

// vanished tells of a peer that went away before it had shown anything: a scan, a health check of a load balancer.
func vanished(why string) bool {
	return why == "EOF" || strings.Contains(why, "connection reset") || strings.Contains(why, "i/o timeout") || strings.Contains(why, "use of closed")
}

// first reports whether a reason is to be said.
func (l *Log) first(why string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); l.said == nil || now.Sub(l.since) >= refusedEvery {
		l.since, l.said = now, map[string]bool{}
	}
	if l.said[why] || len(l.said) >= refusedMost {
		return false
	}
	l.said[why] = true
	return true
}
