package logs

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/text"
)

// Bounds of lines on their way.
const (
	maxPending = 64 << 10 // bytes that wait to be taken; whoever reads the log waits then
	maxText    = 32 << 10 // bytes of lines that are taken at a time
	maxRefused = 1 << 10  // bytes of why nothing is handed out
)

// errOver is why a line is not added any more.
var errOver = errors.New("the log has ended")

// queue has the lines of one log that wait to be sent. It is safe for concurrent use, but one alone may take.
type queue struct {
	mu      sync.Mutex
	pending []*swarmv1.LogLine
	bytes   int
	over    bool   // nothing is added any more
	refused string // why nothing follows; denied: whoever asks may not have it
	denied  bool
	room    chan struct{} // closed and replaced when some of pending was taken
	news    chan struct{} // has a value when there is something to take
}

func newQueue() *queue { return &queue{room: make(chan struct{}), news: make(chan struct{}, 1)} }

// add adds a line; one that is too long in pieces. It blocks while too much waits.
func (q *queue) add(ctx context.Context, l Line) error {
	for rest := l.Data; len(rest) > 0; {
		n := min(len(rest), maxText/2)
		if err := q.put(ctx, &swarmv1.LogLine{Data: bytes.Clone(rest[:n])}); err != nil {
			return err
		}
		rest = rest[n:]
	}
	if len(l.Data) > 0 {
		return nil
	}
	for {
		piece, rest := l.Text, ""
		if len(piece) > text.MaxLine {
			piece, rest = piece[:text.MaxLine], piece[text.MaxLine:]
		}
		if err := q.put(ctx, &swarmv1.LogLine{From: strings.ToValidUTF8(l.From, "\uFFFD"), Text: strings.ToValidUTF8(piece, "\uFFFD")}); err != nil {
			return err
		}
		if l.Text = rest; rest == "" {
			return nil
		}
	}
}

func (q *queue) put(ctx context.Context, l *swarmv1.LogLine) error {
	for {
		q.mu.Lock()
		room := q.room
		switch {
		case q.over:
			q.mu.Unlock()
			return errOver
		case q.bytes < maxPending:
			q.pending = append(q.pending, l)
			q.bytes += lineSize(l)
			q.mu.Unlock()
			q.wake()
			return nil
		}
		q.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-room:
		}
	}
}

// lineSize is what a line takes of a chunk, and more.
func lineSize(l *swarmv1.LogLine) int {
	return len(l.GetFrom()) + len(l.GetText()) + len(l.GetData()) + 16
}

// end says that nothing follows: err is why not, for the operator to read; nil: there is no more. What is said first counts.
func (q *queue) end(err error, denied bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ends(err, denied)
}

// cut is end for whoever may have no more: of what waits nothing is sent either.
func (q *queue) cut(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending, q.bytes = nil, 0
	q.over = false // an end that waits behind lines was not said yet
	q.ends(err, true)
}

func (q *queue) ends(err error, denied bool) {
	if q.over {
		return
	}
	if q.over, q.denied = true, denied; err != nil {
		q.refused = text.Clip(text.Line(strings.ToValidUTF8(err.Error(), "\uFFFD")), maxRefused)
	}
	q.wake()
}

func (q *queue) wake() {
	select {
	case q.news <- struct{}{}:
	default:
	}
}

// take returns what is to be sent next; nil: nothing.
func (q *queue) take() *swarmv1.LogText {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size := 0, 0
	for ; n < len(q.pending) && (n == 0 || size+lineSize(q.pending[n]) <= maxText); n++ {
		size += lineSize(q.pending[n])
	}
	t := &swarmv1.LogText{Lines: slices.Clone(q.pending[:n])}
	q.pending, q.bytes = slices.Delete(q.pending, 0, n), q.bytes-size
	close(q.room)
	q.room = make(chan struct{})
	if q.over && len(q.pending) == 0 {
		t.Over, t.Refused, t.Denied = true, q.refused, q.denied
	}
	if n == 0 && !t.Over {
		return nil
	}
	return t
}
