package client

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
)

const strayRemedy = "check the SNs' addresses; stop an SN that lost its state and founded a swarm of its own; to join another swarm forget the pinned swarm ID (state directory or context)"

// maxStrays bounds the SNs of other swarms that are remembered, so that each is told once.
const maxStrays = 64

// strays is what a client knows of SNs of other swarms; its mu guards it.
type strays struct {
	since time.Time       // when one of them answered first, and no SN of ours has since; zero: one of ours has
	known map[string]bool // by address and swarm
}

// astray are the SNs that one call has asked since one of our swarm answered, each with what came of it.
type astray struct {
	by    map[string]*failure
	wrong bool // one of them is of another swarm
}

// onCourse notes that an SN of our swarm has answered.
func (c *Client) onCourse() {
	c.mu.Lock()
	c.strays.since = time.Time{}
	c.mu.Unlock()
}

// note keeps what came of asking an SN, and returns what there is to say of it: while an SN of another swarm is among those that
// were asked, that no SN of ours answers. That one of ours can't be reached says nothing against waiting for it.
func (c *Client) note(a *astray, sn string, f *failure) *failure {
	if f.Reason != ReasonWrongSwarm && f.Reason != ReasonUnreachable {
		*a = astray{}
		c.onCourse()
		return f
	}
	if a.by == nil {
		a.by = map[string]*failure{}
	}
	a.by[sn] = f
	if f.Reason == ReasonWrongSwarm {
		a.wrong = true
		c.stray(sn, f.swarm)
	}
	if !a.wrong {
		return f
	}
	out := *f
	out.Error = &Error{Reason: ReasonUnreachable, Code: connect.CodeUnavailable, Message: c.noneOfOurs(a), Remedy: strayRemedy, err: f.Error}
	return &out
}

// stray notes that an SN is of another swarm.
func (c *Client) stray(sn, swarm string) {
	c.mu.Lock()
	if c.strays.since.IsZero() {
		c.strays.since = time.Now()
	}
	swarm = swarm[:min(len(swarm), 64)]
	is := sn + " " + swarm
	heard := c.strays.known[is] || len(c.strays.known) >= maxStrays
	if !heard {
		if c.strays.known == nil {
			c.strays.known = map[string]bool{}
		}
		c.strays.known[is] = true
	}
	c.mu.Unlock()
	if !heard && c.cfg.OnStray != nil {
		c.cfg.OnStray(sn, swarm)
	}
}

// lost is the error of a call that has asked all SNs, and found those of other swarms alone, for as long as the client waits for
// ours; else nil.
func (c *Client) lost(a *astray) error {
	if !a.wrong {
		return nil
	}
	c.mu.Lock()
	all, since := true, c.strays.since
	for _, sn := range c.sns {
		all = all && a.by[sn] != nil
	}
	c.mu.Unlock()
	if !all || since.IsZero() || time.Since(since) < c.cfg.StrayWait {
		return nil
	}
	return &Error{
		Reason: ReasonWrongSwarm, Code: connect.CodePermissionDenied, Message: c.noneOfOurs(a), Remedy: strayRemedy, err: errors.New("wrong swarm"),
	}
}

// noneOfOurs says which SNs are of which swarm, and which can't be reached.
func (c *Client) noneOfOurs(a *astray) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var of, away []string
	for _, sn := range c.sns {
		switch f := a.by[sn]; {
		case f == nil:
		case f.Reason == ReasonWrongSwarm:
			of = append(of, differs(c.pin, sn, f.swarm))
		default:
			away = append(away, f.Message)
		}
	}
	return fmt.Sprintf("no SN of %s answers: %s", named(c.pin), strings.Join(append(of, away...), "; "))
}
