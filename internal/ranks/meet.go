package ranks

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/rendezvous"
)

// meeting is where rank 0 serves the others before their programs begin, whose hosts have these addresses; nil: they meet by themselves.
func (x *planned) meeting(ctx context.Context, p *Program, a *swarmv1.Assignment) (*rendezvous.Meeting, error) {
	if p.Framework != jobfile.Horovod {
		return nil, nil //nolint:nilnil // as documented
	}
	own, err := addressOf(ctx, p.Address)
	if err == nil && !own.Is4() { // Horovod's client knows no others
		err = fmt.Errorf("%s is none of IPv4, at which alone Horovod finds rank 0: give --host-ip one", own)
	}
	if err != nil {
		return nil, err
	}
	m := &rendezvous.Meeting{At: netip.AddrPortFrom(own, uint16(x.port)), Own: own, Ranks: []netip.Addr{own}} //nolint:gosec // a port
	for _, one := range a.GetMembers() {
		at, err := addressOf(ctx, one.GetAddress())
		if err == nil && !at.Is4() {
			err = fmt.Errorf("%s is none of IPv4, at which alone ranks of Horovod find each other: start its SWOP with --host-ip and one", at)
		}
		if err != nil {
			return nil, fmt.Errorf("host %s: %w", one.GetNode(), err)
		}
		m.Ranks = append(m.Ranks, at)
	}
	m.Here = !slices.ContainsFunc(m.Ranks, func(r netip.Addr) bool { return r != own })
	return m, nil
}

// addressOf is the address of a host that is known by it or by a name.
func addressOf(ctx context.Context, host string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap(), nil
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", host)
	if err != nil {
		return netip.Addr{}, err
	}
	return all[0].Unmap(), nil
}
