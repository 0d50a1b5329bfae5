package runjob

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/volume"
)

// firstHost is how many addresses of a network are left to the engine before those of members.
const firstHost = 2

// private is the network that the members of an epoch share, which leads to nowhere else, and their addresses in it. It is made if it is not there.
func (c *Containers) private(ctx context.Context, e *engine.Engine, j work.Job) (name string, all []netip.Addr, err error) {
	c.making.Lock()
	defer c.making.Unlock()
	name = c.networkName(j.Label)
	found, err := c.networksOf(ctx, e, j.Label)
	if err != nil {
		return "", nil, err
	}
	var subnet netip.Prefix
	if i := slices.IndexFunc(found, func(n network.Inspect) bool { return n.Name == name }); i >= 0 {
		subnet, err = subnetOf(found[i])
	} else if err = removeAllOf(ctx, e, found); err == nil { // what a try before has left
		subnet, err = c.makeNetwork(ctx, e, j.Label, name)
	}
	if err != nil {
		return "", nil, err
	}
	all, err = addressesIn(subnet, len(j.World))
	return name, all, err
}

// makeTries is how often a subnet is asked for: another may take it between the question and its use.
const makeTries = 5

// makeNetwork makes a network of which the members' addresses are known before they start. An engine takes these only in a subnet that it was
// given, and only it knows which is free: so it chooses one, for a network of another name, and is given that.
func (c *Containers) makeNetwork(ctx context.Context, e *engine.Engine, l work.Label, name string) (subnet netip.Prefix, err error) {
	for range makeTries {
		options := network.CreateOptions{Internal: true, Labels: volume.Labels(l, engine.RoleMember, c.Scope)}
		free, err := c.create(ctx, e, name+"-free", options)
		if err != nil {
			return netip.Prefix{}, err
		}
		subnet, err = subnetOf(free)
		if err = errors.Join(err, removeAllOf(ctx, e, []network.Inspect{free})); err != nil {
			return netip.Prefix{}, err
		}
		options.IPAM = &network.IPAM{Config: []network.IPAMConfig{{Subnet: subnet.String()}}}
		if _, err = c.create(ctx, e, name, options); err == nil || !overlaps(err) {
			return subnet, err
		}
	}
	return subnet, fmt.Errorf("others have taken each of %d subnets of the engine before a network of a job's had it: try again", makeTries)
}

// overlaps reports whether a subnet is another network's.
func overlaps(err error) bool {
	return strings.Contains(err.Error(), "overlaps") || strings.Contains(err.Error(), "already used")
}

func (c *Containers) create(ctx context.Context, e *engine.Engine, name string, options network.CreateOptions) (network.Inspect, error) {
	made, err := e.NetworkCreate(ctx, name, options)
	if err != nil {
		return network.Inspect{}, engine.Explain(fmt.Errorf("make a network of a job's: %w", err))
	}
	n, err := e.NetworkInspect(ctx, made.ID, network.InspectOptions{})
	if err != nil {
		return n, engine.Explain(fmt.Errorf("look at a network of a job's: %w", err))
	}
	return n, nil
}

// networks are those of this host's members.
func (c *Containers) networks(ctx context.Context, e *engine.Engine) ([]network.Inspect, error) {
	found, err := e.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", engine.LabelRole+"="+engine.RoleMember), filters.Arg("label", engine.LabelScope+"="+c.Scope), filters.Arg("label", engine.LabelHost+"="+c.Node),
	)})
	if err != nil {
		return nil, engine.Explain(fmt.Errorf("look for networks of jobs: %w", err))
	}
	return found, nil
}

// networksOf are the networks of an epoch.
func (c *Containers) networksOf(ctx context.Context, e *engine.Engine, l work.Label) (all []network.Inspect, err error) {
	found, err := c.networks(ctx, e)
	for _, n := range found {
		if of, ok := volume.Member(n.Labels); ok && sameEpoch(of, l) {
			all = append(all, n)
		}
	}
	return all, err
}

// removeNetwork removes the network of an epoch that has no members left.
func (c *Containers) removeNetwork(ctx context.Context, e *engine.Engine, l work.Label) error {
	c.making.Lock()
	defer c.making.Unlock()
	found, err := c.networksOf(ctx, e, l)
	if err != nil {
		return err
	}
	return removeAllOf(ctx, e, found)
}

func removeAllOf(ctx context.Context, e *engine.Engine, networks []network.Inspect) error {
	for _, n := range networks {
		if err := e.NetworkRemove(ctx, n.ID); err != nil && !errdefs.IsNotFound(err) {
			return engine.Explain(fmt.Errorf("remove network %s: %w", n.Name, err))
		}
	}
	return nil
}

func (c *Containers) networkName(l work.Label) string {
	return fmt.Sprintf("%s-job-%s-%d-%s", c.Scope, l.Assignment, l.Epoch, l.Node)
}

func subnetOf(n network.Inspect) (netip.Prefix, error) {
	for _, x := range n.IPAM.Config {
		if p, err := netip.ParsePrefix(x.Subnet); err == nil && p.Addr().Is4() {
			return p.Masked(), nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("the engine gave network %s no IPv4 subnet: see its address pools", n.Name)
}

// addressesIn are the first n addresses for members in a subnet, by rank.
func addressesIn(subnet netip.Prefix, n int) (all []netip.Addr, err error) {
	a := subnet.Addr()
	for range firstHost {
		a = a.Next()
	}
	for range n {
		all = append(all, a)
		a = a.Next()
	}
	if !subnet.Contains(a) { // the last is for all of the network
		return nil, fmt.Errorf("the engine's networks have no room for %d members: give it larger address pools", n)
	}
	return all, nil
}
