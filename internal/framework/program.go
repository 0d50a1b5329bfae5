package framework

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/jobfile"
)

// Program is what a member runs.
type Program struct {
	Member
	Group   string
	Command []string // empty: that of its image, with Args
	Args    []string // only where Command is empty; else they are part of it
	Starts  []string // the job's program, where Command is the framework's and ends with what starts it; empty: it is none of these
	Env     []jobfile.Var
	Ready   Ready
	Meeting Meeting
	Starter Bootstrap
}

// Meeting is where the members of a world meet: rank 0 serves there, and the others wait for it before they begin. The zero value: nowhere.
type Meeting struct {
	Address string
	Port    int
}

// Set reports whether there is one.
func (m Meeting) Set() bool { return m.Port > 0 }

// Ready is how a member is asked whether it is ready. The zero value: it is when it runs.
type Ready struct {
	Command []string // that ends with 0, in the member
	Page    Page     // of a member, which says so
	Port    int      // that the member listens to
	Period  time.Duration
	Timeout time.Duration // of one question
}

// Page is a page in JSON in which a number counts what is there. The zero value is none.
type Page struct {
	Rank    int // of the member that has it
	Port    int
	Path    string
	Count   string // the number's name; empty: that there is a page is enough
	AtLeast int
}

// Programs are those of the members of a world that are placed, by rank.
func (w *World) Programs(p Placement) (all []Program, err error) {
	for i := range w.Size() {
		x, err := w.Program(p, w.first()+i)
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}

// Program is that of one member of a world that is placed.
func (w *World) Program(p Placement, rank int) (x Program, err error) {
	all := w.members()
	switch {
	case len(p.Members) != w.first()+len(all):
		return x, fmt.Errorf("the job has %d members, and %d are placed", w.first()+len(all), len(p.Members))
	case rank < w.first() || rank >= w.first()+len(all):
		return x, fmt.Errorf("the job has %d members, and none of rank %d", len(all), rank)
	}
	m := all[rank-w.first()]
	if x, err = w.program(p, m); err != nil {
		return x, fmt.Errorf("group %s: %w", w.Groups[m.group].Name, err)
	}
	return x, nil
}

func (w *World) program(p Placement, m Member) (Program, error) {
	g := w.Groups[m.group]
	x := Program{Member: m, Group: g.Name}
	fill, err := w.environment(&x, p, m)
	if err != nil {
		return x, err
	}
	command := w.kind.command(w, p, m)
	if len(command) == 0 {
		command = interpreted(g.Command)
	}
	if x.Command, err = fill.all("command", command); err != nil {
		return x, err
	}
	args, err := fill.all("args", g.Args)
	if err != nil {
		return x, err
	}
	if len(x.Command) > 0 {
		x.Command = append(x.Command, args...)
	} else {
		x.Args = args
	}
	if x.Starts, err = w.starts(fill, m); err != nil {
		return x, err
	}
	if len(x.Starts) > 0 {
		x.Command = append(x.Command, "--")
	}
	if w.kind.meeting != nil {
		x.Meeting = w.kind.meeting(w, p)
	}
	if !g.Ready.Set() {
		x.Ready = w.kind.ready(w, p, m)
		return x, nil
	}
	x.Ready = Ready{Port: g.Ready.Port, Period: g.Ready.Period, Timeout: g.Ready.Timeout}
	x.Ready.Command, err = fill.all("ready.command", interpreted(g.Ready.Command))
	return x, err
}

// starts is the job's program, if the member's own starts it.
func (w *World) starts(fill *filler, m Member) ([]string, error) {
	if w.kind.starts == nil {
		return nil, nil
	}
	command, args := w.kind.starts(w, m)
	if len(command) == 0 {
		return nil, nil
	}
	command, err := fill.all("command", interpreted(command))
	if err != nil {
		return nil, err
	}
	args, err = fill.all("args", args)
	return append(command, args...), err
}

// Words are those of a program with what it starts.
func (x Program) Words() []string { return slices.Concat(x.Command, x.Starts) }

// environment gives a program its variables. The job's own come before all others, and may have those in them.
func (w *World) environment(x *Program, p Placement, m Member) (*filler, error) {
	base := &filler{jobfile.WithVars(w.common(p, m), sorted(w.kind.vars(w, p, m))), maxProgram}
	if w.job.Compat == jobfile.OCI {
		var vars []jobfile.Var
		x.Starter, vars = bootstrap(w, p, m)
		base.vars = jobfile.WithVars(jobfile.WithVars(oracleVars(w, p, m), vars), base.vars)
	}
	var own []jobfile.Var
	for _, v := range w.Groups[m.group].Env {
		value, err := base.one("env."+v.Name, v.Value)
		if err != nil {
			return nil, err
		}
		own = append(own, jobfile.Var{Name: v.Name, Value: value})
	}
	if w.job.Compat == jobfile.OCI {
		base.vars = oracleForms(base.vars, own)
	}
	x.Env = jobfile.WithVars(base.vars, own)
	return &filler{x.Env, base.left}, nil
}

// common are the variables that every member has.
func (w *World) common(p Placement, m Member) []jobfile.Var {
	me, g := p.Members[m.Rank], w.Groups[m.group]
	first := p.Members[0]
	var addresses []string
	for _, x := range p.Members {
		addresses = append(addresses, x.Address)
	}
	return sorted([]jobfile.Var{
		{Name: "SWARM_JOB_NAME", Value: w.job.Name},
		{Name: "SWARM_RUN_ID", Value: p.Run},
		{Name: "SWARM_EPOCH", Value: strconv.Itoa(p.Epoch)},
		{Name: "SWARM_GROUP", Value: g.Name},
		{Name: "SWARM_GROUP_RANK", Value: strconv.Itoa(m.Index)},
		{Name: "SWARM_NODE_RANK", Value: strconv.Itoa(m.Rank)},
		{Name: "SWARM_NUM_NODES", Value: strconv.Itoa(len(p.Members))},
		{Name: "SWARM_NODE_IP", Value: me.Address},
		{Name: "SWARM_NODE_IPS", Value: strings.Join(addresses, "\n")},
		{Name: "SWARM_NODE_FQDN", Value: me.Name},
		{Name: "SWARM_MAIN_IP", Value: first.Address},
		{Name: "SWARM_MAIN_FQDN", Value: first.Name},
		{Name: "SWARM_WORK_DIR", Value: me.WorkDir},
		{Name: "SWARM_ARTIFACTS", Value: me.Artifacts},
		{Name: "SWARM_SECRETS", Value: me.Secrets},
		{Name: "CLUSTER_NODES_METADATA_FILE", Value: p.Metadata},
		{Name: "FQDN", Value: me.Name},
		{Name: "NODE_RANK", Value: strconv.Itoa(m.Rank)},
		{Name: "NODE_COUNT", Value: strconv.Itoa(len(p.Members))},
		{Name: "PYTHONUNBUFFERED", Value: "1"}, // so that a line of a log is there when it was written
	})
}

// sorted are variables by name, without those that have no value.
func sorted(all []jobfile.Var) []jobfile.Var {
	all = slices.DeleteFunc(all, func(v jobfile.Var) bool { return v.Value == "" })
	return jobfile.WithVars(nil, all)
}

// interpreted is a command that can be run: a Python program that is named alone is run by Python.
func interpreted(command []string) []string {
	if len(command) > 0 && path.Ext(command[0]) == ".py" {
		return append([]string{"python3"}, command...)
	}
	return command
}

// maxProgram is how many bytes the texts of a job have together in one member, filled in: its variables, its words, and how it is asked whether it
// is ready. A host has many members of many jobs, and whoever wrote these is not asked first how large they are.
const maxProgram = 128 << 10

// filler has the variables that a text may name.
type filler struct {
	vars []jobfile.Var // by name
	left int           // of maxProgram
}

func (f *filler) value(name string) (string, bool) {
	i, is := slices.BinarySearchFunc(f.vars, name, func(v jobfile.Var, name string) int { return strings.Compare(v.Name, name) })
	if !is {
		return "", false
	}
	return f.vars[i].Value, true
}

func (f *filler) one(field, s string) (string, error) {
	filled, unknown, err := jobfile.Fill(s, f.value)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", field, err)
	case unknown != "":
		return "", fmt.Errorf("%s has ${%s}, which nothing sets here: add it to env, or write $${%s} for the program's own", field, unknown, unknown)
	}
	if f.left -= len(filled); f.left < 0 {
		return "", fmt.Errorf("variables and words of a member have more than %d bytes together: put some into a file of the source", maxProgram)
	}
	return filled, nil
}

func (f *filler) all(field string, words []string) (filled []string, err error) {
	for _, w := range words {
		x, err := f.one(field, w)
		if err != nil {
			return nil, err
		}
		filled = append(filled, x)
	}
	return filled, nil
}
