package adsfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// readRole is what nodes of one mode have of their own.
type role struct {
	replicas int
	image    string // empty: the cluster's
	env      []jobfile.Var
	options  []string       // of the framework's own program
	at       yamlfile.Value // where these stand
}

// readCluster is what ADS launches: a main node, its workers, and parameter servers.
type cluster struct {
	at               yamlfile.Value // where its kind stands
	kind             string
	image            string
	main, worker, ps role
	env              []jobfile.Var // of all
	program          program
	needs            jobfile.Resources
	volumes          []jobfile.Volume
	idle             bool // it lives on without a program
}

// idleFor is how long a cluster lives that is not ephemeral: ADS has such ones without a time.
const idleFor = 24 * time.Hour

// Groups of frameworks.
const (
	mainGroup = "main"
	workers   = "worker"
	servers   = "ps"
)

// frameworks are those that clusters are of. Each makes the groups of the job.
var frameworks = map[string]func(*reader, *cluster){
	"DASK":       daskNodes,
	"HOROVOD":    horovodNodes,
	"PYTORCH":    pytorchNodes,
	"RAY":        rayNodes,
	"TENSORFLOW": tensorflowNodes,
}

// buildCluster makes the job of a cluster.
func buildCluster(r *reader, c *cluster) {
	j := r.job
	groups := frameworks[c.kind]
	if groups == nil {
		c.at.Find(yamlfile.Broken, "%s %q is not known%s", c.at.Name, yamlfile.Excerpt(c.kind), yamlfile.Meant(c.kind, []string{"DASK", "HOROVOD", "PYTORCH", "RAY", "TENSORFLOW"}))
		return
	}
	j.Framework, j.Replicas = strings.ToLower(c.kind), 0
	j.Settings = jobfile.Settings{Image: c.image, Env: jobfile.WithVars(c.env, c.program.env), Resources: c.needs, Volumes: c.volumes}
	j.Command, j.Args = c.program.command, c.program.args
	if on, _ := lookup(j.Env, "PROFILE"); on == "1" && len(j.Command) > 0 {
		cmd, _ := lookup(j.Env, "PROFILE_CMD")
		j.Command = slices.Concat(divided(c.at, cmd), j.Command)
	}
	if c.kind != "TENSORFLOW" && c.ps.replicas > 0 {
		c.at.Find(yamlfile.Broken, "a cluster of %s has no ps: leave it out", strings.ToLower(c.kind))
	}
	if c.idle {
		j.TTL = idleFor
	}
	groups(r, c)
	keepArtifacts(r, c)
	j.Env = r.filled(c.at, j.Env)
	for i := range j.Groups {
		if r.Broken() {
			return
		}
		j.Groups[i].Env = r.filled(c.at, j.Groups[i].Env)
	}
}

// syncDir is where programs of ADS leave what is to be kept.
const syncDir = "/opt/ml"

// keepArtifacts has hosts keep what members leave, where the file has it copied, or names the folder: hosts refuse that where their SWOP is in a container.
func keepArtifacts(r *reader, c *cluster) {
	j := r.job
	named := func(s jobfile.Settings) bool {
		return slices.ContainsFunc(s.Env, func(v jobfile.Var) bool { return strings.Contains(v.Value, syncDir) }) ||
			slices.ContainsFunc(slices.Concat(s.Command, s.Args), func(w string) bool { return strings.Contains(w, syncDir) })
	}
	if !r.artifacts && !named(j.Settings) && !slices.ContainsFunc(j.Groups, func(g jobfile.Group) bool { return named(g.Settings) }) {
		return
	}
	j.Artifacts = jobfile.Artifacts{Dir: syncDir, Every: jobfile.DefaultEvery}
	if r.every > 0 {
		j.Artifacts.Every = r.every
	}
	c.at.Find(yamlfile.Noted, "what members leave in %s their hosts keep, for swarmctl get artifacts; a job file's artifacts.to has it copied to a target of the hosts", syncDir)
}

// of are the settings of a role: what it has of its own before what stands above.
func (c *cluster) of(j *jobfile.Job, x role) jobfile.Settings {
	s := j.Settings
	s.Env = jobfile.WithVars(s.Env, x.env)
	s.Env = with(s.Env, "OCI__START_ARGS", strings.Join(x.options, " "))
	if x.image != "" {
		s.Image = x.image
	}
	return s
}

