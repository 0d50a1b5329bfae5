package runjob

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/work"
)

// lookTogether looks at the network of a job, of which there may be several with that name, and says of which host a member is in another one.
func lookTogether(ctx context.Context, e *engine.Engine, name string, j work.Job, addresses []netip.Addr) (network.Inspect, error) {
	n, known, err := sharedOf(ctx, e, name)
	if err != nil || !known {
		return n, err
	}
	return n, checkSubnets(name, subnetsOf(n), j.World, addresses)
}

// bridgeOf are the addresses of a network's bridge at its engine's host; none: it is no bridge. Of those that nobody has named engines take the first in
// the subnet.
func bridgeOf(n network.Inspect) (all []string) {
	if n.Driver != "bridge" {
		return nil
	}
	for _, x := range n.IPAM.Config {
		if p, err := netip.ParsePrefix(x.Subnet); err == nil {
			all = append(all, cmp.Or(x.Gateway, p.Masked().Addr().Next().String()))
		}
	}
	return all
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
