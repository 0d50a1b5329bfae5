package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/suggest"
	"github.com/swarmd/swarmd/internal/text"
)

// Limits are what a task is held to while it runs on a host, all of its programs together. 0: no limit.
type Limits struct {
	CPUs   float64
	Memory int64   // bytes
	Hours  float64 // from when the host begins with it
}

// limits are those of a policy: numbers that a task must not exceed, and what of the host it may name.
type limits struct {
	held Limits
	gpus int   // -1: no limit
	disk int64 // bytes of members of jobs; 0: no limit

	artifacts    int64 // bytes that are kept; 0: the policy does not say, as of the age
	artifactsAge time.Duration

	volumes, paths, networks, isolation []string
	at                                  map[string]Source // of each limit that the policy has, by its name
}

// The names of limits, as policies have them.
const (
	cpusLimit, memoryLimit, gpusLimit, hoursLimit                   = "cpus", "memory", "gpus", "hours"
	volumesLimit, pathsLimit, networksLimit, isolationLimit         = "volumes", "paths", "networks", "isolation"
	maxCPUs, maxGPUs, maxHours, maxMemory                   float64 = 1 << 16, 1 << 16, 1 << 16, 1 << 50
)

// diskLimit is of what members of jobs write. They are placed by it, and nothing holds them to it.
const diskLimit = "disk"

// The limits of what members of jobs leave.
const artifactsLimit, artifactsDaysLimit = "artifacts", "artifacts_days"

// maxDays is how long artifacts are kept at most.
const maxDays = 3650

// The least limits: engines hold nothing to less, and take some of it for no limit.
const minCPUs, minMemory, minHours float64 = 0.01, 6 << 20, 0.001

// ownVolumes begins the names of volumes that swarmd makes, with the state of nodes. No policy gives them to tasks.
const ownVolumes = "swarmd-"

// Binds reports whether the policy gives any path of the host to a task that names it.
func (p *Policy) Binds() bool { return len(p.limits.paths) > 0 }

// Gives reports whether a path, without symbolic links, is one that the policy gives to a task that names it.
func (p *Policy) Gives(name string) bool { return below(p.limits.paths, name) }

// Withholds is the refusal of a task that names a path which the policy does not give. It is the same whatever is there, and wherever it
// leads: whoever asks for a path is not to learn what there is on the host.
func (p *Policy) Withholds(name string) Decision {
	d := p.over(pathsLimit, fmt.Sprintf("it asks for the path %.200q, which this host does not give: not by that name, or not where it leads", name), "add where it leads to "+pathsLimit)
	d.Reason, d.Remedy = text.Clip(text.Line(d.Reason), maxReason), text.Line(d.Remedy)
	return *d
}

// Names reports whether the policy gives a volume by its own name, not by a pattern.
func (p *Policy) Names(volume string) bool { return slices.Contains(p.limits.volumes, volume) }

// exceeds returns the refusal of a request that asks for more than the policy lets a task have; nil: it does not.
func (p *Policy) exceeds(r Request) *Decision {
	l := &p.limits
	if lacks := p.lacks(r); lacks != nil {
		return lacks
	}
	if aims := p.aims(r); aims != nil {
		return aims
	}
	for _, s := range r.Volumes {
		if strings.HasPrefix(s, ownVolumes) {
			return &Decision{
				By: Source{Text: "volumes of nodes are theirs alone"}, Reason: fmt.Sprintf("it asks for the volume %.200q, as volumes are named that keep the state and the key of a node", s),
				Remedy: "name another volume in the task",
			}
		}
	}
	for _, n := range []struct {
		name        string
		asks, limit float64
		set         bool
	}{
		{cpusLimit, r.CPUs, l.held.CPUs, l.held.CPUs > 0},
		{memoryLimit, float64(r.Memory), float64(l.held.Memory), l.held.Memory > 0},
		{gpusLimit, float64(r.GPUs), float64(l.gpus), p.kind == written && l.gpus >= 0},
		{hoursLimit, r.Hours, l.held.Hours, l.held.Hours > 0},
		{diskLimit, float64(r.Disk), float64(l.disk), l.disk > 0},
	} {
		if n.set && !r.holds(n.name) {
			return p.over(n.name, fmt.Sprintf("this host can't hold what it runs to %s %s", plainNumber(n.limit), unit(n.name)), "run tasks in containers, or take out "+n.name)
		}
		if n.set && n.name == gpusLimit && r.AllGPUs {
			return p.over(n.name, fmt.Sprintf("it would have all GPUs of this host by its profile, and this host gives %s", plainNumber(n.limit)), "name GPUs as device=… in the profile, or take out "+n.name)
		}
		if n.set && !(n.asks >= 0 && n.asks <= n.limit) { // also what is no number
			return p.over(n.name, fmt.Sprintf("it asks for %s %s, and this host gives %s", plainNumber(n.asks), unit(n.name), plainNumber(n.limit)), "raise "+n.name)
		}
	}
	for _, n := range []struct {
		name, what string
		asks       []string
		may        func(string) bool
	}{
		{volumesLimit, "volume", r.Volumes, func(s string) bool { return p.kind != written || listed(l.volumes, s) }},
		{pathsLimit, "path", r.Paths, func(s string) bool { return below(l.paths, s) }},
		{networksLimit, "network", r.Networks, func(s string) bool { return listed(l.networks, s) }},
		{isolationLimit, "opening", r.Isolation, func(s string) bool { return opened(l.isolation, s) }},
	} {
		for _, s := range n.asks {
			if !n.may(s) {
				return p.over(n.name, fmt.Sprintf("it asks for the %s %.200q, which this host does not give", n.what, s), "add it to "+n.name)
			}
		}
	}
	return nil
}

