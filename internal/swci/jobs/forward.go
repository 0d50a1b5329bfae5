package jobs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/swarmd/swarmd/internal/forward"
)

// maxForwarded bounds the connections that are forwarded at a time: the host has no more for one operator.
const maxForwarded = 64

// Forward hands connections to a port of this machine on to a member.
type Forward struct {
	// Connect opens a connection to the member.
	Connect func(ctx context.Context) (forward.Half, error)
	Say     func(string) // says a thing for people
}

// Serve hands on until ctx ends, which is no error, or the member has ended. It closes l.
func (f Forward) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	places := make(chan struct{}, maxForwarded)
	said := &once{say: f.Say}
	for {
		select {
		case places <- struct{}{}: // whoever comes now waits in the listener's queue
		case <-ctx.Done():
			return whyEnded(ctx)
		}
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return whyEnded(ctx)
			}
			return fmt.Errorf("listen at %s: %w", l.Addr(), err)
		}
		all.Go(func() {
			defer func() { <-places }()
			err := f.one(ctx, c)
			if over, is := errors.AsType[*forward.RefusedError](err); is && over.Over {
				cancel(err)
			} else if err != nil {
				said.tell(err.Error())
			}
		})
	}
}

// whyEnded is why nothing is handed on any more; nil: whoever began it has had enough.
func whyEnded(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// one hands one connection on.
func (f Forward) one(ctx context.Context, c net.Conn) error {
	near, is := c.(forward.Half)
	if !is {
		_ = c.Close()
		return fmt.Errorf("%T is no connection whose directions end one by one", c)
	}
	far, err := f.Connect(ctx)
	if err != nil {
		_ = c.Close()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // whoever began it has had enough
		}
		return err
	}
	forward.Splice(ctx, near, far)
	return nil
}

// once says each thing once: a browser tries again and again.
type once struct {
	say func(string)

	mu   sync.Mutex
	last string
}

func (o *once) tell(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if what != o.last {
		o.last = what
		o.say(what)
	}
}
