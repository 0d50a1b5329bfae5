package runjob

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
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

// AddressOf is the address that is held for a member; empty: its network is none that hosts share.
func AddressOf(ctx context.Context, c *Containers, l work.Label) (string, error) {
	e, err := c.Open(ctx)
	if err != nil {
		return "", work.OfEngine(err)
	}
	defer e.Close()
	_, holders, err := both(ctx, c, e)
	if err != nil {
		return "", work.OfEngine(err)
	}
	x, is := holders[l]
	if !is {
		return "", nil
	}
	a, err := addressIn(x)
	if err == nil && !a.IsGlobalUnicast() { // no SN takes it
		err = fmt.Errorf("its network gives it the address %s, by which no member on another host reaches it: have the network's owner make one with another --subnet", a)
	}
	return a.String(), err
}

// settle makes the container of a member whose address is held, as all addresses are known by now, and gives the address free for it. Of other
// members there is nothing to do.
func settle(ctx context.Context, c *Containers, j work.Job) error {
	job, w, err := jobOf(j)
	if err != nil || !shared(job.Network) {
		return err
	}
	e, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	found, holders, err := both(ctx, c, e)
	if err != nil {
		return err
	}
	holder, held := holders[j.Label]
	x, made := found[j.Label]
	if made && !c.filled.whole(x) { // it could neither be filled nor removed, as the engine was gone
		if err := c.remove(ctx, e, j.Label, false); err != nil {
			return err
		}
		made = false
	}
	if !made {
		addresses, err := told(j.World)
		if err != nil {
			return fmt.Errorf("job %s: %w", job.Name, err)
		}
		if err := checkOne(ctx, e, job.Network, j.World, addresses); err != nil {
			return fmt.Errorf("job %s: %w", job.Name, err)
		}
		if own, err := addressIn(holder); held && err == nil && own != addresses[j.Member] { // one whose holder has ended may still be had
			return fmt.Errorf("job %s: this host holds %s for its member, and has told %s before it was restarted: run the job again", job.Name, own, addresses[j.Member])
		}
		image, err := localimage.Decided(ctx, e, j, imageOf(w, j.Group))
		if err != nil {
			return fmt.Errorf("job %s, group %s: %w", job.Name, j.Group, err)
		}
		b, err := boxOf(ctx, c, j, job, w, groundAt(job, addresses))
		if err != nil {
			return err
		}
		if err := makeBox(ctx, c, e, b, image, j.Label); err != nil { // what is not whole is not started
			return errors.Join(err, c.remove(context.WithoutCancel(ctx), e, j.Label, false))
		}
	}
	if held {
		return removeBox(ctx, e, holder)
	}
	return nil
}

// again prepares a member whose container the engine could not start anew. An address that it has told it keeps.
func again(ctx context.Context, c *Containers, j work.Job) error {
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
	return settle(ctx, c, j)
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

// checkOne says of which host a member is not in the network as this host's engine has it: of that name there may be several.
func checkOne(ctx context.Context, e *engine.Engine, name string, world []task.Site, addresses []netip.Addr) error {
	n, known, err := sharedOf(ctx, e, name)
	if err != nil || !known {
		return err
	}
	return checkSubnets(name, subnetsOf(n), world, addresses)
}

// subnetsOf are those of a network, as far as its engine says.
func subnetsOf(n network.Inspect) (all []netip.Prefix) {
	for _, x := range n.IPAM.Config {
		if p, err := netip.ParsePrefix(x.Subnet); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// checkSubnets says of which host a member has an address in none of these subnets, if there are some.
func checkSubnets(name string, subnets []netip.Prefix, world []task.Site, addresses []netip.Addr) error {
	for i, a := range addresses {
		if len(subnets) > 0 && !slices.ContainsFunc(subnets, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return fmt.Errorf("host %s tells the address %s of its member, and network %s has %s on this host: have their owners make one network for all hosts", world[i].Node, a, name, subnets[0])
		}
	}
	return nil
}

// sharedOf looks for a network by its name. What an engine does not know yet it may know when a container asks for it: so it is with overlays that
// managers alone list. An engine finds one by the beginning of its ID too, which no policy has named.
func sharedOf(ctx context.Context, e *engine.Engine, name string) (n network.Inspect, known bool, err error) {
	n, err = e.NetworkInspect(ctx, name, network.InspectOptions{})
	switch {
	case errdefs.IsNotFound(err):
		return n, false, nil
	case err != nil:
		return n, false, engine.Explain(fmt.Errorf("look for network %s: %w", name, err))
	case n.Name != name:
		return n, false, fmt.Errorf("this host has no network %s, and one whose ID begins so: name it as its owner has", name)
	}
	return n, true, nil
}

// checkShared says why members can't be in a network that hosts share.
func checkShared(ctx context.Context, e *engine.Engine, name string) error {
	n, known, err := sharedOf(ctx, e, name)
	switch {
	case err != nil || !known:
		return err
	case n.Labels[engine.LabelRole] != "":
		return fmt.Errorf("network %s is one that swarmd has made for something else: name one of the host's owner", name)
	case n.Scope == "swarm" && !n.Attachable:
		return fmt.Errorf("overlay %s takes no containers that are not services: have its owner make it with docker network create --attachable", name)
	case len(n.IPAM.Config) == 0:
		return fmt.Errorf("network %s gives no addresses that members of a job can keep: have its owner make one with docker network create --subnet", name)
	}
	return nil
}

// ofShared is the error of an engine that can't put a container into a network that hosts share, with what can be done about it.
func ofShared(err error) error {
	if err == nil {
		return nil
	}
	switch said := err.Error(); {
	case strings.Contains(said, "ddress already in use"):
		return &work.Passing{Words: "another container has taken the address of this member, in the moment before it started: see who gives out addresses of the job's network", Err: err}
	case strings.Contains(said, "user configured subnet"):
		return &engine.Error{Err: err, Help: "have the network's owner make it with docker network create --subnet: members keep the addresses that their hosts have told"}
	case errdefs.IsNotFound(err) && strings.Contains(said, "network"):
		return &engine.Error{Err: err, Help: "have this host's owner make that network, on several hosts as an overlay: docker network create --driver overlay --attachable --subnet"}
	}
	return err
}
