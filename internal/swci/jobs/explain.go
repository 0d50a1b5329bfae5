package jobs

import (
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/jobrequest"
)

// Explained is what a job would be.
type Explained struct {
	Name     string   `json:"name" doc:"the job's"`
	Imported Imported `json:"imported" doc:"what became of a file of Oracle's"`
	Changes  []Change `json:"changes" doc:"what was said in the place of what the file says"`
	Expanded string   `json:"expanded" doc:"the job file with all that its framework adds and all that holds by default"`
	Bytes    int      `json:"bytes" doc:"how large the job's task is, with its source; at most 1048576"`
	Source   []Source `json:"source" doc:"files that travel in the task"`
	Groups   []Group  `json:"groups" doc:"in the order of ranks"`
	DoneWhen string   `json:"done_when" doc:"main, all or any of the groups that end"`
	Signed   Signed   `json:"signed" doc:"what is signed of it when it is started: hosts hold it to the job"`
	Members  []Member `json:"members" doc:"by rank, as they would be placed"`
	WaitsFor []string `json:"waits_for" doc:"what the hosts must have before anything starts"`
}

// Change is a value of the file and what was said in its place.
type Change struct {
	Field string `json:"field" doc:"as image, or worker.env.EPOCHS"`
	File  string `json:"file" doc:"what the file says; empty: nothing"`
	Start string `json:"start" doc:"what was said"`
}

// Source is a file of the source.
type Source struct {
	Path  string `json:"path" doc:"in the folder"`
	Bytes int    `json:"bytes" doc:"its size"`
}

// Group is a group of members.
type Group struct {
	Name     string `json:"name" doc:"the group's"`
	Replicas int    `json:"replicas" doc:"members"`
	Least    int    `json:"least" doc:"how many have to succeed; 0: they serve the other groups"`
}

// Signed is what the swarm decides by, which an operator signs.
type Signed struct {
	Hosts     []string `json:"hosts" doc:"that may have members, of any group; none: those that take jobs when it is started"`
	InOrder   bool     `json:"in_order" doc:"each group starts when the one before is ready"`
	Retries   uint32   `json:"retries" doc:"how often all members may be placed anew"`
	TimeoutMS int64    `json:"timeout_ms" doc:"from the request to the verdict"`
	Together  bool     `json:"together" doc:"all members are on one host"`
	ReadyMS   int64    `json:"ready_ms" doc:"until when all members have to be ready, from when they were placed"`
	LivesMS   int64    `json:"lives_ms" doc:"how long after that it ends with success; 0: with its programs"`
	Stops     bool     `json:"stops" doc:"a file named stop in the folder of the run ends it with success; with compat: oci how members end then counts, and one named stop_fail has it fail"`
	Refused   string   `json:"refused" doc:"why hosts would not carry it out; empty: they would, as far as the job goes"`
}

// signedOf is what would be signed of a job, and what hosts would make of it.
func signedOf(w *framework.World, body []byte) Signed {
	q := jobrequest.Request(w)
	s := Signed{Hosts: append([]string{}, q.Hosts...), InOrder: q.InOrder, Retries: q.Retries, TimeoutMS: q.TimeoutMS, Together: q.Together, ReadyMS: q.ReadyMS, LivesMS: q.LivesMS, Stops: q.Stops}
	if len(q.Hosts) == 0 {
		q.Hosts = []string{"any"}
	}
	err := jobrequest.Hold(q, body)
	if err == nil {
		err = fitsHosts(w)
	}
	if err != nil {
		s.Refused = err.Error()
	}
	return s
}

// Member is a member with what it would run.
type Member struct {
	Rank    int        `json:"rank" doc:"in the job"`
	Group   string     `json:"group" doc:"its group"`
	Host    string     `json:"host" doc:"an example, where the file names none"`
	Name    string     `json:"name" doc:"by which the others find it"`
	Image   string     `json:"image" doc:"empty: it is a process of the host"`
	Command []string   `json:"command" doc:"empty: that of its image"`
	Args    []string   `json:"args" doc:"of its image's command"`
	Env     []Variable `json:"env" doc:"variables, by name"`
	Ready   string     `json:"ready" doc:"when it is ready, in words"`
}

// Variable is one of the environment.
type Variable struct {
	Name  string `json:"name" doc:"the variable's"`
	Value string `json:"value" doc:"the variable's"`
}

