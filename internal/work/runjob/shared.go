package runjob

import (
	"context"
	"errors"
	"fmt"

	"github.com/docker/docker/api/types/network"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/jobnet"
	"github.com/swarmd/swarmd/internal/work/localimage"
)

// shared reports whether a network is one that hosts share, which their owners have made.
func shared(network string) bool { return network != jobfile.Private && network != jobfile.Host }

// AddressOf is the address that is held for a member that was prepared; empty: its network is none that hosts share, and it has its container by now. Where
// there is neither somebody has removed what held it.
func AddressOf(ctx context.Context, c *Containers, l work.Label) (string, error) {
	e, err := c.Open(ctx)
	if err != nil {
		return "", work.OfEngine(err)
	}
	defer e.Close()
	found, holders, err := both(ctx, c, e)
	if err != nil {
		return "", work.OfEngine(err)
	}
	x, is := holders[l]
	if _, made := found[l]; !is && made {
		return "", nil
	}
	if !is {
		return "", &work.Passing{Words: "what held the address of this member is gone from its host: see who removes containers there", Err: errGone}
	}
	a, err := addressIn(x)
	if err == nil && !a.IsGlobalUnicast() { // no SN takes it
		err = fmt.Errorf("its network gives it the address %s, by which no member on another host reaches it: have the network's owner make one with another --subnet", a)
	}
	return a.String(), err
}

// settle makes the container of a member whose address is held, as all addresses are known by now, and gives the address free for it. Of other
// members there is nothing to do. It returns the network if it has looked at it, and takes it of one who did before.
func settle(ctx context.Context, c *Containers, j work.Job, n network.Inspect) (network.Inspect, error) {
	job, w, err := jobOf(j)
	if err != nil || !shared(job.Network) {
		return n, err
	}
	e, err := c.Open(ctx)
	if err != nil {
		return n, err
	}
	defer e.Close()
	found, holders, err := both(ctx, c, e)
	if err != nil {
		return n, err
	}
	holder, held := holders[j.Label]
	x, made := found[j.Label]
	if made && !c.made.whole(x) { // it could neither be filled nor removed, as the engine was gone
		if err := c.remove(ctx, e, j.Label, false); err != nil {
			return n, err
		}
		made = false
	}
	if !made {
		addresses, err := jobnet.Told(j.World)
		if err == nil && n.Name == "" {
			n, err = jobnet.Together(ctx, e, job.Network, j, addresses)
		}
		if err != nil {
			return n, fmt.Errorf("job %s: %w", job.Name, err)
		}
		if own, err := addressIn(holder); held && err == nil && own != addresses[j.Member] { // one whose holder has ended may still be had
			return n, fmt.Errorf("job %s: this host holds %s for its member, and has told %s before it was restarted: run the job again", job.Name, own, addresses[j.Member])
		}
		image, err := localimage.Decided(ctx, e, j, imageOf(w, j.Group))
		if err != nil {
			return n, fmt.Errorf("job %s, group %s: %w", job.Name, j.Group, err)
		}
		g := groundAt(job, addresses)
		g.bridge, g.leadsOut = jobnet.BridgeOf(n), !n.Internal
		b, err := boxOf(ctx, c, j, job, w, g)
		if err != nil {
			return n, err
		}
		if err := makeBox(ctx, c, e, b, image, j.Label); err != nil { // what is not whole is not started
			return n, errors.Join(err, c.remove(context.WithoutCancel(ctx), e, j.Label, false))
		}
	}
	if held {
		return n, removeBox(ctx, e, holder)
	}
	return n, nil
}

// again prepares a member whose container the engine could not start anew. An address that it has announced it keeps. An engine may know a network no more
// in which it has no container now: n is what it knew before.
func again(ctx context.Context, c *Containers, j work.Job, n network.Inspect) error {
	job, _, err := jobOf(j)
	if err != nil {
		return err
	}
	if !shared(job.Network) {
		return c.Prepare(ctx, j)
	}
	e, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	if err := c.remove(ctx, e, j.Label, false); err != nil {
		return err
	}
	_, err = settle(ctx, c, j, n)
	return err
}