// serving are those of a role whose members run the framework's own program.
func (c *cluster) serving(j *jobfile.Job, x role) jobfile.Settings {
	s := c.of(j, x)
	s.Command, s.Args = nil, x.options
	return s
}

// alike reports whether main and worker nodes differ in nothing.
func (c *cluster) alike() bool {
	return c.main.image == c.worker.image && slices.Equal(c.main.env, c.worker.env)
}

// sayImagesOwn says that members run what their image has.
func sayImagesOwn(r *reader, c *cluster) {
	if len(r.job.Command) == 0 {
		c.at.Find(yamlfile.Noted, "there is no entryPoint: members run their image's own program")
	}
}

// rankedNodes makes the groups of a framework whose nodes all run the program, each so many times.
func rankedNodes(r *reader, c *cluster, mains, others int) {
	j := r.job
	sayNoOptions(c)
	sayImagesOwn(r, c)
	j.Groups = []jobfile.Group{{Name: mainGroup, Replicas: mains, Settings: c.of(j, c.main)}}
	if n := c.worker.replicas * others; n > 0 {
		j.Groups = append(j.Groups, jobfile.Group{Name: workers, Replicas: n, Settings: c.of(j, c.worker)})
	}
}

// sayNoOptions says that the framework has no program of its own that takes options.
func sayNoOptions(c *cluster) {
	said := map[int]bool{}
	for _, x := range []role{c.main, c.worker, c.ps} {
		if len(x.options) > 0 && !said[x.at.Node.Line] { // those of all kinds of nodes once
			said[x.at.Node.Line] = true
			x.at.Find(yamlfile.Noted, "%s is ignored but for the variable OCI__START_ARGS: %s has no program of its own that takes options", x.at.Name, strings.ToLower(c.kind))
		}
	}
}

func pytorchNodes(r *reader, c *cluster) {
	if c.needs.GPU > 1 && slices.Contains(r.job.Command, "python3") {
		i := slices.Index(r.job.Command, "python3")
		r.job.Command = slices.Insert(slices.Clone(r.job.Command), i+1, "-m", "torch.distributed.run")
		c.at.Find(yamlfile.Noted, "a node of %d GPUs has as many ranks: torch.distributed.run starts them", c.needs.GPU)
	}
	rankedNodes(r, c, 1, 1)
}

// horovodNodes has a member for each slot: it is started without horovodrun, and without ssh.
func horovodNodes(r *reader, c *cluster) {
	all := jobfile.WithVars(jobfile.WithVars(c.env, c.program.env), c.main.env)
	mains := slotsOf(r, c, c.main)
	others := mains
	if own, is := lookup(c.worker.env, "SLOTS"); is || len(c.main.env) > 0 {
		if same, _ := lookup(c.main.env, "SLOTS"); own != same {
			others = slotsOf(r, c, c.worker)
		}
	}
	if r.Broken() {
		return
	}
	for _, name := range []string{"HOROVOD_ARGS", "MIN_NP", "MAX_NP", "NP"} {
		if _, is := lookup(all, name); is {
			sayOf(r, c, name, yamlfile.Noted, "is ignored but for the variable: there is no horovodrun, and all members run from the start")
		}
	}
	if s, _ := lookup(all, "ENABLE_TIMELINE"); s == "1" {
		r.job.Env = with(r.job.Env, "HOROVOD_TIMELINE", syncDir+"/timeline.json")
		sayOf(r, c, "ENABLE_TIMELINE", yamlfile.Noted, "becomes HOROVOD_TIMELINE=%s/timeline.json", syncDir)
	}
	rankedNodes(r, c, mains, others)
	if c.needs.GPU > 0 { // those of a node are divided among its slots
		for i, slots := range []int{mains, others}[:len(r.job.Groups)] {
			r.job.Groups[i].Resources.GPU = max(1, c.needs.GPU/slots)
		}
	}
}

