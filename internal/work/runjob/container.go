package runjob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path"
	"slices"
	"sync"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/jobrequest"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/artifacts"
	"github.com/swarmd/swarmd/internal/work/gpus"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
	"github.com/swarmd/swarmd/internal/work/jobcommand"
	"github.com/swarmd/swarmd/internal/work/localimage"
	"github.com/swarmd/swarmd/internal/work/secret"
	"github.com/swarmd/swarmd/internal/work/upload"
	"github.com/swarmd/swarmd/internal/work/volume"
)

// What a member finds in its container. The second file is where images for Oracle's Distributed Jobs look.
const (
	runDir     = "/run/swarm"
	oracleDir  = "/home/datascience"
	oracleFile = "job_run_cluster_metadata.json"
)

// Goods are what a host gives to members and takes of them.
type Goods struct {
	Secrets secret.Dir
	Left    *artifacts.Store // their artifacts
	Copies  *upload.Copier   // of these
}

// Containers runs members as containers. What has become of them the engine tells, which has all of a member by its labels.
type Containers struct {
	Node  string // the host's name in the swarm
	Scope string
	Open  func(ctx context.Context) (*engine.Engine, error)
	// Lookup finds the addresses of hosts that are known by names.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	Paths  hostpaths.Resolver // of the engine's host
	// Limits are what members of one epoch may take of this host together.
	Limits policy.Limits
	GPUs   gpus.Pool // of the engine's host, as it names them
	Goods  Goods
	Watch  *Watch
	Log    *slog.Logger

	making sync.Mutex // of networks: one at a time
	prober prober
	execs  execs
	made   made
}

var (
	_ work.Executor = (*Containers)(nil)
	_ work.Printer  = (*Containers)(nil)
)

// Image finds the images of a job at the engine, and fetches none.
func (c *Containers) Image(ctx context.Context, t *task.Task) (*policy.Image, error) {
	job, err := jobfile.Decode(t.Definition)
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", t.Name, err)
	}
	w, err := framework.WorldOf(job)
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", job.Name, err)
	}
	names, err := jobrequest.Images(w)
	if err == nil && len(names) == 0 {
		err = errors.New("it has no image, and this host runs jobs in containers: name one")
	}
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", job.Name, err)
	}
	e, err := c.Open(ctx)
	if err != nil {
		return nil, work.EngineFails(err)
	}
	defer e.Close()
	var all []*policy.Image
	for _, name := range names {
		found, err := localimage.OfName(ctx, e, name, &engine.Error{
			Err:  fmt.Errorf("job %s needs image %.200s, and this host has none of that name", job.Name, name),
			Help: "have it fetched by a task of type PULL_IMAGE, or built there",
		})
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	return policy.NewImages(all...)
}

// Prepare implements work.Executor: it makes the member's container, with all that it finds there, and the network that the members share. In a network
// that hosts share it makes sure of the member's address there, by which the others find it, and Start makes the container.
func (c *Containers) Prepare(ctx context.Context, j work.Job) error {
	job, w, err := jobOf(j)
	if err != nil {
		return err
	}
	e, err := c.Open(ctx)
	if err != nil {
		return work.OfEngine(err)
	}
	defer e.Close()
	if err := c.remove(ctx, e, j.Label, !shared(job.Network)); err != nil { // what a try before has left; the network may have another member by now
		return work.OfEngine(err)
	}
	image, err := localimage.Decided(ctx, e, j, imageOf(w, j.Group))
	if err != nil {
		return fmt.Errorf("job %s, group %s: %w", job.Name, j.Group, work.OfEngine(err))
	}
	if shared(job.Network) {
		own, err := holdAddress(ctx, c, e, j, job.Network, image)
		if err != nil {
			return fmt.Errorf("job %s: %w", job.Name, work.OfEngine(err))
		}
		// What is wrong with it is reported now. The others' addresses are not known yet, and nothing is made of these.
		_, err = boxOf(ctx, c, j, job, w, groundAt(job, slices.Repeat([]netip.Addr{own}, len(j.World))))
		return err
	}
	g, err := c.ground(ctx, e, j, job, ranks(j, w))
	if err != nil {
		return err
	}
	b, err := boxOf(ctx, c, j, job, w, g)
	if err != nil {
		return err
	}
	return makeBox(ctx, c, e, b, image, j.Label)
}

// imageOf is the image of a group.
func imageOf(w *framework.World, group string) string {
	for _, g := range w.Groups {
		if g.Name == group {
			return g.Image
		}
	}
	return ""
}

