package session

import (
	"log/slog"
	"time"
)

// steady is for how long heartbeats must be taken before it is said that they are taken again. A machine with too few processors for
// its nodes loses one now and then, for hours.
const steady = 30 * time.Second

// beats says in the log when heartbeats begin to fail, and when none has failed for a while. It is for one goroutine.
type beats struct {
	log    *slog.Logger
	failed int // in a row that steady does not part
	last   time.Time
}

// note takes what became of a heartbeat.
func (b *beats) note(err error) {
	switch {
	case err != nil:
		b.last = time.Now()
		if b.failed++; b.failed == 1 {
			b.log.Warn("heartbeat was not taken; trying again", "err", err)
		}
	case b.failed > 0 && time.Since(b.last) >= steady:
		b.log.Info("heartbeats are taken again", "failed", b.failed)
		b.failed = 0
	}
}
