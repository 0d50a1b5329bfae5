package logs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/pause"
)

// Bounds and times of one log that is handed out.
const (
	maxWindow = 8                      // chunks that the operator has not read
	perSend   = 2                      // chunks in a call
	lull      = 20 * time.Millisecond  // before the first call: a short log is whole by then
	gather    = 200 * time.Millisecond // between two calls while there is something to send
	calm      = time.Second            // between two calls while there is not
	callLimit = 5 * time.Second
	// lostLimit is for how long nobody may ask for the log, or no SN answer: the operator asks again each few seconds, and a new leader hears
	// of it by that.
	lostLimit = 15 * time.Second
	maxLife   = 24 * time.Hour
)

var (
	errUnread = errors.New("the operator reads no more")
	errLong   = fmt.Errorf("a log is followed for %d hours at most: ask again", maxLife/time.Hour)
)

// outbox seals lines and sends them, until all was read.
type outbox struct {
	*queue

	send   Send
	id     []byte
	sealer *sealer

	window []*swarmv1.LogChunk // that the operator has not read, oldest first
	last   uint64              // number of the chunk that ends the log; 0: it was not sealed yet
	kept   uint64              // number of the last chunk that the SN keeps
	brief  bool                // it is enough that an SN keeps all: whoever has lost it asks again
}

func newOutbox(send Send, id []byte, s *sealer) *outbox {
	return &outbox{queue: newQueue(), send: send, id: id, sealer: s}
}

// run sends until the operator has read all, or nobody asks for it any more. Only run has the window.
func (o *outbox) run(ctx context.Context) error {
	heard := time.Now()
	if err := pause.For(ctx, lull); err != nil {
		return err
	}
	for {
		if err := o.fill(); err != nil {
			return err
		}
		switch res, err := o.call(ctx); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && !res.GetUnknown():
			heard = time.Now()
			o.arrived(res)
		case time.Since(heard) >= lostLimit && err != nil:
			return err
		case time.Since(heard) >= lostLimit:
			return errUnread
		}
		if o.last > 0 && (len(o.window) == 0 || o.brief && o.kept >= o.last) {
			return nil
		}
		if err := o.rest(ctx); err != nil {
			return err
		}
	}
}

// fill seals what there is room for.
func (o *outbox) fill() error {
	for o.last == 0 && len(o.window) < maxWindow {
		t := o.take()
		if t == nil {
			return nil
		}
		c, err := o.sealer.seal(t)
		if err != nil {
			return err
		}
		o.window = append(o.window, c)
		if t.GetOver() {
			o.last = c.GetNumber()
		}
	}
	return nil
}

// call sends what the SN does not keep yet.
func (o *outbox) call(ctx context.Context) (*swarmv1.SendLogsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	req := &swarmv1.SendLogsRequest{Id: o.id, Opening: o.sealer.opening}
	for _, c := range o.window {
		if c.GetNumber() > o.kept && len(req.GetChunks()) < perSend {
			req.Chunks = append(req.Chunks, c)
		}
	}
	return o.send(ctx, req)
}

// arrived takes what an SN says: nothing more than was sealed has arrived.
func (o *outbox) arrived(res *swarmv1.SendLogsResponse) {
	have := min(res.GetHave(), o.sealer.number)
	o.kept = min(max(res.GetKept(), have), o.sealer.number)
	o.window = slices.DeleteFunc(o.window, func(c *swarmv1.LogChunk) bool { return c.GetNumber() <= have })
}

// rest waits for the next call.
func (o *outbox) rest(ctx context.Context) error {
	if err := pause.For(ctx, gather); err != nil {
		return err
	}
	if len(o.window) > 0 && o.window[len(o.window)-1].GetNumber() > o.kept {
		return nil
	}
	still := time.NewTimer(calm - gather)
	defer still.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-still.C:
	case <-o.news:
	}
	return nil
}
