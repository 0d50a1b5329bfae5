package jobs

import (
	"fmt"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/swci/hostlogs"
)

// Named returns lines of a job's members with GROUP/RANK in the place of the names that hosts have for them. Lines of other assignments stay as they are.
func Named(a *swarmv1.Assignment) func(hostlogs.Line) hostlogs.Line {
	names := map[string]string{}
	if Whose(a) != "" {
		for _, g := range a.GetGroups() {
			for range min(g.GetPeers(), jobfile.MaxMembers) { // an SN may say anything
				rank := len(names) + runByOthers(a) // hosts know it too
				names[framework.NameOf(rank)] = fmt.Sprintf("%s/%d", g.GetName(), rank)
			}
		}
	}
	return func(l hostlogs.Line) hostlogs.Line {
		if name := names[l.From]; name != "" {
			l.From = name
		}
		return l
	}
}
