package framework

import (
	"path"
	"slices"
	"strconv"

	"github.com/swarmd/swarmd/internal/jobfile"
)

// torchPort is where rank 0 of torch.distributed listens.
const torchPort = 29400

// pytorch is for torch.distributed. A program that is started as it is finds what init_method env:// wants, and counts as one rank; torchrun
// finds its options as PET_*, and starts as many ranks as the member has GPUs.
func pytorch() kind {
	return kind{
		start: jobfile.Parallel, doneWhen: jobfile.All,
		groups:  func(j *jobfile.Job) ([]Group, error) { return declared(j, "node"), nil },
		vars:    torchVars,
		command: ownCommand,
		ready:   whenItRuns,
		ports: func(w *World, group int) (each, first []int) {
			if group > 0 || w.first() > 0 { // rank 0 is no member of theirs
				return nil, nil
			}
			return nil, firstPort(w.Groups[0], "MASTER_PORT", torchPort)
		},
	}
}

// firstPort is that of rank 0 in a group, where a variable may say another: one that its env does not say as a number is not known.
func firstPort(g Group, variable string, without int) []int {
	said, is := valueOf(g.Env, variable)
	if !is {
		return []int{without}
	}
	if n := portOf(said); n > 0 {
		return []int{n}
	}
	return nil
}

// torchPortOf is where rank 0 of a job listens.
func torchPortOf(w *World) int {
	if p := w.job.Beside.Port; p > 0 {
		return p
	}
	return torchPort
}

func torchVars(w *World, p Placement, m Member) []jobfile.Var {
	world, rank, port := strconv.Itoa(len(p.Members)), strconv.Itoa(m.Rank), strconv.Itoa(torchPortOf(w))
	address := p.Members[0].reachable()
	launcher := port // torchrun listens where the job says that rank 0 does
	if said, is := valueOf(w.Groups[m.group].Env, "MASTER_PORT"); is && portOf(said) > 0 {
		launcher = said
	}
	vars := []jobfile.Var{
		{Name: "MASTER_ADDR", Value: address},
		{Name: "MASTER_PORT", Value: port},
		{Name: "WORLD_SIZE", Value: world},
		{Name: "RANK", Value: rank},
		{Name: "GROUP_RANK", Value: rank},
		{Name: "LOCAL_RANK", Value: "0"},
		{Name: "LOCAL_WORLD_SIZE", Value: "1"},
		{Name: "PET_NNODES", Value: world},
		{Name: "PET_NODE_RANK", Value: rank},
		{Name: "PET_NPROC_PER_NODE", Value: strconv.Itoa(max(1, w.Groups[m.group].Resources.GPU))},
		{Name: "PET_MASTER_ADDR", Value: address},
		{Name: "PET_MASTER_PORT", Value: launcher},
		// Without them torchrun of torch 1.13 ends at once with an AttributeError under Python 3.11.
		{Name: "PET_REDIRECTS", Value: "1"},
		{Name: "PET_TEE", Value: "1"},
	}
	vars = append(vars, torchInterface(p, m)...)
	if n := w.threads(p, m); n > 0 {
		vars = append(vars, jobfile.Var{Name: "OMP_NUM_THREADS", Value: strconv.Itoa(n)})
	}
	return vars
}

// torchInterface names the interface of a member in its host's network, where a name may lead to any of them.
func torchInterface(p Placement, m Member) []jobfile.Var {
	dev := p.Members[m.Rank].Interface
	if dev == "" {
		return nil
	}
	return []jobfile.Var{{Name: "GLOO_SOCKET_IFNAME", Value: dev}, {Name: "NCCL_SOCKET_IFNAME", Value: dev}, {Name: "TP_SOCKET_IFNAME", Value: dev}}
}

// launches reports whether a command is torchrun's.
func launches(command []string) bool {
	return slices.ContainsFunc(command, func(word string) bool {
		return path.Base(word) == "torchrun" || word == "torch.distributed.run" || word == "torch.distributed.launch"
	})
}

// threads are how many a rank computes with; 0: one for each processor that it sees. It sees all of its host, whatever it may take of them, and so would
// each of several there; of such torchrun has each take one.
func (w *World) threads(p Placement, m Member) int {
	if m.Rank < w.first() {
		return 0 // an SL runs it, and what members need says nothing of it
	}
	g := w.Groups[m.group]
	if launches(slices.Concat(g.Command, g.Args)) {
		return 0 // it knows how many ranks it starts, and has each of several take one
	}
	needs := g.Resources
	if needs.CPU > 0 {
		return max(1, needs.CPU/1000/max(1, needs.GPU))
	}
	for rank, other := range p.Members {
		if rank != m.Rank && other.Host == p.Members[m.Rank].Host {
			return 1
		}
	}
	return 0
}
