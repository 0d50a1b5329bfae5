package session

import (
	"errors"
	"log/slog"
	"time"
)

// judging is how long a fetch may wait quietly for the registrations of those who may hold the model: a join asks an SN for them, and
// one that does not answer is left after learnLimit.
const judging = 2 * learnLimit

// errUnjudged is wrapped when nobody could be asked for the model, only because the registrations of those who may hold it have not been
// checked yet.
var errUnjudged = errors.New("nobody to fetch it from yet")

// fetchLog says in the log why the committed model could not be fetched, each reason once. That registrations have not been checked yet is
// an ordinary moment of a join: it is said when it lasts.
type fetchLog struct {
	said     string    // the reason that was said last
	unjudged time.Time // since when there is nobody whose registration has been checked; zero: there is
}

// note takes why a fetch failed.
func (l *fetchLog) note(log *slog.Logger, err error) {
	if !errors.Is(err, errUnjudged) {
		l.unjudged = time.Time{}
	} else if l.unjudged.IsZero() {
		l.unjudged = time.Now()
	}
	switch {
	case !l.unjudged.IsZero() && time.Since(l.unjudged) < judging:
		log.Debug("fetches the committed model when a holder's registration has been checked", "err", err)
	case l.said != err.Error():
		log.Warn("could not fetch the committed model; trying again", "err", err)
		l.said = err.Error()
	}
}