// slotsOf is how many ranks a node has: as many as it says, and has GPUs.
func slotsOf(r *reader, c *cluster, x role) int {
	env := jobfile.WithVars(jobfile.WithVars(c.env, c.program.env), x.env)
	s, is := lookup(env, "SLOTS")
	switch {
	case !is && c.needs.GPU > 0:
		c.at.Find(yamlfile.Noted, "SLOTS is not said: a node has as many members as it has GPUs, %d", c.needs.GPU)
		return c.needs.GPU
	case !is:
		c.at.Find(yamlfile.Noted, "SLOTS is not said: a node has one rank here, and one for each CPU there; swarmctl run job --replicas has more members")
		return 1
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 64 {
		sayOf(r, c, "SLOTS", yamlfile.Broken, "is %q: give a number from 1 to 64", yamlfile.Excerpt(s))
		return 1
	}
	if c.needs.GPU > 0 && n > c.needs.GPU {
		sayOf(r, c, "SLOTS", yamlfile.Noted, "is %d, and a node has %d GPUs: it has as many slots, as ADS has it", n, c.needs.GPU)
		n = c.needs.GPU
	}
	if n > 1 {
		sayOf(r, c, "SLOTS", yamlfile.Noted, "is %d: each slot of a node is a member of its own", n)
	}
	return n
}

// sayOf says something of a variable, in its line.
func sayOf(r *reader, c *cluster, name string, w yamlfile.Weight, format string, args ...any) {
	at, is := r.places[name]
	if !is {
		at = c.at
	}
	at.Find(w, "%s: %s %s", at.Name, name, fmt.Sprintf(format, args...))
}

// tensorflowNodes has no chief without parameter servers: the main node is the first worker.
func tensorflowNodes(r *reader, c *cluster) {
	j := r.job
	sayNoOptions(c)
	sayImagesOwn(r, c)
	if c.ps.replicas == 0 && c.alike() {
		j.Groups = []jobfile.Group{{Name: workers, Replicas: 1 + c.worker.replicas, Settings: c.of(j, c.main)}}
		return
	}
	if c.ps.replicas == 0 {
		c.at.Find(yamlfile.Noted, "the main node has an image or variables of its own, and is of the type chief in TF_CONFIG")
	}
	j.Groups = []jobfile.Group{{Name: "chief", Replicas: 1, Settings: c.of(j, c.main)}}
	if c.worker.replicas > 0 {
		j.Groups = append(j.Groups, jobfile.Group{Name: workers, Replicas: c.worker.replicas, Settings: c.of(j, c.worker)})
	}
	if c.ps.replicas > 0 {
		j.Groups = append(j.Groups, jobfile.Group{Name: servers, Replicas: c.ps.replicas, Settings: c.of(j, c.ps)})
	}
}

// daskNodes has its program beside the scheduler, in the main node.
func daskNodes(r *reader, c *cluster) {
	j := r.job
	c.main.options = schedulerOptions(c)
	c.worker.options = workerOptions(r, c)
	servedNodes(r, c, "scheduler")
	if len(j.Command) == 0 && j.TTL == 0 {
		c.at.Find(yamlfile.Broken, "the cluster has no program: write runtime.spec.entryPoint, or ephemeral: false for one that others use")
	}
}

// rayNodes has its program beside the head.
func rayNodes(r *reader, c *cluster) {
	servedNodes(r, c, "head")
	if len(r.job.Command) == 0 && r.job.TTL == 0 {
		c.at.Find(yamlfile.Broken, "the cluster has no program: write runtime.spec.entryPoint, or ephemeral: false for one that others use")
	}
}

// servedNodes makes the groups of a framework that serves the program: its main node, workers, and the program if the main node has something of its own.
func servedNodes(r *reader, c *cluster, name string) {
	j := r.job
	if c.worker.replicas == 0 {
		c.at.Find(yamlfile.Broken, "the cluster has no workers: write cluster.spec.worker with its replicas")
	}
	j.Groups = []jobfile.Group{
		{Name: name, Replicas: 1, Settings: c.serving(j, c.main)},
		{Name: workers, Replicas: max(1, c.worker.replicas), Settings: c.serving(j, c.worker)},
	}
	if j.Framework == jobfile.Dask && len(j.Command) > 0 && (len(c.main.env) > 0 || c.main.image != "") { // Ray's program is in its head
		s := c.of(j, role{image: c.main.image, env: c.main.env})
		j.Groups = append(j.Groups, jobfile.Group{Name: "entry", Replicas: 1, Settings: s})
	}
}
