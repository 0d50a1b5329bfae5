package client

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/text"
)

// SendLogs brings an SN what our node hands out of a log.
func (c *Client) SendLogs(ctx context.Context, req *swarmv1.SendLogsRequest) (*swarmv1.SendLogsResponse, error) {
	return call(ctx, c, callOptions{asNode: true}, swarmv1connect.LogServiceClient.SendLogs, req)
}

// Logs reads logs of nodes, which these hand out for this operator alone.
type Logs struct {
	By Operator
	// Node is asked, which has the role Role. An SN hands out its log only if it is the one that By asks.
	Node string
	Role identity.Role
}

// Reasons that are made here.
const (
	ReasonLogRefused = "LOG_REFUSED" // the host lets whoever asks have no log; the error has its words
	ReasonLogEnded   = "LOG_ENDED"   // the host has no such log, or no more of it; the same
	ReasonHostSilent = "HOST_SILENT" // nothing was heard of the host for long
)

// Read calls fn with the lines of a log, as they were printed, until there are no more, fn fails, or ctx ends, also while it follows what is
// printed. part has all but key and expiry. Only what the node itself has sealed for this request comes to fn.
func (l Logs) Read(ctx context.Context, part *swarmv1.LogPart, fn func([]*swarmv1.LogLine) error) error {
	c := l.By.Client
	if c.cfg.Source == nil {
		return errNoIdentity()
	}
	if err := c.ready(ctx); err != nil {
		return err
	}
	part.Node = l.Node
	r := &logs.Reader{Source: c.cfg.Source, Domains: c.cfg.Domains, Part: part, Role: l.Role}
	if err := r.Ask(c.PinnedSwarmID(), time.Now().Add(logs.Valid).UnixMilli()); err != nil {
		return err
	}
	defer l.done(ctx, r)
	for {
		res, err := l.ask(ctx, &swarmv1.ReadLogsRequest{Part: r.Part, Order: r.Order, Have: r.Have()})
		if err != nil {
			return err
		}
		all, err := r.Open(res.GetOpening(), res.GetChunks())
		for _, t := range all {
			if err := fn(t.GetLines()); err != nil {
				return err
			}
			if t.GetOver() {
				return endOfLog(t)
			}
		}
		if err != nil {
			return fmt.Errorf("log of %s: %w", l.Node, err)
		}
		if res.GetSilent() {
			return hostSilent(l.Node, nil)
		}
	}
}

// endOfLog is what the last words of a host come to.
func endOfLog(t *swarmv1.LogText) error {
	switch {
	case t.GetRefused() == "":
		return nil
	case t.GetDenied():
		return &Error{Reason: ReasonLogRefused, Message: text.Line(t.GetRefused()), Code: connect.CodePermissionDenied}
	}
	return &Error{Reason: ReasonLogEnded, Message: text.Line(t.GetRefused()), Code: connect.CodeNotFound}
}

// done lets the SN forget what was asked for, which it does by itself otherwise.
func (l Logs) done(ctx context.Context, r *logs.Reader) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, err := l.ask(ctx, &swarmv1.ReadLogsRequest{Part: r.Part, Order: r.Order, Have: r.Have(), Done: true})
	if err != nil {
		l.By.cfg.Log.DebugContext(ctx, "could not say that a log was read", "err", err)
	}
}

// ask asks the leader, or the SN whose own log it is.
func (l Logs) ask(ctx context.Context, req *swarmv1.ReadLogsRequest) (*swarmv1.ReadLogsResponse, error) {
	var m func(swarmv1connect.LogServiceClient, context.Context, *connect.Request[swarmv1.ReadLogsRequest]) (*connect.Response[swarmv1.ReadLogsResponse], error)
	if m = swarmv1connect.LogServiceClient.ReadLogs; l.Role == identity.RoleSN {
		m = swarmv1connect.LogServiceClient.ReadOwnLog
	}
	return call(ctx, l.By.Client, callOptions{}, m, req)
}