// ground is what members stand on: a network of their own without a way out, or the host's.
func (c *Containers) ground(ctx context.Context, e *engine.Engine, j work.Job, job *jobfile.Job, world []task.Site) (g ground, err error) {
	if job.Network == jobfile.Host {
		addresses, err := resolved(ctx, world, c.Lookup)
		g = groundAt(job, addresses)
		if err == nil {
			g.device = address.Device(addresses[rankOf(j, world)])
		}
		return g, err
	}
	for _, p := range j.World {
		if p.Node != j.Node {
			return g, fmt.Errorf("job %s has a private network, which is on one host, and members on %s and %s: run it with network: host", job.Name, j.Node, p.Node)
		}
	}
	network, addresses, err := c.private(ctx, e, j)
	g = groundAt(job, addresses)
	g.network = network
	return g, work.OfEngine(err)
}

// groundAt is what members find in their containers, which have these addresses in the network that the job names.
func groundAt(job *jobfile.Job, addresses []netip.Addr) ground {
	return ground{network: job.Network, addresses: addresses, artifacts: job.Artifacts.Dir, metadata: path.Join(runDir, metadataFile), secrets: path.Join(runDir, secretsDir)}
}

// spec is the member's container, but for its image.
func (c *Containers) spec(m member, j work.Job, g ground) (s container.Spec, err error) {
	if m.group.Image == "" {
		return s, errors.New("it has no image, and this host runs jobs in containers: name one")
	}
	if err := jobcommand.CheckEnv(m.group, false); err != nil {
		return s, err
	}
	s = container.Spec{
		Node: j.Node, Scope: c.Scope, AnyFramework: true, Name: c.nameOf(j.Label), WorkDir: path.Join(runDir, sourceDir), Network: g.network, LeadsOut: g.leadsOut,
		Hostname: m.placed.Members[m.program.Rank].Name, Hosts: hostsOf(m.placed), Own: []string{runDir, oracleDir}, Detached: true, NoInit: c.made.noInit.Load(), Grace: m.job.Grace,
		User: start.Caller(os.Getenv), ShmSize: m.group.Resources.Shm, Entrypoint: m.program.Words(), Cmd: m.program.Args, Log: c.Log,
	}
	if len(s.Entrypoint) == 0 && len(s.Cmd) == 0 {
		s.Cmd = []string{} // the image's own
	}
	if g.network == jobfile.Host && !m.program.Meeting.Set() && !m.program.Starter.Itself {
		s.Hostname = "" // the host's
	}
	if g.network != jobfile.Host {
		s.IP = m.placed.Members[m.program.Rank].Address
	}
	for _, v := range m.program.Env {
		s.Env = append(s.Env, v.Name+"="+v.Value)
	}
	for _, name := range asEnv(m.group.Secrets) {
		value, err := c.Goods.Secrets.Variable(name)
		if err != nil {
			return s, err
		}
		s.Env = append(s.Env, name+"="+value)
	}
	q := questionOf(m)
	if q.Apart = g.network != jobfile.Host; shared(m.job.Network) {
		q.Network, q.Bridge = m.job.Network, g.bridge
	}
	asked, err := json.Marshal(q)
	if err != nil {
		return s, err
	}
	for k, v := range volume.Labels(j.Label, engine.RoleMember, c.Scope) {
		s.Labels = append(s.Labels, k+"="+v)
	}
	s.Labels = append(s.Labels, // whatever its image says
		engine.LabelReady+"="+string(asked), engine.LabelHolds+"=", engine.LabelNamed+"="+m.placed.Members[m.program.Rank].Name, engine.LabelLeadsOut+"="+leadsOut(g))
	holdTo(&s, m.group.Resources, c.Limits, ownMembers(j))
	return s, nil
}

// leadsOut is what the label of that name says of a container.
func leadsOut(g ground) string {
	if g.leadsOut {
		return "yes"
	}
	return ""
}

// ownMembers is how many members of the epoch are this host's.
func ownMembers(j work.Job) (n int) {
	for _, p := range j.World {
		if p.Node == j.Node {
			n++
		}
	}
	return n
}

// holdTo holds a member to what it asks for, and to its part of what the host gives: the less of the two.
func holdTo(s *container.Spec, asks jobfile.Resources, gives policy.Limits, members int) {
	least := func(a, b float64) float64 {
		if a == 0 || b == 0 {
			return a + b
		}
		return math.Min(a, b)
	}
	s.CPUs = least(float64(asks.CPU)/1000, gives.CPUs/float64(members))
	s.Memory = int64(least(float64(asks.Memory), float64(gives.Memory/int64(members))))
}
