package containers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
	"github.com/swarmd/swarmd/internal/work/taskenv"
)

// What engines hold a container to at least.
const (
	leastCPUs   = 0.01
	leastMemory = 6 << 20 // bytes
)

// sharedContent is the field of a task that names directories and volumes of hosts.
const sharedContent = "SharedContent"

// programOf reads the task of a job.
func programOf(t *task.Task) (taskfile.RunSwarm, error) {
	body, err := taskfile.ReadBody(t.Type, t.Definition)
	if err != nil {
		return taskfile.RunSwarm{}, fmt.Errorf("task %s: %w", t.Name, err)
	}
	run, ok := body.(taskfile.RunSwarm)
	if !ok {
		return run, fmt.Errorf("task %s is no %s", t.Name, task.RunSwarm)
	}
	if err := taskenv.Check(run.Env, false); err != nil {
		return run, fmt.Errorf("task %s: %w", t.Name, err)
	}
	return run, nil
}

// part is one SL that a member starts.
type part struct {
	sl    start.SL
	env   start.Env
	marks map[string]string
}

// parts are the SLs of a job.
func (r *Runner) parts(ctx context.Context, j work.Job, run taskfile.RunSwarm, image string) (all []part, err error) {
	leads, err := hostpaths.Bindable(ctx, r.Paths, j.Grant.Paths, r.owned(run))
	if err != nil {
		return nil, err
	}
	for i := range r.Profile.Nodes {
		n := &r.Profile.Nodes[i]
		sl, err := r.sl(n, j, run, image, leads)
		if err != nil {
			return nil, fmt.Errorf("node %d of the profile: %w", n.Index, err)
		}
		all = append(all, part{sl: sl, env: r.Env, marks: marks(j.Label, len(r.Profile.Nodes))})
	}
	if len(all) == 0 {
		return nil, errors.New("the profile has no nodes: list them under nodes")
	}
	return all, nil
}

// marks are a member's labels.
func marks(l work.Label, parts int) map[string]string {
	return map[string]string{
		engine.LabelSwarm: l.Swarm, engine.LabelHost: l.Node, engine.LabelAssignment: l.Assignment, engine.LabelEpoch: strconv.FormatUint(uint64(l.Epoch), 10),
		engine.LabelMember: strconv.FormatUint(uint64(l.Member), 10), engine.LabelParts: strconv.Itoa(parts),
	}
}

// nodeName is an SL's name in the swarm. It is the same in each assignment, since its key is.
func (r *Runner) nodeName(n *taskfile.Node) string { return fmt.Sprintf("%s-sl-%d", r.Node, n.Index) }

// containerName names a container as the original does: GROUP-TASK-s-INDEX-HEX for an SL, u for a user's program.
func (r *Runner) containerName(kind string, n *taskfile.Node, j work.Job) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %d %d %d", j.Swarm, j.Node, j.Label.Assignment, j.Epoch, j.Member, n.Index))
	return fmt.Sprintf("%s-%s-%s-%d-%s", r.Profile.GroupName, j.Task.Name, kind, n.Index, hex.EncodeToString(sum[:8]))
}

// sl is the SL of a node, with the task's program.
func (r *Runner) sl(n *taskfile.Node, j work.Job, run taskfile.RunSwarm, image string, leads map[string]string) (start.SL, error) {
	o := start.SL{Node: start.Node{
		Name: r.nodeName(n), TrustDomains: r.Host.TrustDomains, SPIFFEPrefix: r.Host.SPIFFEPrefix, SwarmID: r.Host.SwarmID, LogLevel: r.Host.LogLevel,
		Certificates: start.Certificates{Roles: r.Host.Roles},
		Container: component.Options{
			Name: r.containerName("s", n, j), Hostname: cmp.Or(n.SLHostname, r.nodeName(n)), Network: r.Profile.Network, IP: n.SLAddress, Detach: true,
			Env: pairs(r.Profile.SLEnv(n)), Labels: pairs(n.SLLabels), DNS: r.Profile.DNS,
		},
	}, SNs: r.SNs, FSPort: start.Port(n.SLPort), FSService: n.SLFSService, Part: j.Part(), LogsTo: []string{logs.None}} // its host hands out what it prints, as the policy says
	if !r.Profile.SetsSessionTimeout(n) {
		o.SessionTimeout = r.SessionTimeout
	}
	if r.Profile.Network == "host" {
		o.Container.Hostname = n.SLHostname
	}
	if n.SLPort != 0 && r.Profile.Network != "host" {
		o.Container.Publish = []string{fmt.Sprintf("%d:%d", n.SLPort, n.SLPort)}
	}
	o.Host = cmp.Or(n.SLHostIP, n.SLAddress, r.reached(n, o.Container.Name))
	if err := r.identify(&o.Node, n); err != nil {
		return o, err
	}
	mounts, err := mounts(run, n, leads)
	if err != nil {
		return o, err
	}
	o.ML = start.ML{
		Runtime: start.Docker, Image: image, WorkDir: run.WorkingDir, Name: r.containerName("u", n, j), Volumes: mounts, Env: pairs(n.ProgramEnv(run)),
		Devices: n.User.Devices, IPC: n.User.IPC, GroupAdd: n.User.GroupAdd, CapAdd: n.User.CapAdd, SecurityOpt: n.User.SecurityOpt,
		Privileged: n.User.Privileged, GPUs: n.User.GPUs, Hostname: n.UserHostname, Labels: pairs(n.UserLabels),
	}
	if n.UserAddress != "" { // the owner's word, in the profile, that the program is in the network; without it there is none, so that no data leave by it
		o.ML.Network, o.ML.IP, o.ML.DNS = r.Profile.Network, n.UserAddress, r.Profile.DNS
	}
	for _, w := range []struct {
		field string
		words *start.Words
		text  string
	}{{"Entrypoint", &o.ML.Entrypoint, run.Entrypoint}, {"Command", &o.ML.Cmd, run.Command}} {
		if err := w.words.UnmarshalText([]byte(w.text)); err != nil {
			return o, fmt.Errorf("%s: %w", w.field, err)
		}
	}
	if err := hold(&o.ML, r.Terms.Limits, len(r.Profile.Nodes)); err != nil {
		return o, err
	}
	if err := o.ML.ShmSize.UnmarshalText([]byte(n.User.ShmSize)); err != nil {
		return o, fmt.Errorf("shm-size %s: %w", n.User.ShmSize, err)
	}
	return o, o.Settle()
}

