package ranks

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

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
	if err != nil {
		return nil, err
	}
	all := []netip.Addr{own}
	for _, one := range a.GetMembers() {
		at, err := addressOf(ctx, one.GetAddress())
		if err != nil {
			return nil, fmt.Errorf("host %s: %w", one.GetNode(), err)
		}
		all = append(all, at)
	}
	m, err := rendezvous.MeetingOf(all, 0, uint16(x.port), 0) //nolint:gosec // a port
	return &m, err
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
	at := slices.IndexFunc(all, func(a netip.Addr) bool { return !a.Unmap().IsLoopback() })
	return all[max(at, 0)].Unmap(), nil
}

// CheckAddress refuses a name of this host that leads to itself alone, as many distributions have it: rank 0 would await the others where they never come.
func (p *Program) CheckAddress(leadsTo []net.IP) error {
	if _, err := netip.ParseAddr(p.Address); err == nil || len(leadsTo) == 0 || strings.EqualFold(p.Address, "localhost") || slices.ContainsFunc(leadsTo, p.isAway) {
		return nil
	}
	return fmt.Errorf("--host-ip %s leads to %s here, where ranks on other hosts do not reach rank 0: give this host's address, or have /etc/hosts lead the name to it", p.Address, leadsTo[0])
}

// isAway reports whether an address is one that other hosts may reach, and that ranks meet at: those of Horovod do by IPv4.
func (p *Program) isAway(ip net.IP) bool {
	return !ip.IsLoopback() && (ip.To4() != nil || p.Framework != jobfile.Horovod)
}