// over is the refusal of what exceeds a limit.
func (p *Policy) over(limit, reason, remedy string) *Decision {
	if p.kind != written {
		return &Decision{
			By: Source{Text: "no policy names any " + limit}, Reason: reason,
			Remedy: "start the host with a policy that allows it under limits: " + limit,
		}
	}
	at, ok := p.limits.at[limit]
	if !ok {
		at = Source{File: p.file, Line: 1, Text: "limits: no " + limit}
	}
	return &Decision{By: at, Reason: reason, Remedy: fmt.Sprintf("%s under limits in %s", remedy, path.Base(p.file))}
}

func plainNumber(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func unit(limit string) string {
	return map[string]string{cpusLimit: "CPUs", memoryLimit: "bytes of memory", diskLimit: "bytes of disk", artifactsLimit: "bytes", artifactsDaysLimit: "days", gpusLimit: "GPUs", hoursLimit: "hours"}[limit]
}

// listed reports whether a name is in a list, where a last * stands for any rest. The host's own network, and those of other
// containers, are meant only where they are written out.
func listed(list []string, name string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		prefix, open := strings.CutSuffix(entry, "*")
		return entry == name || open && strings.HasPrefix(name, prefix) && name != "" && name != "host" && !strings.HasPrefix(name, "container:")
	})
}

// below reports whether a path is one of the list, or in one of them.
func below(list []string, name string) bool {
	if !path.IsAbs(name) || path.Clean(name) != name {
		return false
	}
	return slices.ContainsFunc(list, func(dir string) bool {
		return name == dir || dir == "/" || strings.HasPrefix(name, dir+"/")
	})
}

// opened reports whether an opening is in a list: as it is, or its option alone, which stands for all its values.
func opened(list []string, opening string) bool {
	option, _, _ := strings.Cut(opening, "=")
	return slices.Contains(list, opening) || slices.Contains(list, option)
}

// openings are the engine's options that open a container's isolation.
func openings() []string {
	return []string{"privileged", "ipc", "pid", "uts", "userns", "cap-add", "security-opt", "device", "group-add"}
}

func checkOpening(s string) error {
	option, _, _ := strings.Cut(s, "=")
	if slices.Contains(openings(), option) {
		return nil
	}
	if near := suggest.Word(option, openings()); near != "" {
		return fmt.Errorf("%.80q opens no isolation: did you mean %s?", s, near)
	}
	return fmt.Errorf("%.80q opens no isolation: want one of %s, or one with =VALUE", s, strings.Join(openings(), ", "))
}

func checkPath(s string) error {
	if !path.IsAbs(s) || path.Clean(s) != s {
		return fmt.Errorf("%.80q: want an absolute path in which nothing is . or .. or empty, such as /srv/shared", s)
	}
	return nil
}

func checkEngineName(s string) error {
	if s == "" || strings.ContainsAny(strings.TrimSuffix(s, "*"), "* /\t\n") {
		return fmt.Errorf("%.80q is no name: want one of the engine's names, where a last * stands for any rest", s)
	}
	return nil
}

// parseMemory reads bytes, also as 512MiB, 64GiB, 512m or 64g, as the engine has it.
func parseMemory(s string) (float64, error) {
	digits := strings.TrimRight(s, "KMGTkmgtiBb")
	shift, ok := map[string]uint{"": 0, "b": 0, "k": 10, "kib": 10, "m": 20, "mib": 20, "g": 30, "gib": 30, "t": 40, "tib": 40}[strings.ToLower(s[len(digits):])]
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !ok {
		return 0, errors.New("want bytes, such as 64GiB or 512MiB")
	}
	return n * float64(uint64(1)<<shift), nil
}
