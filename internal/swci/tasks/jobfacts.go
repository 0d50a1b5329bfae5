package tasks

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/jobrequest"
	"github.com/swarmd/swarmd/internal/shellwords"
)

// JobFacts say what hosts run of a job, as its file has it: what its framework adds to that is what "explain job" shows.
func JobFacts(w *framework.World) (facts []Fact) {
	for i, g := range w.Groups {
		facts = append(facts, Fact{"GROUP", fmt.Sprintf("%s: %d, of which %s; %s", g.Name, g.Replicas, needed(g), whatRuns(g))})
		facts = append(facts, factsOfGroup(g)...)
		if each, first := w.Ports(i); len(each)+len(first) > 0 {
			facts = append(facts, Fact{"PORTS", g.Name + ": " + portWords(each, first)})
		}
	}
	j := w.Expanded()
	facts = append(facts, Fact{"NETWORK", j.Network}, Fact{"START", started(w.Start)}, Fact{"GRACE", jobfile.Duration(j.Grace)})
	if j.Beside.SL != "" {
		facts = append(facts, Fact{"BESIDE", BesideWords(j.Beside)})
	}
	if j.WorkDir != "" {
		facts = append(facts, Fact{"WORK_DIR", "a folder of the run in volume " + j.WorkDir + ", to write; a file named stop in it ends the run"})
	}
	if j.Compat == jobfile.OCI {
		facts = append(facts, Fact{"COMPAT", "oci: members have the variables of Oracle's jobs, and find in the folder of the run where the others are"})
	}
	if a := j.Artifacts; a.Dir != "" {
		facts = append(facts, Fact{"ARTIFACTS", fmt.Sprintf("%s to %s, every %s", a.Dir, cmp.Or(a.To, "whoever fetches them"), jobfile.Duration(a.Every))})
	}
	var files []string
	for _, f := range j.Source {
		files = append(files, f.Path)
	}
	return append(facts, steps("SOURCE", files)...)
}

// BesideWords say which SL a job is beside, and where that is.
func BesideWords(b jobfile.Beside) string {
	return fmt.Sprintf("SL %s, which runs rank 0 itself and awaits the others at %s", b.SL, net.JoinHostPort(b.Address, strconv.Itoa(b.Port)))
}

// Beside is the SL that the job of a task is beside; that of no name: hosts run all that the task has.
func (s *Shown) Beside() jobfile.Beside {
	if s.GetType() != jobrequest.TaskType {
		return jobfile.Beside{}
	}
	j, err := jobfile.Decode(s.Definition)
	if err != nil {
		return jobfile.Beside{}
	}
	return j.Beside
}

// portWords are ports of their hosts to which members listen, in words.
func portWords(each, first []int) string {
	var all []string
	for _, p := range each {
		all = append(all, strconv.Itoa(p))
	}
	for _, p := range first {
		all = append(all, fmt.Sprintf("%d of its first member", p))
	}
	return strings.Join(all, ", ")
}

// factsOfGroup are what a member of a group has and asks for besides, each if it is there.
func factsOfGroup(g framework.Group) (facts []Fact) {
	var env, secrets, volumes []string
	for _, v := range g.Env {
		env = append(env, v.Name+"="+v.Value)
	}
	for _, s := range g.Secrets {
		as := ""
		if s.File {
			as = " as a file"
		}
		secrets = append(secrets, s.Name+as)
	}
	for _, v := range g.Volumes {
		volumes = append(volumes, v.String())
	}
	for _, x := range []Fact{
		{"ENV", shellwords.Join(env)},
		{"SECRETS", strings.Join(secrets, ", ")},
		{"VOLUMES", strings.Join(volumes, ", ")},
		{"RESOURCES", g.Resources.String()},
		{"HOSTS", strings.Join(g.Hosts, ", ")},
		{"READY", whenAsked(g.Ready)},
	} {
		if x.Value != "" {
			facts = append(facts, Fact{x.Name, g.Name + ": " + x.Value})
		}
	}
	return facts
}

// whenAsked is when a member is ready that its job has asked; empty: nobody asks it, or its framework does.
func whenAsked(r jobfile.Ready) string {
	asked := fmt.Sprintf("asked every %s, for %s", jobfile.Duration(r.Period), jobfile.Duration(r.Timeout))
	switch {
	case len(r.Command) > 0:
		return fmt.Sprintf("when this ends with 0, %s: %s", asked, shellwords.Join(r.Command))
	case r.Port > 0:
		return fmt.Sprintf("when it listens to port %d, %s", r.Port, asked)
	}
	return ""
}

// started is how groups start, in words.
func started(order string) string {
	if order == jobfile.InOrder {
		return "each group when the one before is ready"
	}
	return "all groups at once"
}

// jobFactsOf reads the body of a job's task.
func jobFactsOf(body []byte) []Fact {
	j, err := jobfile.Decode(body)
	var w *framework.World
	if err == nil {
		w, err = framework.WorldOf(j)
	}
	if err != nil {
		return []Fact{{"BODY", "can't be carried out: " + err.Error()}}
	}
	return JobFacts(w)
}

// needed is how many members of a group have to succeed, in words.
func needed(g framework.Group) string {
	switch {
	case g.Serves():
		return "none has to succeed, as they serve the others"
	case g.Least == g.Replicas:
		return "all have to succeed"
	}
	return fmt.Sprintf("%d have to succeed", g.Least)
}

// whatRuns says what a member of a group runs.
func whatRuns(g framework.Group) string {
	what := "a process"
	if g.Image != "" {
		what = "image " + g.Image
	}
	if g.Serves() && len(g.Command) == 0 {
		what += ", its framework's own program"
	}
	if words := slices.Concat(g.Command, g.Args); len(words) > 0 {
		what += ", " + shellwords.Join(words)
	}
	return what
}
