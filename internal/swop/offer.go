package swop

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/policy"
)

// OfferOf completes what a host takes tasks for with what it has. What it can't find out it leaves open.
func OfferOf(o task.Offer, peers int, labels []string) (task.Offer, error) {
	o.Peers, o.CPUs = uint32(peers), uint32(runtime.NumCPU()) //nolint:gosec // the profile's file is bounded
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		o.MemoryBytes = info.Totalram * uint64(info.Unit)
	}
	o.Labels = slices.Clone(labels)
	slices.SortFunc(o.Labels, func(a, b string) int {
		x, _, _ := strings.Cut(a, "=")
		y, _, _ := strings.Cut(b, "=")
		return cmp.Compare(x, y)
	})
	for _, l := range labels {
		if !task.ValidLabel(l) {
			return o, fmt.Errorf("--host-label %.160q: want KEY=VALUE of letters, digits and . _ / : -, 128 bytes at most", l)
		}
	}
	if !o.Valid() {
		return o, fmt.Errorf("--host-label: the %d labels are more than %d or 2 KiB, or one has a key twice; or taskrunner and peers of the profile are out of bounds", len(labels), task.MaxLabels)
	}
	return o, nil
}

// Within is what of an offer the policy of the host's owner gives to tasks: all that run at a time have no more than one may have.
func Within(o task.Offer, p *policy.Policy) task.Offer {
	terms := p.Terms()
	held := terms.Limits
	if held.CPUs > 0 {
		o.CPUs = min(o.CPUs, uint32(math.Ceil(held.CPUs))) // a policy bounds it
	}
	if held.Memory > 0 {
		o.MemoryBytes = min(o.MemoryBytes, uint64(held.Memory))
	}
	if terms.Disk > 0 {
		o.DiskBytes = min(o.DiskBytes, uint64(terms.Disk))
	}
	if most, limited := p.GPUs(); limited {
		o.GPUs = min(o.GPUs, uint32(most)) //nolint:gosec // likewise
	}
	return o
}
