// Package jobnet looks at networks of container engines that hosts share, and that members of jobs are in.
package jobnet

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/volume"
)

// Together looks at the network of a job, of which there may be several with that name, and says of which host a member is in another one.
func Together(ctx context.Context, e *engine.Engine, name string, j work.Job, addresses []netip.Addr) (network.Inspect, error) {
	n, known, err := sharedOf(ctx, e, name)
	if err == nil && !known { // though it has a container there
		err = fmt.Errorf("this host's engine knows network %s no more: see that its owners keep it, and run the job again", name)
	}
	if err == nil {
		err = checkTold(n, j.World, addresses)
	}
	if err == nil {
		err = checkHere(ctx, e, n, j, addresses)
	}
	return n, err
}

// checkTold says of which host a member has an address that no container has in a network.
func checkTold(n network.Inspect, world []task.Site, addresses []netip.Addr) error {
	subnets, own := subnetsOf(n), reserved(n)
	for i, a := range addresses {
		switch {
		case len(subnets) > 0 && !slices.ContainsFunc(subnets, func(p netip.Prefix) bool { return p.Contains(a) }):
			return fmt.Errorf("host %s tells the address %s of its member, and network %s has %s on this host: have their owners make one network for all hosts", world[i].Node, a, n.Name, subnets[0])
		case slices.Contains(own, a):
			return fmt.Errorf("host %s tells the address %s of its member, which no container has in network %s, as it is the network's own: have its owners see whether that host says the truth", world[i].Node, a, n.Name)
		}
	}
	return nil
}

// reserved are the addresses of a network that no container has: those of its bridge or router, those that its owner has set aside, and the first and the
// last of IPv4.
func reserved(n network.Inspect) (all []netip.Addr) {
	words := BridgeOf(n)
	for _, x := range n.IPAM.Config {
		words = append(words, x.Gateway)
		words = slices.AppendSeq(words, maps.Values(x.AuxAddress))
	}
	for _, s := range words {
		if a, err := netip.ParseAddr(s); err == nil {
			all = append(all, a)
		}
	}
	for _, p := range subnetsOf(n) {
		if p.Addr().Is4() && p.Bits() < 31 {
			all = append(all, p.Masked().Addr(), last(p))
		}
	}
	return all
}

// last is the last address of a subnet of IPv4.
func last(p netip.Prefix) netip.Addr {
	first := p.Masked().Addr().As4()
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(first[:])|math.MaxUint32>>p.Bits())))
}

// checkHere says of which other host a member has an address that something else has at this host's engine. Of what this host's members have it says
// nothing: the engine does when they start.
func checkHere(ctx context.Context, e *engine.Engine, n network.Inspect, j work.Job, addresses []netip.Addr) error {
	for id, x := range n.Containers {
		i := slices.IndexFunc(addresses, func(a netip.Addr) bool { return isAt(x, a) })
		if i < 0 || j.World[i].Node == j.Node {
			continue
		}
		whose := j.Label
		whose.Node, whose.Member = j.World[i].Node, uint32(i) //nolint:gosec // an index
		is, err := isOf(ctx, e, id, whose)
		if err != nil {
			return err
		}
		if !is {
			return fmt.Errorf("host %s tells the address %s of its member, and this host's engine has given that to something else in network %s: have its owners see whether that host says the truth, and whether it is one network",
				j.World[i].Node, addresses[i], n.Name)
		}
	}
	return nil
}

func isAt(x network.EndpointResource, a netip.Addr) bool {
	for _, s := range []string{x.IPv4Address, x.IPv6Address} {
		if p, err := netip.ParsePrefix(s); err == nil && p.Addr() == a {
			return true
		}
	}
	return false
}

// isOf reports whether a container is a member's, also of another host at the same engine.
func isOf(ctx context.Context, e *engine.Engine, id string, l work.Label) (bool, error) {
	x, err := e.ContainerInspect(ctx, id)
	switch {
	case errdefs.IsNotFound(err): // as what balances an overlay's load
		return false, nil
	case err != nil:
		return false, engine.Explain(fmt.Errorf("look at container %s: %w", engine.ShortID(id), err))
	case x.Config == nil || x.ContainerJSONBase == nil || x.Config.Labels[engine.LabelRole] != engine.RoleMember:
		return false, nil
	}
	inherited, err := e.Inherited(ctx, x.Config.Labels, x.Image)
	of, ok := volume.Member(x.Config.Labels)
	return ok && !inherited && of == l, err
}

// BridgeOf are the addresses of a network's bridge at its engine's host; none: it is no bridge. Of those that nobody has named engines take the first in
// the subnet.
func BridgeOf(n network.Inspect) (all []string) {
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

// MayJoin says why members can't be in a network that hosts share.
func MayJoin(ctx context.Context, e *engine.Engine, name string) error {
	n, known, err := sharedOf(ctx, e, name)
	if err != nil || !known {
		return err
	}
	return mayShare(n, name)
}

// mayShare says why a network is none that members can be in with those of other hosts.
func mayShare(n network.Inspect, name string) error {
	switch {
	case n.Labels[engine.LabelRole] != "":
		return fmt.Errorf("network %s is one that swarmd has made for something else: name one of the host's owner", name)
	case n.Scope == "swarm" && !n.Attachable:
		return fmt.Errorf("overlay %s takes no containers that are not services: have its owner make it with docker network create --attachable", name)
	case len(n.IPAM.Config) == 0:
		return fmt.Errorf("network %s gives no addresses that members of a job can keep: have its owner make one with docker network create --subnet", name)
	case !slices.ContainsFunc(subnetsOf(n), func(p netip.Prefix) bool { return p.Addr().Is4() }):
		return fmt.Errorf("network %s gives addresses of IPv6 alone, and members of a job have those of IPv4: have its owner make one with docker network create --subnet and a subnet of IPv4", name)
	}
	return nil
}