// hold gives each of a host's programs its part of what the task may take there. An engine holds their number of processes in any case.
func hold(ml *start.ML, l policy.Limits, programs int) error {
	ml.CPUs, ml.Memory = start.CPUs(l.CPUs/float64(programs)), start.Size(l.Memory/int64(programs))
	switch {
	case l.CPUs > 0 && ml.CPUs < leastCPUs:
		return fmt.Errorf("this host's policy gives %v CPUs to %d programs, which engines can't hold them to: raise cpus under limits", l.CPUs, programs)
	case l.Memory > 0 && ml.Memory < leastMemory:
		return fmt.Errorf("this host's policy gives %d bytes of memory to %d programs, and engines take 6m for each at least: raise memory under limits", l.Memory, programs)
	}
	return nil
}

// reached is where other nodes reach an SL of which the profile does not say it: by its container's name in a network of the user's, where
// engines have a DNS; else at the host's address.
func (r *Runner) reached(n *taskfile.Node, container string) string {
	if r.Profile.Network == "host" || n.SLPort != 0 {
		return r.Host.Host
	}
	return container
}

// identify gives an SL the identity that the profile names, by paths of this host and volumes; without one the SWOP's own source of identities is asked.
func (r *Runner) identify(o *start.Node, n *taskfile.Node) error {
	if len(n.Identity) == 0 {
		if r.Host.Cert != "" {
			return errors.New("it has no identity, and a SWOP's certificate is not lent to SLs: name the SL's KEY and CERT in identity")
		}
		o.Identity, o.SocketPath, o.Agent = r.Host.Identity, r.Host.SocketPath, maps.Clone(r.Host.Agent)
		delete(o.Agent, "join-file") // its token was the SWOP's, and is used: the SL has one made
		return nil
	}
	return o.TakeMounted(n.Identity)
}

// owned are the directories of this host that its profile gives to the program.
func (r *Runner) owned(run taskfile.RunSwarm) (all []string) {
	for i := range r.Profile.Nodes {
		if d := r.Profile.Nodes[i].PrivateData; run.PrivateContent != "" && filepath.IsAbs(d.Src) && !strings.EqualFold(d.MountType, taskfile.Volume) {
			all = append(all, d.Src)
		}
	}
	return all
}

// mounts are what the program sees of this host: the node's private data where the task wants it, and what all share. leads are where paths
// lead: nothing is bound by a symbolic link. A path of the task's that is not among them nobody was asked about.
func mounts(run taskfile.RunSwarm, n *taskfile.Node, leads map[string]string) (all []string, err error) {
	add := func(of, src, tgt, kind string) {
		named := strings.EqualFold(kind, taskfile.Volume)
		at, followed := leads[src]
		if followed && !named {
			src = at
		}
		switch {
		case of == sharedContent && !named && filepath.IsAbs(src) && !followed:
			err = errors.Join(err, fmt.Errorf("%s names the directory %.200q, which this host's policy was not asked about: assign the task again", of, src))
		case strings.Contains(src, ":") || strings.Contains(tgt, ":"):
			err = errors.Join(err, fmt.Errorf("%s mounts %.200q at %.200q: leave colons out", of, src, tgt))
		case !path.IsAbs(tgt) || path.Clean(tgt) == "/":
			err = errors.Join(err, fmt.Errorf("%s is mounted at %.200q: write an absolute path below /", of, tgt))
		case !named && !filepath.IsAbs(src):
			err = errors.Join(err, fmt.Errorf("%s names the directory %.200q: write its absolute path on this host, or the name of a volume with MType VOLUME", of, src))
		case named && strings.Contains(src, "/"):
			err = errors.Join(err, fmt.Errorf("%s names the volume %.200q: a path has MType BIND", of, src))
		default:
			all = append(all, src+":"+tgt)
		}
	}
	if n.PrivateData.Src != "" && run.PrivateContent != "" {
		add("PrivateContent", n.PrivateData.Src, run.PrivateContent, n.PrivateData.MountType)
	}
	for _, s := range run.SharedContent {
		add(sharedContent, s.Src, s.Tgt, s.MountType)
	}
	return all, err
}

// pairs are variables or labels as engines take them.
func pairs(vars []taskfile.Var) (all []string) {
	for _, v := range vars {
		all = append(all, v.Name+"="+v.Value)
	}
	return all
}
