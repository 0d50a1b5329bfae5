package jobs

import (
	"fmt"
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// roomless says of which groups no host that may have members offers what one needs, by what is known now: the job waits until one does.
func (p *Plan) roomless(nodes []*swarmv1.Node) (all []string) {
	for i, g := range p.Request.GetGroups() {
		fits := slices.ContainsFunc(nodes, func(n *swarmv1.Node) bool {
			return slices.Contains(p.Request.GetHosts(), n.GetName()) && hasRoom(n.GetOffer(), g.GetNeeds())
		})
		if !fits {
			all = append(all, fmt.Sprintf("no host that may have it offers what a member of group %s needs, %s: the job waits until one does", g.GetName(), p.world.Groups[i].Resources))
		}
	}
	return all
}

// hasRoom reports whether a host that has nothing else to do has room for a member.
func hasRoom(o *swarmv1.Offer, n *swarmv1.Needs) bool {
	return n.GetMilliCpu() <= o.GetCpus()*1000 && n.GetMemoryBytes() <= o.GetMemoryBytes() && n.GetGpus() <= o.GetGpus() && n.GetDiskBytes() <= o.GetDiskBytes()
}
