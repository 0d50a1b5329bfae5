package ranks

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/jobrequest"
	"github.com/swarmd/swarmd/internal/work/jobcommand"
)

// most bounds the ranks of an SL.
const most = 1024

const (
	// grace is how long the other ranks have to end once rank 0 has.
	grace = 10 * time.Second
	// expires is until when hosts may begin.
	expires = time.Hour
	// group is what the other ranks are called among the members of a job.
	group = "rank"
)

// Program is what all ranks run, and where.
type Program struct {
	SL        string // the node's name
	Address   string // by which hosts reach it
	Framework string // jobfile.PyTorch or jobfile.Horovod; empty: the former
	Ranks     int    // with rank 0
	Image     string // of the other ranks' containers; empty: they are processes
	Hosts     []string
	Env       []jobfile.Var // of the other ranks, as are the next two
	Volumes   []jobfile.Volume
	// Resources are what each needs of its host, such as cpu=2; none: whatever there is.
	Resources []string
	File      string // in Source
	Args      []string
	Source    []jobfile.File
}

// Source reads what travels to the hosts: the program, relative to its directory, and the Python files of that directory.
func Source(dir, program string) ([]jobfile.File, error) {
	if !filepath.IsLocal(program) {
		return nil, fmt.Errorf("--model-program %s: with --ranks it travels to other hosts: name a file in --model-dir", program)
	}
	return travelling(dir, func(name string) bool { return name == filepath.ToSlash(program) || strings.HasSuffix(name, ".py") })
}

// planned is a job with what is signed of it.
type planned struct {
	world   *framework.World
	port    int // where rank 0 listens
	task    string
	body    []byte
	digest  string
	request task.Request
	avoid   []string // hosts that are not asked
}

// job is what the other ranks are when they are started for the n-th time.
func (p *Program) job(port, n int) *jobfile.Job {
	words := append([]string{p.File}, p.Args...)
	env := slices.Clone(p.Env)
	for i := range words {
		words[i] = literal(words[i])
	}
	for i := range env {
		env[i].Value = literal(env[i].Value)
	}
	return &jobfile.Job{
		Name: jobName(p.SL), Framework: cmp.Or(p.Framework, jobfile.PyTorch), Network: jobfile.Host,
		Groups:  []jobfile.Group{{Name: group, Replicas: p.Ranks - 1, Settings: jobfile.Settings{Image: p.Image, Command: words, Env: env, Hosts: p.Hosts, Volumes: p.Volumes}}},
		Timeout: jobfile.MaxTimeout, ReadyTimeout: jobfile.DefaultReadyTimeout, Grace: grace,
		Beside: jobfile.Beside{SL: p.SL, Address: p.Address, Port: port, Epoch: n}, Source: p.Source,
	}
}

// literal has a job take a text as it is.
func literal(s string) string { return strings.ReplaceAll(s, "$", "$$") }

// Check finds what no host would take, before anything is started.
func (p *Program) Check() error {
	if p.Ranks < 2 || p.Ranks > most {
		return fmt.Errorf("--ranks %d: want 2 to %d, rank 0 among them, which this node runs", p.Ranks, most)
	}
	x, err := p.plan(1, 0)
	if err != nil {
		return err
	}
	return jobcommand.Fits(x.world, p.Image == "")
}

func (p *Program) plan(port, n int) (*planned, error) {
	j := p.job(port, n)
	if len(p.Resources) > 0 {
		var err error
		if j, _, err = j.Override(jobfile.Overrides{Resources: p.Resources}); err != nil {
			return nil, fmt.Errorf("--rank-resources: %w", err)
		}
	}
	w, err := framework.WorldOf(j)
	if err != nil {
		return nil, err
	}
	job := w.Expanded()
	body, err := job.Encode()
	if err != nil {
		return nil, err
	}
	x := &planned{world: w, port: port, task: jobrequest.TaskName(job.Name, body), body: body, request: jobrequest.Request(w)}
	x.digest = (&task.Task{Name: x.task, Type: task.RunJob, Prereq: task.Root, Definition: body}).Sum()
	held := x.request
	if len(held.Hosts) == 0 {
		held.Hosts = []string{"any"}
	}
	return x, jobrequest.Hold(held, body)
}

// jobName is the name of an SL's job. Names of jobs have fewer characters than those of nodes.
func jobName(sl string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(sl))
	return strings.TrimLeft(name[:min(len(name), 56)], "-") + "-ranks"
}
