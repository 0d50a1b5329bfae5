package onwire

import (
	"fmt"
	"net/netip"
	"strings"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity/naming"
)

// World reads where all members of an epoch of an assignment are. It is false while the SN shows another epoch: the one that is asked has not
// heard of this one yet, or of a later one already.
func World(a *swarmv1.Assignment, id string, epoch uint32) (sites []task.Site, is bool, err error) {
	if a.GetId() != id || len(a.GetMembers()) > task.MaxMembers {
		return nil, false, fmt.Errorf("%w: assignment %.20q with %d members, and %.20q was asked for", errBounds, a.GetId(), len(a.GetMembers()), id)
	}
	if a.GetEpoch() != epoch {
		return nil, false, nil
	}
	if len(a.GetMembers()) == 0 {
		return nil, false, fmt.Errorf("%w: epoch %d of assignment %.20q has no members", errBounds, epoch, id)
	}
	on := map[string]int{}
	for i, m := range a.GetMembers() {
		p := task.Site{Node: m.GetNode(), Group: m.GetGroup(), Address: m.GetAddress(), Own: m.GetOwnAddress()}
		if uint64(m.GetIndex()) != uint64(i) || !naming.ValidNode(p.Node) || !naming.ValidNode(p.Group) || !validAddress(p.Address) { //nolint:gosec // at most MaxMembers
			return nil, false, fmt.Errorf("%w: member %d of assignment %.20q on %.64q in group %.64q at %.80q", errBounds, i, id, p.Node, p.Group, p.Address)
		}
		if on[p.Node]++; on[p.Node] > task.MaxHosted {
			return nil, false, fmt.Errorf("%w: assignment %.20q has more than %d members on host %s", errBounds, id, task.MaxHosted, p.Node)
		}
		if p.Own != "" && !validIP(p.Own) {
			return nil, false, fmt.Errorf("%w: member %d of assignment %.20q at %.80q in its network", errBounds, i, id, p.Own)
		}
		sites = append(sites, p)
	}
	return sites, true, nil
}

// Address is what hosts are told of where a node says that it is reached: nothing, if that can be neither an IP nor the name of a host.
func Address(host string) string {
	if validAddress(host) {
		return host
	}
	return ""
}

// validAddress reports whether an address may be written into the files of programs as an IP or the name of a host. None is one too.
func validAddress(s string) bool {
	for i := range len(s) {
		if !naming.Alphanumeric(s[i]) && !strings.ContainsRune(".:-_%", rune(s[i])) {
			return false
		}
	}
	return len(s) <= task.MaxAddress
}

// validIP reports whether an address can be a member's own: one IP has one form.
func validIP(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.String() == s && a.Zone() == "" && !a.Is4In6() && a.IsGlobalUnicast()
}
