package adsfile

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// Why fields are ignored.
const (
	noTenancy = "there is no tenancy here: who may do what is said by sentences of hosts and of the swarm"
	noLogs    = "logs stay on their hosts: swarmctl get logs"
	noSubnet  = "members are on hosts that the swarm has already"
	noTags    = "jobs have no tags"
	noKinds   = "there is one kind of job here"
)

// infrastructure reads what ADS has of machines. Returned are what each member needs, and its volumes.
func (r *reader) infrastructure(v yamlfile.Value) (needs jobfile.Resources, volumes []jobfile.Volume) {
	outer := r.fields(v, "kind", "type", "apiVersion", "spec", "name")
	if outer == nil {
		return needs, nil
	}
	if t := text(outer.Get("type", 0)); t != "" && t != "dataScienceJob" {
		outer.refuse("type", "is %q: machines of the type dataScienceJob are read", yamlfile.Excerpt(t))
	}
	f := r.fields(outer.Get("spec", 0), "displayName", "compartmentId", "projectId", "logGroupId", "logId", "subnetId", "shapeName", "shapeConfigDetails", "blockStorageSize", "jobType",
		"jobInfrastructureType", "storageMount", "enableAutoLogCreation", "tags", "freeformTags", "definedTags")
	if f == nil {
		return needs, nil
	}
	r.name(f.Get("displayName", 0))
	f.ignore(noTenancy, "compartmentId", "projectId")
	f.ignore(noLogs, "logGroupId", "logId", "enableAutoLogCreation")
	f.ignore(noSubnet, "subnetId")
	f.ignore(noKinds, "jobType", "jobInfrastructureType")
	f.ignore(noTags, "tags", "freeformTags", "definedTags")
	needs = r.shape(f, "shapeName", "shapeConfigDetails", "blockStorageSize")
	for _, item := range f.Get("storageMount", 0).List() {
		m := r.fields(item, "src", "dest")
		if m != nil {
			volumes = r.mounted(m, text(m.Get("src", yamlfile.Broken)), text(m.Get("dest", yamlfile.Broken)), volumes)
		}
	}
	return needs, volumes
}

// shape reads a machine's shape. Machines are not rented here: GPUs are asked for, without which a program would do something else, and how large the
// machine was is said.
func (r *reader) shape(f *fields, shape, config, disk string) (needs jobfile.Resources) {
	name := text(f.Get(shape, 0))
	if n := gpus(name); n > 0 {
		needs.GPU = n
		f.note(shape, "%s: each node asks for as many GPUs, gpu=%d; without: --resources gpu=0", yamlfile.Excerpt(name), n)
	} else if name != "" {
		f.ignore("hosts are not rented by shape: where members are to be sure of CPUs and memory, ask for them with --resources, as cpu=CPUS,memory=SIZE", shape)
	}
	if c := r.fields(f.Get(config, 0), "ocpus", "memoryInGBs", "cpuBaseline"); c != nil && f.given(config) {
		var asks []string
		if s := text(c.Get("ocpus", 0)); s != "" {
			asks = append(asks, "cpu="+cpus(name, s))
		}
		if s := text(c.Get("memoryInGBs", 0)); s != "" {
			asks = append(asks, fmt.Sprintf("memory=%sGB", yamlfile.Excerpt(strings.TrimSuffix(s, ".0"))))
		}
		f.ignore("members have what their hosts have; to be placed by it: --resources "+strings.Join(asks, ","), config)
	}
	f.ignore("members write where their hosts have room; to be placed by it: --resources disk="+yamlfile.Excerpt(text(f.Get(disk, 0)))+"GB", disk)
	return needs
}

// cpus are those of OCPUs: an OCPU is two of them, but for one of the Arm machines of the first kind.
func cpus(shape, ocpus string) string {
	n, err := strconv.ParseFloat(ocpus, 64)
	if err != nil {
		return yamlfile.Excerpt(ocpus)
	}
	if !strings.Contains(strings.ToUpper(shape), ".A1.") {
		n *= 2
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// mounted adds a file system or bucket that a member has at a path. A path that is none from the root is below /mnt, as Oracle has it.
func (r *reader) mounted(f *fields, source, target string, volumes []jobfile.Volume) []jobfile.Volume {
	if f.Of.Doc.Broken() {
		return volumes
	}
	at := target
	if !path.IsAbs(at) {
		at = path.Join("/mnt", at)
	}
	if at = path.Clean(at); strings.Contains("/"+target+"/", "/../") || at == "/" {
		f.Of.Find(yamlfile.Broken, "%s is at %s: write a path without .., from the root or below /mnt", f.Of.Name, yamlfile.Excerpt(target))
		return volumes
	}
	x := jobfile.Volume{Name: volume(source), Target: at, Write: true}
	if _, err := jobfile.ReadVolumes([]string{x.String()}); err != nil {
		f.Of.Find(yamlfile.Broken, "%s: %v", f.Of.Name, err)
		return volumes
	}
	f.Of.Find(yamlfile.Noted, "%s %s becomes volume %s: each host's policy says under folders which folder %s is, with use: write", f.Of.Name, yamlfile.Excerpt(source), x, x.Name)
	if slices.ContainsFunc(volumes, func(y jobfile.Volume) bool { return y.Name == x.Name }) {
		f.Of.Find(yamlfile.Broken, "%s %s would be volume %s, as another one is: a host has one folder under a name, so write the job as a job file, with volumes of two names", f.Of.Name, yamlfile.Excerpt(source), x.Name)
		return volumes
	}
	if prefixedPlace(source) {
		f.Of.Find(yamlfile.Noted, "%s: what is behind the bucket in %s is left out: the host's owner says which folder the volume is", f.Of.Name, yamlfile.Excerpt(source))
	}
	if slices.ContainsFunc(volumes, func(y jobfile.Volume) bool { return y.Target == x.Target }) {
		f.Of.Find(yamlfile.Broken, "%s is at %s, where another one is: choose another path", f.Of.Name, x.Target)
		return volumes
	}
	return append(volumes, x)
}
