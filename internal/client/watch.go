package client

import (
	"context"
	"errors"
	"io"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/internal/delta"
	"github.com/swarmd/swarmd/internal/epoch"
)

const (
	// An SN sends an unchanged view every 15 s: after this much silence the stream is taken as dead.
	watchSilence = 40 * time.Second
	// An SN that shows nothing newer than what another one has shown for so long lags: another may be better.
	watchLag = 30 * time.Second
	// After so many SNs in a row have lagged behind a view that none of them confirms, it is taken for a lie and forgotten.
	maxLags = 2
	// After so many updates that did not fit, views are asked for as they are: the SN and this client do not understand each other.
	maxMisfits = 2
)

// WatchContract calls fn with the contract's view, first the current one and then each newer one, until ctx ends, the
// contract is refused, or fn returns an error, which is returned as it is. It changes SNs by itself, also when other
// calls of this client do. A view that is older than one seen before is dropped, so that fn does not see the contract go back,
// unless SNs lag behind that one for long and none confirms it: what one SN says must not make this node deaf to all others.
// Views share memory, so fn must not modify them. fn runs on the caller's goroutine; views are skipped, not queued, while it runs long.
func (c *Client) WatchContract(ctx context.Context, contract string, fn func(*swarmv1.ContractView) error) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	w := &watch{client: c, contract: contract, fn: fn}
	for {
		err := c.try(ctx, callOptions{asNode: true}, w.stream)
		if w.err != nil {
			return w.err
		}
		if err != nil {
			return err
		}
	}
}

type watch struct {
	client   *Client
	contract string
	fn       func(*swarmv1.ContractView) error
	seen     *swarmv1.ContractView
	by       string    // the SN that showed it first
	of       epoch.Pin // in which epoch
	lags     int       // how often an SN has lagged behind it since another one than that confirmed it
	misfits  int       // how many updates did not fit the view before them
	err      error     // what fn returned: ends everything
}

var (
	errSilent = errors.New("nothing heard from it")
	errLags   = errors.New("it lags behind the swarm")
)

// stream follows one SN. It returns nil when the stream is to be opened anew, at once, on the client's SN of then.
func (w *watch) stream(ctx context.Context, sn string) error {
	used, err := w.client.connections.fresh()
	if err != nil {
		return err
	}
	s := used.stubs(sn)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	current, moved := w.client.dir.where()
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

	stream, err := w.open(ctx, s)
	if err != nil {
		return whyEnded(ctx, err)
	}
	var views delta.Decoder
	defer func() { _ = stream.Close() }() // its error was returned by Err
	fresh := time.Now()
	for stream.Receive() {
		silence.Reset(watchSilence)
		if err := w.client.checkSwarm(sn, stream.ResponseHeader()); err != nil {
			return err
		}
		w.client.waits.tell("")
		v, err := views.View(stream.Msg())
		if err != nil {
			return w.misfit(sn, err)
		}
		heard, err := w.take(sn, v, time.Since(fresh))
		if err != nil || w.err != nil {
			return err
		}
		if heard {
			fresh = time.Now()
		}
	}
	if err := stream.Err(); err != nil && w.client.connections.outlived(used, sn, err) {
		return nil
	}
	return whyEnded(ctx, stream.Err())
}

// misfit has the whole view asked for, of the same SN at first.
func (w *watch) misfit(sn string, err error) error {
	w.misfits++
	w.client.cfg.Log.Warn("an SN sent a view that could not be rebuilt: the whole view is asked for", "sn", sn, "contract", w.contract, "err", err)
	if w.misfits <= maxMisfits {
		return nil
	}
	return err
}

// open begins a stream: of packed views, unless those did not fit repeatedly.
func (w *watch) open(ctx context.Context, s *stubs) (*connect.ServerStreamForClient[swarmv1.ContractView], error) {
	via, packed := s.watch, w.misfits < maxMisfits
	if !packed {
		via = service[swarmv1connect.SessionServiceClient](s, false)
	}
	req := connect.NewRequest(&swarmv1.WatchContractRequest{Contract: w.contract, Packed: packed})
	w.client.setHeaders(req.Header(), callOptions{asNode: true})
	return via.WatchContract(ctx, req)
}

// take judges a view of an SN that has shown nothing as new for so long, and hands on what is newer. It reports whether the SN keeps up;
// an error says that it does not and another is to be asked. What fn returned is in w.err.
func (w *watch) take(sn string, v *swarmv1.ContractView, lagging time.Duration) (bool, error) {
	pin := w.client.dir.pinned()
	if w.by != sn && w.client.dir.doubts(w.by) || pin != w.of { // what an SN that was recovered has not heard of is not to be waited for
		w.seen, w.by = nil, ""
	}
	switch order := newer(v, w.seen); {
	case order < 0 && lagging <= watchLag:
		return false, nil
	case order < 0:
		if w.lags++; w.lags < maxLags {
			return false, errLags
		}
	case order == 0:
		if w.by != sn {
			w.lags = 0
		}
		return true, nil
	}
	w.seen, w.by, w.of, w.lags = v, sn, pin, 0
	w.err = w.fn(v)
	return true, nil
}

var errMoved = errors.New("another SN is in use")

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

// newer compares a view with the newest one seen: 1 newer, 0 the same, -1 older. The raft index is the swarm's, so it
// compares across SNs; what was committed is compared too, so that nothing a program has seen is ever taken back.
func newer(got, seen *swarmv1.ContractView) int {
	if seen == nil {
		return 1
	}
	for _, p := range [][2]uint64{
		{got.GetRun(), seen.GetRun()},
		{got.GetCommitted().GetRound(), seen.GetCommitted().GetRound()},
	} {
		if p[0] != p[1] {
			return order(p[0], p[1])
		}
	}
	g, s := got.GetPlan(), seen.GetPlan()
	if g != nil && s != nil && g.GetAttempt() < s.GetAttempt() {
		return -1
	}
	return order(got.GetIndex(), seen.GetIndex())
}

func order(a, b uint64) int {
	switch {
	case a > b:
		return 1
	case a < b:
		return -1
	default:
		return 0
	}
}
