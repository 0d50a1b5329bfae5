package peering

import (
	"context"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/admission"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/health"
	"github.com/swarmd/swarmd/internal/probe"
	"github.com/swarmd/swarmd/internal/reach/pairs"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/round/onwire"
	"github.com/swarmd/swarmd/internal/session"
)

// Control gives the session engine the swarm's API.
type Control struct {
	Client *client.Client
	Health *health.Monitor           // goes along with heartbeats; nil: nothing does
	Bans   *admission.Bans           // kept up to date by heartbeats; nil: nobody asks
	Ways   *Ways                     // whom the node can't reach, which goes along with its health; nil: nothing does
	Probes *probe.Agent              // probes when heartbeats are answered so; nil: nobody does
	Logs   func([]*swarmv1.LogOrder) // hears which logs operators ask for; nil: nobody does
	Back   *DialledBack              // hears what came of an SN's dial to this node; nil: nobody does
	Part   *Part                     // hears whether what the node was started for is wanted; nil: it was started for nothing
}

var (
	_ session.Control   = Control{}
	_ session.Explainer = Control{}
)

// Open implements session.Control.
func (c Control) Open(ctx context.Context, o *round.Open) (*round.View, error) {
	v, err := c.Client.OpenSession(ctx, onwire.Open(o))
	return onwire.View(v), reason(err)
}

// Close implements session.Control.
func (c Control) Close(ctx context.Context, what round.Close) (*round.View, error) {
	v, err := c.Client.CloseSession(ctx, onwire.Close(what))
	return onwire.View(v), reason(err)
}

// End implements session.Control.
func (c Control) End(ctx context.Context, what round.End) error {
	return reason(c.Client.EndSession(ctx, onwire.End(what)))
}

// Report implements session.Control.
func (c Control) Report(ctx context.Context, r *round.Report) (round.Answer, error) {
	req := &swarmv1.ReportRequest{WarningsSeen: r.WarningsSeen, DialBackSeenUnixMs: c.Back.seen()}
	if r.Session != "" {
		req.Sessions = append(req.Sessions, onwire.Report(r))
	}
	if c.Health != nil {
		req.Health = c.Health.Report().Proto()
		req.Health.Links = c.links()
	}
	if c.Bans != nil {
		req.BansSeen = c.Bans.Seen()
	}
	if c.Probes != nil {
		req.Probe = c.Probes.Report()
	}
	req.Part = c.Part.String()
	sent := time.Now()
	res, err := c.Client.Report(ctx, req)
	if err != nil {
		return round.Answer{}, err
	}
	c.Part.heard(sent, res.GetPartWanted())
	if c.Health != nil {
		c.Health.Seen()
	}
	// Now, as a leader has just answered: others hold this node to what an SVID has signed that is good now.
	if err := c.Client.Renew(ctx); err != nil && ctx.Err() == nil {
		return round.Answer{}, err
	}
	if c.Bans != nil {
		c.Bans.Take(res.GetBansDigest(), res.GetBannedPeerIds())
	}
	if c.Probes != nil {
		c.Probes.Take(res.GetProbe())
	}
	if c.Logs != nil {
		c.Logs(res.GetLogs())
	}
	c.Back.take(res.GetDialBack())
	return onwire.Answer(res), nil
}

// links are this node's connections that are not well, and the SNs that it could not reach lately; nil: nothing is known of them.
func (c Control) links() *swarmv1.NodeLinks {
	if c.Ways == nil {
		return nil
	}
	out, now := c.Ways.Report(), time.Now()
	for _, sn := range c.Client.Unreached() {
		out.Links = append(out.Links, pairs.Failed(sn.Name, false, sn.Failure, now))
	}
	return pairs.Bound(out)
}

// Watch implements session.Control.
func (c Control) Watch(ctx context.Context, contract string, fn func(*round.View)) error {
	return reason(c.Client.WatchContract(ctx, contract, func(v *swarmv1.ContractView) error {
		fn(onwire.View(v))
		return nil
	}))
}

// Compare is session.Config.Compare.
func (c Control) Compare(ctx context.Context, contract string, same func(*round.View) bool, tie bool) string {
	return c.Client.Compare(ctx, contract, func(v *swarmv1.ContractView) bool { return same(onwire.View(v)) }, tie)
}

// Waiting implements session.Explainer.
func (c Control) Waiting(ctx context.Context, contract string) (string, error) {
	if lost := c.Client.NoQuorum(); lost != "" {
		return lost, nil
	}
	st, err := c.Client.GetContractStatus(ctx, contract)
	if err != nil {
		return "", err
	}
	return st.Waiting, nil
}

// reason carries an API error's reason and remedy on to the program.
func reason(err error) error {
	if err == nil || client.Reason(err) == "" {
		return err
	}
	return &session.Error{Code: client.Reason(err), Message: err.Error(), Help: client.Remedy(err)}
}

// Merging says that a merge is under way, empty if none is.
func Merging(view *round.View) string {
	if view == nil || view.Plan == nil {
		return ""
	}
	return "a merge is under way"
}