// Preview says what a job would be if it was started with what is said. No swarm is asked: where members are is an example.
func Preview(file *jobfile.Job, said jobfile.Overrides) (*Explained, error) {
	j, changes, err := file.Override(said)
	if err != nil {
		return nil, err
	}
	w, body, err := sent(j)
	if err != nil {
		return nil, err
	}
	p := example(w, w.Expanded())
	programs, err := w.Programs(p)
	if err != nil {
		return nil, err
	}
	e := &Explained{
		Name: j.Name, Expanded: w.Expanded().Text(), Bytes: len(body), DoneWhen: w.DoneWhen, WaitsFor: needs(w, w.Expanded()),
		Changes: []Change{}, Source: []Source{}, Signed: signedOf(w, body),
	}
	for _, c := range changes {
		e.Changes = append(e.Changes, Change{c.Field, c.Was, c.Is})
	}
	for _, f := range j.Source {
		e.Source = append(e.Source, Source{f.Path, len(f.Data)})
	}
	for _, g := range w.Groups {
		e.Groups = append(e.Groups, Group{g.Name, g.Replicas, g.Least})
		for range g.Replicas {
			e.Members = append(e.Members, member(programs[len(e.Members)], p, g.Image))
		}
	}
	return e, nil
}

// sent is the world that a host would read of the job's task, and the body of that.
func sent(j *jobfile.Job) (*framework.World, []byte, error) {
	w, err := framework.WorldOf(j)
	if err != nil {
		return nil, nil, err
	}
	body, err := w.Expanded().Encode()
	if err != nil {
		return nil, nil, err
	}
	read, err := jobfile.Decode(body)
	if err != nil {
		return nil, nil, fmt.Errorf("what would be sent can't be read: %w", err)
	}
	w, err = framework.WorldOf(read)
	return w, body, err
}

func member(x framework.Program, p framework.Placement, image string) Member {
	at := p.Members[x.Rank]
	m := Member{Rank: x.Rank, Group: x.Group, Host: at.Host, Name: at.Name, Image: image, Command: x.Words(), Args: x.Args, Ready: whenReady(x.Ready, p)}
	for _, v := range x.Env {
		m.Env = append(m.Env, Variable{v.Name, v.Value})
	}
	return m
}

// whenReady says when a member is ready.
func whenReady(r framework.Ready, p framework.Placement) string {
	switch {
	case len(r.Command) > 0:
		return "when this ends with 0: " + commandLine(r.Command)
	case r.Port > 0:
		return fmt.Sprintf("when it listens to port %d", r.Port)
	case r.Page.Count != "":
		return fmt.Sprintf("when %s of node-%d's page http://%s:%d%s is %d or more", r.Page.Count, r.Page.Rank, p.Members[r.Page.Rank].Address, r.Page.Port, r.Page.Path, r.Page.AtLeast)
	case r.Page.Path != "":
		return fmt.Sprintf("when there is its page http://%s:%d%s", p.Members[r.Page.Rank].Address, r.Page.Port, r.Page.Path)
	}
	return "when it runs"
}

// example places members where a swarm might: in turn on the hosts that members of all groups may be on, or each on a host of its own if the job names
// none; or all on one if they share a network that no other host has.
func example(w *framework.World, j *jobfile.Job) framework.Placement {
	p := framework.Placement{Run: j.Name + "-1", Metadata: "/run/swarm/cluster_metadata.json"}
	unnamed, together := 0, "h-1"
	common, _ := w.Common()
	if slices.Sort(common); len(common) > 0 {
		together = common[0]
	}
	for _, g := range w.Groups {
		for i := range g.Replicas {
			rank := len(p.Members)
			at := framework.Place{Name: framework.NameOf(rank), Address: fmt.Sprintf("198.18.%d.%d", rank/250, rank%250+1)}
			switch {
			case j.Network == jobfile.Private:
				at.Host = together
			case len(common) > 0:
				at.Host = common[rank%len(common)]
			case len(g.Hosts) > 0: // no host is, for all groups
				at.Host = g.Hosts[i%len(g.Hosts)]
			default:
				unnamed++
				at.Host = fmt.Sprintf("h-%d", unnamed)
			}
			if j.Network == jobfile.Host {
				at.Interface = "eth0"
			}
			if j.WorkDir != "" {
				at.WorkDir = "/run/swarm/work/" + p.Run
			}
			at.Artifacts = j.Artifacts.Dir
			if slices.ContainsFunc(g.Secrets, func(s jobfile.Secret) bool { return s.File }) {
				at.Secrets = "/run/swarm/secrets"
			}
			p.Members = append(p.Members, at)
		}
	}
	return p
}
