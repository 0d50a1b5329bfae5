package session

import (
	"log/slog"
	"time"
)

// steady is for how long heartbeats must be taken before it is said that they are taken again. A machine with too few processors for
// its nodes loses one now and then, for hours.
const steady = 30 * time.Second

// heartbeatLog says in the log when heartbeats begin to fail, and when none has failed for a while. It is for one goroutine.
type heartbeatLog struct {
	log    *slog.Logger
	failed int // in a row that steady does not part
	last   time.Time
}

// note takes what became of a heartbeat.
func (l *heartbeatLog) note(err error) {
	switch {
	case err != nil:
		l.last = time.Now()
		if l.failed++; l.failed == 1 {
			l.log.Warn("heartbeat was not taken; trying again", "err", err)
		}
	case l.failed > 0 && time.Since(l.last) >= steady:
		l.log.Info("heartbeats are taken again", "failed", l.failed)
		l.failed = 0
	}
}
