package taskfile

import (
	"strconv"
	"strings"
)

// maxGPUs are counted of a program.
const maxGPUs = 1024

// GPUs is how many GPUs of the host its profile gives to the programs of its nodes, each counted once; all says that it names no number, or
// devices that could be any.
func (p *Profile) GPUs() (count int, all bool) {
	named := map[string]bool{}
	for i := range p.Nodes {
		all = p.Nodes[i].User.gpus(named) || all
	}
	return len(named), all
}

// gpus adds the GPUs of a program to those that are named, and reports whether it may have any.
func (o ContainerOptions) gpus(named map[string]bool) (all bool) {
	list, devices := strings.CutPrefix(strings.Trim(o.GPUs, `"'`), "device=")
	n, err := strconv.Atoi(list)
	switch {
	case list == "":
	case devices:
		for name := range strings.SplitSeq(list, ",") {
			named[strings.TrimSpace(name)] = true
		}
	case err == nil && n >= 0 && n <= maxGPUs:
		for i := range n { // the first ones
			named[strconv.Itoa(i)] = true
		}
	default:
		all = true
	}
	for _, d := range o.Devices {
		at, _, _ := strings.Cut(d, ":")
		switch {
		case at == "/dev/kfd": // which each program on AMD's needs beside its GPUs
		case strings.HasPrefix(at, "/dev/dri/renderD"), strings.HasPrefix(at, "/dev/dri/card"):
			named[at] = true
		case strings.HasPrefix(at, "/dev/nvidia"):
			if id := strings.TrimPrefix(at, "/dev/nvidia"); id != "" && strings.Trim(id, "0123456789") == "" {
				named[id] = true
			}
		case at == "/dev", strings.HasPrefix(at, "/dev/dri"):
			all = true
		}
	}
	return all || o.Privileged
}
