package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/swarmd/swarmd/internal/epoch"
	"github.com/swarmd/swarmd/internal/pause"
)

const (
	// attemptTimeout bounds one attempt of a unary call; SNs answer with a reason before that.
	attemptTimeout = 10 * time.Second
	// heartbeatTimeout bounds one attempt of a heartbeat: the next SN must have it before the node is taken for dead, which is
	// five seconds after the last one, while a connection that has gone silent is found out in nine.
	heartbeatTimeout = 2 * time.Second
	firstDelay       = 200 * time.Millisecond
	maxDelay         = 3 * time.Second
)

// Headers of the API, as internal/rpc names them; a test holds them equal.
const (
	headerSwarmID = "Swarm-Id"
	headerNode    = "Swarm-Node"
	headerToken   = "Swarm-Token"
)

// callOptions say how a call is made.
type callOptions struct {
	asNode    bool          // for our node: name and token go along
	anySwarm  bool          // needs no swarm ID
	signed    bool          // carries an order: with a nonce that is refused it must be signed anew
	once      bool          // not idempotent: never repeated once it may have been sent
	heartbeat bool          // a heartbeat, which has a connection of its own, and whose sender says when it comes late
	timeout   time.Duration // bounds one attempt; 0: attemptTimeout
}

// call makes a unary call on the SN in use, and elsewhere if that fails. m is the method of a service's client, as
// swarmv1connect.NodeServiceClient.ListNodes.
func call[S, Req, Res any](
	ctx context.Context, c *Client, opts callOptions, m func(S, context.Context, *connect.Request[Req]) (*connect.Response[Res], error), req *Req,
) (*Res, error) {
	if c.cfg.CallWait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.CallWait)
		defer cancel()
	}
	if !opts.anySwarm {
		if err := c.ready(ctx); err != nil {
			return nil, err
		}
	}
	var out *Res
	err := c.try(ctx, opts, func(ctx context.Context, sn string) (err error) {
		ctx, cancel := context.WithTimeout(ctx, cmp.Or(opts.timeout, attemptTimeout))
		defer cancel()
		out, err = callAt(ctx, c, sn, opts, m, req)
		return err
	})
	return out, err
}

// callAt is one attempt on one SN.
func callAt[S, Req, Res any](
	ctx context.Context, c *Client, sn string, opts callOptions, m func(S, context.Context, *connect.Request[Req]) (*connect.Response[Res], error), req *Req,
) (*Res, error) {
	s, err := c.connections.stubs(sn)
	if err != nil {
		return nil, err
	}
	r := connect.NewRequest(req)
	c.setHeaders(r.Header(), opts)
	res, err := m(service[S](s, opts.heartbeat), ctx, r)
	if err != nil {
		return nil, err
	}
	if err := c.checkSwarm(sn, res.Header()); err != nil {
		return nil, err
	}
	return res.Msg, nil
}

// ready makes sure that the swarm ID is pinned, and asks for the list of SNs after a move. Only the first is needed.
func (c *Client) ready(ctx context.Context) error {
	pinned, refresh := c.dir.wants()
	if pinned && !refresh {
		return nil
	}
	if !pinned {
		_, err := c.GetSwarm(ctx)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if _, err := c.GetSwarm(ctx); err != nil {
		c.cfg.Log.DebugContext(ctx, "could not refresh the list of SNs", "err", err)
	}
	return nil
}

// try runs attempts until one succeeds, the context ends, or a failure is final.
func (c *Client) try(ctx context.Context, opts callOptions, attempt func(ctx context.Context, sn string) error) error {
	var last *failure
	var stray astray
	var said verdict
	registered := false
	delay := firstDelay
	for n := 1; ; n++ {
		if ctx.Err() != nil {
			return waited(ctx, last)
		}
		sn, _ := c.dir.where()
		used := c.registrar.currentToken()
		err := attempt(ctx, sn)
		if err == nil {
			c.strays.onCourse()
			c.waits.tell("")
			return nil
		}
		f := sortOut(sn, err)
		if ctx.Err() != nil && f.Reason == ReasonUnreachable {
			if last == nil && !errors.Is(ctx.Err(), context.Canceled) {
				last = f
			}
			return waited(ctx, last)
		}
		if f.Reason == ReasonWrongSwarm && c.epochs.follow(ctx, sn, f.swarm) {
			continue
		}
		last = said.note(c.strays.note(&stray, sn, f))
		c.cfg.Log.DebugContext(ctx, "API call failed", "sn", sn, "reason", f.Reason, "err", f)
		if (f.Reason == ReasonTokenRefused || f.Reason == ReasonNodeLeft) && opts.asNode && !registered && c.registrar.canRegister() {
			if err := c.registrar.again(ctx, used); err != nil {
				return fmt.Errorf("register again: %w", err)
			}
			registered = true
			continue
		}
		if f.Reason == ReasonTooFast { // nothing was done, and another SN need not hear of it
			c.tell(opts, f)
			if pause.For(ctx, jitter(delay)) != nil {
				return waited(ctx, last)
			}
			delay = min(2*delay, maxDelay)
			continue
		}
		if !f.elsewhere || opts.signed && f.Reason == ReasonNonceRefused || opts.once && f.sent && f.Reason != ReasonNoLeader && f.Reason != ReasonNoQuorum && f.Reason != ReasonWrongSwarm {
			return f.Error
		}
		known := c.dir.moveFrom(sn)
		if err := c.strays.lost(&stray); err != nil {
			return err
		}
		if n%known == 0 {
			if err := c.verdict.lost(&said, c.cfg.GiveUp); err != nil {
				return err
			}
			said = verdict{}
			if last.Reason != ReasonNoQuorum || c.cfg.OnQuorum == nil {
				c.tell(opts, last)
			}
			if pause.For(ctx, jitter(delay)) != nil {
				return waited(ctx, last)
			}
			delay = min(2*delay, maxDelay)
		}
	}
}

// tell says why a call is tried again.
func (c *Client) tell(opts callOptions, f *failure) {
	if opts.heartbeat && f.Reason == ReasonUnreachable && errors.Is(f.Error, context.DeadlineExceeded) {
		return
	}
	c.waits.tell(f.Message + "; trying again")
}

// setHeaders puts on what every call carries.
func (c *Client) setHeaders(h http.Header, opts callOptions) {
	if pin := c.dir.pinned(); pin.SwarmID != "" {
		h.Set(headerSwarmID, pin.String())
	}
	if opts.asNode {
		c.registrar.setHeaders(h)
	}
}

// checkSwarm refuses an answer from an SN of another swarm.
func (c *Client) checkSwarm(sn string, h http.Header) error {
	got, want := h.Get(headerSwarmID), c.dir.pinned()
	if want.SwarmID == "" || got == want.String() {
		return nil
	}
	message := differs(want, sn, got)
	if want.Compare(got) == epoch.Other {
		message += fmt.Sprintf(", expected %q", want.SwarmID)
	}
	return &Error{
		Reason: ReasonWrongSwarm, Code: connect.CodePermissionDenied, err: errors.New("wrong swarm"), swarm: got,
		Message: message, Remedy: strayRemedy,
	}
}

// jitter spreads clients that lost the same SN over half to the whole of d.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1) //nolint:gosec // no secret
}
