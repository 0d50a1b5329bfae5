package ranks

import (
	"context"
	"fmt"
	"net"
	"net/netip"

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
	return all[0].Unmap(), nil
}
