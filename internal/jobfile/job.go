package jobfile

import (
	"slices"
	"time"
)

// Bounds of a job.
const (
	MaxBody    = 1 << 20 // bytes of a job that is written out, with its source
	MaxGroups  = 16
	MaxMembers = 1024 // of all groups
	MaxTimeout = 30 * 24 * time.Hour
	MaxGrace   = 10 * time.Minute
	MaxAsk     = 20 * time.Second // for one question whether a member is ready

	maxItems    = 256 // of one list or map
	maxLines    = 1 << 16
	maxRestarts = 100
)

// What holds where a file says nothing.
const (
	DefaultReadyTimeout = 10 * time.Minute
	DefaultGrace        = 30 * time.Second
	DefaultPeriod       = 5 * time.Second
	DefaultEvery        = time.Minute
)

// Frameworks that a job can be of.
const (
	None       = "none"
	PyTorch    = "pytorch"
	TensorFlow = "tensorflow"
	Horovod    = "horovod"
	Dask       = "dask"
	Ray        = "ray"
)

// Frameworks are their names.
var Frameworks = []string{
	None,
	PyTorch,
	TensorFlow,
	Horovod,
	Dask,
	Ray,
}

// Orders in which groups start.
const (
	Parallel = "parallel"
	InOrder  = "in-order" // each when the one before is ready
)

// What has to be done for a job to be done, of the groups that are expected to end.
const (
	Main = "main" // the first one
	All  = "all"
	Any  = "any"
)

// Networks that are not an overlay's name.
const (
	Private = "private" // between members on one host, without a way out
	Host    = "host"    // the host's own
)

// OCI is what programs may be made for: jobs of Oracle's Data Science service, whose variables and files they find.
const OCI = "oci"

// Job is what a job file says.
type Job struct {
	Name         string
	Framework    string
	Settings         // what groups have that don't say otherwise
	Replicas     int // of a job without groups; 0: it has groups
	Groups       []Group
	Network      string // Private, Host, or the name of an overlay
	AnyNetwork   bool   // the file names none: Network is what holds then, and another if the job is changed
	WorkDir      string // name of a volume; empty: none
	Artifacts    Artifacts
	Start        string        // empty: as the framework has it
	DoneWhen     string        // empty: as the framework has it
	TTL          time.Duration // how long it lives whatever its programs do; 0: it ends with them
	Timeout      time.Duration
	ReadyTimeout time.Duration
	Grace        time.Duration // between the request to end and the end
	Restarts     int
	Beside       Beside
	Compat       string // OCI; empty: members find what is ours alone

	Folder string // of the source, as the file names it; empty: it has none, or its files are in Source
	Source []File // by path
}

// Settings are what each group may have of its own.
type Settings struct {
	Image     string // empty: a process of the host
	Command   []string
	Args      []string // behind Command
	Env       []Var    // by name
	Secrets   []Secret
	Resources Resources
	Hosts     []string // that may have members; empty: any
	Volumes   []Volume
	Ready     Ready
}

// Group is a number of members that run the same.
type Group struct {
	Name       string
	Replicas   int
	MinSuccess int // how many have to succeed; 0: all, however many there are
	Settings
}

// Var is a variable of the environment.
type Var struct{ Name, Value string }

// Secret is a value that each host has under a name.
type Secret struct {
	Name string
	File bool // it is given as a file, not as a variable
}

// Resources are what each member needs; 0: whatever there is.
type Resources struct {
	CPU    int // thousandths
	GPU    int
	Memory int64 // bytes, as the others
	Disk   int64
	Shm    int64
}

// Volume is a folder that each host's policy has under a name.
type Volume struct {
	Name   string
	Target string // where it is in the member
	Write  bool
}

// Ready is how a member is asked whether it is ready. The zero value: it is when it runs.
type Ready struct {
	Command []string // that ends with 0
	Port    int      // that is listened to
	Period  time.Duration
	Timeout time.Duration // of one question
}

// Set reports whether a member is asked at all.
func (r Ready) Set() bool { return len(r.Command) > 0 || r.Port > 0 }

// Artifacts are files that members leave.
type Artifacts struct {
	Dir   string // in the member; empty: none
	To    string // a target that hosts' policies name; empty: they are fetched
	Every time.Duration
}

// Beside is rank 0 of a job, which an SL runs itself beside its bridge: the job's members are the other ranks. The zero value: there is none. SLs write
// it, who start their ranks so.
type Beside struct {
	SL      string // its name in the swarm
	Address string // by which hosts reach rank 0
	Port    int    // where it listens
	Epoch   int    // counts how often all ranks were started together before
}

// File is one of the source's.
type File struct {
	Path string // with slashes, within the folder
	Exec bool
	Data []byte
}

// Members is how many members the job's file asks for. A framework may add some.
func (j *Job) Members() int {
	n := j.Replicas
	for _, g := range j.Groups {
		n += g.Replicas
	}
	return n
}

// clone returns a copy that shares nothing which Override changes.
func (j *Job) clone() *Job {
	c := *j
	c.Settings = j.Settings.clone()
	c.Groups = slices.Clone(j.Groups)
	for i := range c.Groups {
		c.Groups[i].Settings = c.Groups[i].clone()
	}
	return &c
}

// isCluster reports whether groups run programs of the framework's own: the job's command is that of its program, and not theirs.
func (j *Job) isCluster() bool { return j.Framework == Dask || j.Framework == Ray }

// aboveGroups are the settings that groups have which don't say otherwise.
func (j *Job) aboveGroups() Settings {
	s := j.Settings
	if j.isCluster() {
		s.Command, s.Args, s.Ready = nil, nil, Ready{}
	}
	return s
}

func (s Settings) clone() Settings {
	s.Env = slices.Clone(s.Env)
	return s
}

// WithVars returns base with the variables of top, which hold, by name.
func WithVars(base, top []Var) []Var {
	all := slices.Clone(base)
	for _, v := range top {
		i, found := slices.BinarySearchFunc(all, v.Name, func(x Var, name string) int { return compare(x.Name, name) })
		if found {
			all[i] = v
		} else {
			all = slices.Insert(all, i, v)
		}
	}
	return all
}
