package task

import (
	"slices"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// checkNeeds holds what a member takes of its host to the bounds of what a host can offer.
func checkNeeds(g Group, bad func(format string, args ...any) error) error {
	if n := g.Needs; n.MilliCPU > maxCPUs*1000 || n.GPUs > maxGPUs || max(n.Memory, n.Disk) > maxMemoryBytes {
		return bad("a member of group %s needs %s: no host has that much", g.Name, NeedsWords(n))
	}
	for _, ports := range [][]uint32{g.Ports, g.FirstPorts} {
		if len(ports) > maxPorts || !slices.IsSorted(ports) || len(slices.Compact(slices.Clone(ports))) != len(ports) {
			return bad("group %s has %d ports, of which one is named twice or they are not sorted: at most %d", g.Name, len(ports), maxPorts)
		}
		if len(ports) > 0 && (ports[0] == 0 || ports[len(ports)-1] > 65535) {
			return bad("group %s has a port that is none: 1 to 65535", g.Name)
		}
	}
	return nil
}

// maxPorts bounds the ports of a group.
const maxPorts = 8

// Plain reports whether a group says nothing of what members take of their hosts, as groups of no job do.
func Plain(g Group) bool {
	return g.Needs == (ledger.Needs{}) && len(g.Ports) == 0 && len(g.FirstPorts) == 0
}

// SameGroups reports whether groups are the same, in all that is said of them.
func SameGroups(a, b []Group) bool {
	return slices.EqualFunc(a, b, func(x, y Group) bool {
		return x.Name == y.Name && x.Peers == y.Peers && x.Least == y.Least && x.Needs == y.Needs && slices.Equal(x.Ports, y.Ports) && slices.Equal(x.FirstPorts, y.FirstPorts)
	})
}

// Modest reports whether all members of a job say what they take of the CPUs, the memory or the GPUs of their hosts. Such jobs are on a host beside
// each other, as far as it goes; any other assignment has its hosts for itself, as it may take whatever there is.
func Modest(a *Assignment) bool {
	if !a.Shares {
		return false
	}
	for _, g := range a.Groups {
		if n := g.Needs; n.MilliCPU == 0 && n.Memory == 0 && n.GPUs == 0 {
			return false
		}
	}
	return true
}

// NeedsWords say what a member takes of its host; empty: it does not say.
func NeedsWords(n ledger.Needs) string {
	var all []string
	add := func(is bool, s string) {
		if is {
			all = append(all, s)
		}
	}
	add(n.MilliCPU > 0, Amount(strconv.FormatFloat(float64(n.MilliCPU)/1000, 'f', -1, 64), "CPU"))
	add(n.Memory > 0, sizeWords(n.Memory)+" of memory")
	add(n.GPUs > 0, Amount(strconv.FormatUint(uint64(n.GPUs), 10), "GPU"))
	add(n.Disk > 0, sizeWords(n.Disk)+" of disk")
	return strings.Join(all, ", ")
}

// Amount is a number of things, of which one has the name.
func Amount(n, name string) string {
	if n == "1" {
		return n + " " + name
	}
	return n + " " + name + "s"
}

// sizeWords is a size, rounded down to hundredths of its unit.
func sizeWords(n uint64) string {
	for _, u := range []struct {
		name  string
		bytes uint64
	}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if n >= u.bytes {
			return strconv.FormatFloat(float64(n/(u.bytes/100))/100, 'f', -1, 64) + " " + u.name
		}
	}
	return strconv.FormatUint(n, 10) + " bytes"
}
