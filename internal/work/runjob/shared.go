package runjob

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/work"
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
	if made && !c.filled.whole(x) { // it could neither be filled nor removed, as the engine was gone
		if err := c.remove(ctx, e, j.Label, false); err != nil {
			return n, err
		}
		made = false
	}
	if !made {
		addresses, err := told(j.World)
		if err == nil && n.Name == "" {
			n, err = lookTogether(ctx, e, job.Network, j, addresses)
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
		g.bridge, g.leadsOut = bridgeOf(n), !n.Internal
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

// again prepares a member whose container the engine could not start anew. An address that it has told it keeps. An engine may know a network no more
// in which it has no container now: n is what it has said.
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

// told are the addresses of all members in a network that their hosts share.
func told(world []task.Site) (all []netip.Addr, err error) {
	hosts := map[netip.Addr]string{}
	for _, p := range world {
		a, err := netip.ParseAddr(p.Own)
		if err != nil {
			return nil, fmt.Errorf("host %s has not told which address its member has in the job's network: bring its SWOP to this version", p.Node)
		}
		if other, taken := hosts[a]; taken {
			return nil, fmt.Errorf("hosts %s and %s both tell the address %s of a member: they have networks of one name, and not one network", other, p.Node, a)
		}
		hosts[a] = p.Node
		all = append(all, a)
	}
	return all, nil
}

// ofShared is the error of an engine that can't put a container into a network that hosts share, with what can be done about it.
func ofShared(err error) error {
	if err == nil {
		return nil
	}
	switch said := err.Error(); {
	case strings.Contains(said, "ddress already in use"):
		return &work.Passing{Words: "another container has taken the address of this member, in the moment before it started: see who gives out addresses of the job's network", Err: err}
	case strings.Contains(said, "attaching to network failed") || errors.Is(err, context.DeadlineExceeded) || strings.Contains(said, context.DeadlineExceeded.Error()):
		// An overlay's addresses are its managers' to give, which may be away: an engine hears of that when a container starts.
		return &work.Passing{Words: "this host's container engine could not put its member into the job's network in time: see its log, and whether the managers of its overlays answer (docker node ls)", Err: err}
	case strings.Contains(said, "user configured subnet"):
		return &engine.Error{Err: err, Help: "have the network's owner make it with docker network create --subnet: members keep the addresses that their hosts have told"}
	case errdefs.IsNotFound(err) && strings.Contains(said, "network"):
		return &engine.Error{Err: err, Help: "have this host's owner make that network, on several hosts as an overlay: docker network create --driver overlay --attachable --subnet"}
	}
	return err
}
