package client

import (
	"context"
	"errors"
	"io"
	"time"

	"connectrpc.com/connect"

	"github.com/swarmd/swarmd/internal/epoch"
)

const (
	// An SN sends what has not changed every 15 s: after this much silence the stream is taken as dead.
	watchSilence = 40 * time.Second
	// An SN that shows nothing newer than what another one has shown for so long lags: another may be better.
	watchLag = 30 * time.Second
	// After so many SNs in a row have lagged behind something that none of them confirms, it is taken for a lie and forgotten.
	maxLags = 2
)

var (
	errSilent = errors.New("nothing heard from it")
	errLags   = errors.New("it lags behind the swarm")
	errMoved  = errors.New("another SN is in use")
	// errAnew ends a stream that is to be opened anew at once, or was ended by who follows it.
	errAnew = errors.New("the stream is opened anew")
)

// followStream follows a stream of one SN, until it ends or take returns an error. take gets how long the SN has shown nothing new, and reports
// whether it did now. followStream returns nil when the stream is to be opened anew, at once, on the client's SN of then.
func followStream[T any](
	ctx context.Context, c *Client, sn string, open func(context.Context, *stubs) (*connect.ServerStreamForClient[T], error),
	take func(sn string, m *T, lagging time.Duration) (heard bool, err error),
) error {
	used, err := c.connections.fresh()
	if err != nil {
		return err
	}
	s := used.stubs(sn)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	current, moved := c.dir.where()
	if current != sn {
		return nil
	}
	silence := time.AfterFunc(watchSilence, func() { cancel(errSilent) })
	defer silence.Stop()
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-moved:
			cancel(errMoved)
		case <-done:
		}
	}()
	defer func() { close(done); <-stopped }()

	stream, err := open(ctx, s)
	if err != nil {
		return whyEnded(ctx, err)
	}
	defer func() { _ = stream.Close() }() // its error was returned by Err
	fresh := time.Now()
	for stream.Receive() {
		silence.Reset(watchSilence)
		if err := c.checkSwarm(sn, stream.ResponseHeader()); err != nil {
			return err
		}
		c.waits.tell("")
		heard, err := take(sn, stream.Msg(), time.Since(fresh))
		if errors.Is(err, errAnew) {
			return nil
		}
		if err != nil {
			return err
		}
		if heard {
			fresh = time.Now()
		}
	}
	if err := stream.Err(); err != nil && c.connections.outlived(used, sn, err) {
		return nil
	}
	return whyEnded(ctx, stream.Err())
}

// whyEnded prefers our own reason to the "canceled" that the stream reports for it.
func whyEnded(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errMoved):
		return nil
	case errors.Is(cause, errSilent):
		return errSilent
	case err == nil:
		return connect.NewError(connect.CodeUnavailable, io.EOF) // a server that stops ends its streams
	default:
		return err
	}
}

// newest judges how new what SNs show is, so that who follows them does not see the swarm go back, and what one SN says does not make it
// deaf to all others.
type newest struct {
	client *Client
	by     string    // the SN that showed the newest first; empty: none did
	of     epoch.Pin // in which epoch
	lags   int       // how often an SN has lagged behind it since another one than that confirmed it
}

// judge judges what an SN shows that has shown nothing as new for so long. compare compares it with the newest: 1 newer, 0 the same, -1
// older. News is the newest from then on. heard says that the SN keeps up; an error that it does not, and another is to be asked.
func (n *newest) judge(sn string, compare func() int, lagging time.Duration) (news, heard bool, err error) {
	pin := n.client.dir.pinned()
	if n.by != sn && n.client.dir.doubts(n.by) || pin != n.of { // what an SN that was recovered has not heard of is not to be waited for
		n.by = ""
	}
	order := 1
	if n.by != "" {
		order = compare()
	}
	switch {
	case order < 0 && lagging <= watchLag:
		return false, false, nil
	case order < 0:
		if n.lags++; n.lags < maxLags {
			return false, false, errLags
		}
	case order == 0:
		if n.by != sn {
			n.lags = 0
		}
		return false, true, nil
	}
	n.by, n.of, n.lags = sn, pin, 0
	return true, true, nil
}
