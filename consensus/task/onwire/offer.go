package onwire

import (
	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
)

// OfferOf is an offer as a message; nil for none.
func OfferOf(o *task.Offer) *swarmv1.Offer {
	if o == nil {
		return nil
	}
	return &swarmv1.Offer{Taskrunner: o.Taskrunner, Peers: o.Peers, Group: o.Group, Jobs: o.Jobs, Cpus: o.CPUs, MemoryBytes: o.MemoryBytes, Gpus: o.GPUs, DiskBytes: o.DiskBytes, Labels: o.Labels}
}

// FromOffer is the opposite of OfferOf. The state holds an offer to its bounds.
func FromOffer(m *swarmv1.Offer) *task.Offer {
	if m == nil {
		return nil
	}
	return &task.Offer{
		Taskrunner: m.GetTaskrunner(), Peers: m.GetPeers(), Group: m.GetGroup(), Jobs: m.GetJobs(), CPUs: m.GetCpus(), MemoryBytes: m.GetMemoryBytes(), GPUs: m.GetGpus(), DiskBytes: m.GetDiskBytes(), Labels: m.GetLabels(),
	}
}
