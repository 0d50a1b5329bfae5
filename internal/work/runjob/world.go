package runjob

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/jobrequest"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/internal/work"
)

// member is a member of a job as its host runs it.
type member struct {
	job     *jobfile.Job
	group   framework.Group
	program framework.Program
	placed  framework.Placement // with all members, by rank
	found   []framework.Found   // in the folder of the run
}

// ground is what members stand on: what is one host's, and not the job's.
type ground struct {
	network   string       // the engine's; empty: it is a process
	bridge    []string     // the addresses of a network's bridge at the engine's host, if hosts share it
	leadsOut  bool         // such a network, or what engines give with it, leads elsewhere
	addresses []netip.Addr // of all ranks, also of one that an SL runs
	device    string       // of this host's members, if they are in its network
	metadata  string       // where the member finds the file that names all
	workDir   string       // where it finds the folder of its run; empty: there is none
	artifacts string       // where it leaves what is to be kept; empty: nowhere
	secrets   string       // where it would find its secrets that are files
}

// jobOf reads the job of a task, and finds that where its members were placed is where it wants some.
func jobOf(j work.Job) (*jobfile.Job, *framework.World, error) {
	job, err := jobfile.Decode(j.Task.Definition)
	if err != nil {
		return nil, nil, fmt.Errorf("task %s: %w", j.Task.Name, err)
	}
	w, err := framework.WorldOf(job)
	if err != nil {
		return nil, nil, fmt.Errorf("job %s: %w", job.Name, err)
	}
	rank := 0
	for _, g := range w.Groups {
		for range g.Replicas {
			if rank >= len(j.World) || j.World[rank].Group != g.Name {
				return nil, nil, fmt.Errorf("job %s: its members were not placed in the order of its groups: assign it anew", job.Name)
			}
			rank++
		}
	}
	switch own := int(j.Member); {
	case rank != len(j.World):
		return nil, nil, fmt.Errorf("job %s has %d members, and %d were placed: assign it anew", job.Name, rank, len(j.World))
	case stranger(j) != "":
		return nil, nil, fmt.Errorf("job %s: by what its SN says now, host %s has a member, for which nobody has signed: assign it anew", job.Name, stranger(j))
	case own >= rank || j.World[own].Node != j.Node || j.World[own].Group != j.Group:
		return nil, nil, fmt.Errorf("job %s: by what its SN says now, member %d is not of this host: assign it anew", job.Name, own)
	}
	return job, w, nil
}

// stranger is a host that has a member and was not signed for; empty: there is none.
func stranger(j work.Job) string {
	for _, p := range j.World {
		if hosts := j.Assignment.Hosts; len(hosts) > 0 && !slices.Contains(hosts, p.Node) {
			return p.Node
		}
	}
	return ""
}

// memberOf is a job's member on this host.
func memberOf(j work.Job, job *jobfile.Job, w *framework.World, g ground) (m member, err error) {
	world := ranks(j, w)
	if len(g.addresses) != len(world) {
		return m, errors.New("the addresses are of other members")
	}
	m.job, m.placed = job, framework.Placement{Run: runOf(job, j.Label), Epoch: int(j.Epoch) - 1 + job.Beside.Epoch, Metadata: g.metadata}
	for rank, p := range world {
		x := framework.Place{Host: p.Node, Name: framework.NameOf(rank), Address: g.addresses[rank].String(), WorkDir: g.workDir}
		if p.Node == j.Node {
			x.Interface = g.device
		}
		if rank == rankOf(j, world) {
			x.Artifacts = g.artifacts
			if w.SecretFiles(p.Group) {
				x.Secrets = g.secrets
			}
		}
		m.placed.Members = append(m.placed.Members, x)
	}
	if m.program, err = w.Program(m.placed, rankOf(j, world)); err != nil {
		return m, fmt.Errorf("job %s: %w", job.Name, err)
	}
	if m.found, err = w.OracleFiles(m.placed); err != nil {
		return m, fmt.Errorf("job %s: %w", job.Name, err)
	}
	for _, group := range w.Groups {
		if group.Name == m.program.Group {
			m.group = group
		}
	}
	return m, jobrequest.Served(w)
}

// reachedAt reads where a node is reached. names are the addresses of those that are names, by resolvers.
func reachedAt(p task.Site, names map[string]netip.Addr) (netip.Addr, error) {
	if a, err := netip.ParseAddr(p.Address); err == nil {
		return a.Unmap().WithZone(""), nil
	}
	if a, found := names[p.Address]; found {
		return a, nil
	}
	return netip.Addr{}, fmt.Errorf("this host finds no address of host %s, which is reached at %q: have that name resolved here, or start that SWOP with --host-ip and an IP address",
		p.Node, text.Clip(p.Address, maxSaid))
}

// maxSaid bounds how much of a text that an SN has given stands in a message, in bytes.
const maxSaid = 160

// resolved are the addresses of all members.
func resolved(ctx context.Context, world []task.Site, lookup func(ctx context.Context, host string) ([]netip.Addr, error)) (all []netip.Addr, err error) {
	names := map[string]netip.Addr{}
	for _, p := range world {
		if _, err := reachedAt(p, names); err == nil || p.Address == "" {
			continue
		}
		if found, err := lookup(ctx, p.Address); err == nil && len(found) > 0 {
			names[p.Address] = found[0].Unmap()
		}
	}
	for _, p := range world {
		a, err := reachedAt(p, names)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, apart(world, all)
}

// ranks are where all ranks are: the placed members, behind the one that an SL runs itself if the job is beside it.
func ranks(j work.Job, w *framework.World) []task.Site {
	first, is := w.Beside()
	if !is {
		return j.World
	}
	return append([]task.Site{{Node: first.Host, Group: besideGroup, Address: first.Address}}, j.World...)
}

// besideGroup is what the file that names all ranks calls the group of one that an SL runs.
const besideGroup = "sl"

// rankOf is the rank of a member among all.
func rankOf(j work.Job, all []task.Site) int { return len(all) - len(j.World) + int(j.Member) }

// groupsOf are the groups of all members.
func groupsOf(world []task.Site) (all []string) {
	for _, p := range world {
		all = append(all, p.Group)
	}
	return all
}

// apart refuses addresses by which members on several hosts can't reach each other.
func apart(world []task.Site, addresses []netip.Addr) error {
	for rank, a := range addresses {
		if a.IsLoopback() == addresses[0].IsLoopback() {
			continue
		}
		if !a.IsLoopback() {
			rank = 0
		}
		return fmt.Errorf("host %s is known to the swarm by the address %s, where members on other hosts find themselves: start its SWOP with --host-ip and an address that they reach", world[rank].Node, addresses[rank])
	}
	return nil
}
