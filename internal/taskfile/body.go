package taskfile

import (
	"slices"
	"strings"

	"github.com/swarmd/swarmd/consensus/task"
)

// Body is what a task is to do: PullImage, MakeUserContainer, MakeSwarmUserContent or RunSwarm.
type Body interface {
	// Type is that of the tasks which have such a body.
	Type() string

	put(w *writer)
}

// PullImage has each host fetch an image.
type PullImage struct {
	OrgAndReg, RepoName, Tag string
	Auth                     Auth
}

// Auth is how a host proves itself to a registry. The zero value is not at all.
type Auth struct {
	Config             string // path of a config.json on the host
	Username, Password string
}

// digestPrefix begins a tag that is a digest.
const digestPrefix = "sha256:"

// Image returns the image's name: OrgAndReg/RepoName:Tag, or OrgAndReg/RepoName@Tag where the tag is a digest.
func (p PullImage) Image() string {
	name := strings.Trim(p.RepoName, "/")
	if org := strings.Trim(p.OrgAndReg, "/"); org != "" {
		name = org + "/" + name
	}
	switch {
	case p.Tag == "":
		return name
	case strings.HasPrefix(p.Tag, digestPrefix):
		return name + "@" + p.Tag
	}
	return name + ":" + p.Tag
}

// MakeUserContainer has each host build an image.
type MakeUserContainer struct {
	BuildContext string   // name of a volume, whose files are there when it is built; empty: none
	BuildSteps   []string // lines of a Dockerfile
}

// Dockerfile returns the steps as a file.
func (m MakeUserContainer) Dockerfile() string { return strings.Join(m.BuildSteps, "\n") + "\n" }

// MakeSwarmUserContent has each host fill volumes.
type MakeSwarmUserContent struct {
	ContentType string // BUILDCONTENT: one volume, or SWARMCONTENT: one for each node
	Ops         []Operation
}

// Types of content.
const (
	BuildContent = "BUILDCONTENT"
	SwarmContent = "SWARMCONTENT"
)

// Operation is a step of making content.
type Operation struct {
	Operation string // DOWNLOAD or EXTRACT
	Target    string // a URI, or a file
	Out       string // where it goes; empty: nobody said
}

// Operations that make content.
const (
	Download = "DOWNLOAD"
	Extract  = "EXTRACT"
)

// RunSwarm has each host run SL components with a user's program.
type RunSwarm struct {
	Entrypoint, Command string // as a shell divides them into words
	WorkingDir          string
	Env                 []Var
	PrivateContent      string // where the node's private data is in the container; empty: nowhere
	SharedContent       []Shared
}

// Shared is a directory or volume that all nodes of a host have.
type Shared struct {
	Src, Tgt, MountType string
}

// Shared returns the sources of a type of mount that the task names, each once.
func (r RunSwarm) Shared(mountType string) (all []string) {
	for _, s := range r.SharedContent {
		if strings.EqualFold(s.MountType, Volume) == (mountType == Volume) && !slices.Contains(all, s.Src) {
			all = append(all, s.Src)
		}
	}
	return all
}

// Types of mounts.
const (
	Bind   = "BIND"
	Volume = "VOLUME"
)

// Type is PULL_IMAGE.
func (PullImage) Type() string { return task.PullImage }

// Type is MAKE_USER_CONTAINER.
func (MakeUserContainer) Type() string { return task.MakeUserContainer }

// Type is MAKE_SWARM_USER_CONTENT.
func (MakeSwarmUserContent) Type() string { return task.MakeSwarmUserContent }

// Type is RUN_SWARM.
func (RunSwarm) Type() string { return task.RunSwarm }

// ReadBody reads the definition of a task, as ReadTask makes it or as an operator has typed it line by line. Its error is one line and names
// the definition's line, from 1. A body that still has placeholders is refused: nobody can carry it out.
func ReadBody(taskType string, definition []byte) (Body, error) {
	d := &document{}
	var body Body
	if root := d.parse(definition); root != nil {
		body = d.at(root, "").body(taskType)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	if err := asError(d.first(unfilled)); err != nil {
		return nil, err
	}
	return body, nil
}

// body reads a body of a type; nil, with a finding, if it is none.
func (v value) body(taskType string) Body {
	switch taskType {
	case task.PullImage:
		return v.pullImage()
	case task.MakeUserContainer:
		return v.makeUserContainer()
	case task.MakeSwarmUserContent:
		return v.makeContent()
	case task.RunSwarm:
		return v.runSwarm()
	}
	v.find(broken, "task type %q is not known%s", clip(taskType), meant(taskType, Types))
	return nil
}

func (v value) pullImage() Body {
	f := v.fields(broken, "OrgAndReg", "RepoName", "Tag", "Auth")
	if f == nil {
		return nil
	}
	p := PullImage{OrgAndReg: f.may("OrgAndReg", rule{}), RepoName: f.want("RepoName", rule{}), Tag: f.may("Tag", rule{})}
	switch auth := f.get("Auth", odd); {
	case auth.null():
	case strings.HasPrefix(auth.kind(), "a "): // a map, or a mistake
		a := auth.fields(broken, "Username", "Password")
		if a == nil {
			return nil
		}
		p.Auth = Auth{Username: a.want("Username", rule{free: true}), Password: a.want("Password", rule{free: true})}
		auth.find(noted, "%s has a password, which every node of the swarm will hold and every operator can read: give the path of a config.json on the hosts", auth.name)
	default:
		p.Auth.Config = auth.text(rule{})
	}
	return p
}

func (v value) makeUserContainer() Body {
	f := v.fields(broken, "BuildContext", "BuildType", "BuildSteps")
	if f == nil {
		return nil
	}
	m := MakeUserContainer{BuildContext: f.may("BuildContext", rule{least: 3})}
	switch kind := f.get("BuildType", odd); {
	case kind.null():
	case strings.EqualFold(kind.n.Value, "REMOTE"):
		kind.find(broken, "%s REMOTE was never made: use INLINE", kind.name)
	default:
		kind.oneOf("INLINE")
	}
	steps := f.get("BuildSteps", broken)
	items := steps.list()
	for _, s := range items {
		m.BuildSteps = append(m.BuildSteps, s.text(rule{least: -1, lines: true, free: true}))
	}
	switch {
	case f.has("BuildSteps") && len(items) == 0:
		steps.find(broken, "%s is empty: write lines of a Dockerfile", steps.name)
	case len(items) > 80:
		steps.find(strict, "%s has %d lines: the original takes 80", steps.name, len(items))
	}
	return m
}

func (v value) makeContent() Body {
	f := v.fields(broken, "ContentType", "OpsList")
	if f == nil {
		return nil
	}
	m := MakeSwarmUserContent{}
	if kind := f.get("ContentType", broken); f.has("ContentType") {
		m.ContentType = kind.oneOf(BuildContent, SwarmContent)
	}
	ops := f.get("OpsList", broken)
	items := ops.list()
	for _, item := range items {
		o := item.fields(broken, "Operation", "Target", "Options")
		if o == nil {
			continue
		}
		x := Operation{Target: o.want("Target", rule{}), Out: o.get("Options", 0).out()}
		if op := o.get("Operation", broken); o.has("Operation") {
			x.Operation = op.oneOf(Download, Extract)
		}
		m.Ops = append(m.Ops, x)
	}
	switch {
	case f.has("OpsList") && len(items) == 0:
		ops.find(broken, "%s is empty: write what is to be done", ops.name)
	case len(items) > 20:
		ops.find(strict, "%s has %d items: the original takes 20", ops.name, len(items))
	}
	return m
}

// out reads the options of an operation, of which there is one.
func (v value) out() (out string) {
	if v.null() {
		return ""
	}
	items := []value{v}
	if v.kind() == "a map" {
		v.find(strict, "%s is a map: write a list, as - Out : FILE", v.name)
	} else {
		items = v.list()
	}
	for _, item := range items {
		if o := item.fields(broken, "Out"); o != nil {
			out = o.may("Out", rule{})
		}
	}
	return out
}

func (v value) runSwarm() Body {
	f := v.fields(broken, "Entrypoint", "Command", "WorkingDir", "Envvars", "PrivateContent", "SharedContent")
	if f == nil {
		return nil
	}
	r := RunSwarm{
		Entrypoint:     strings.TrimRight(f.want("Entrypoint", rule{free: true, lines: true}), "\n"), // > in a file ends a text with one
		Command:        strings.TrimRight(f.want("Command", rule{free: true, lines: true}), "\n"),
		WorkingDir:     f.want("WorkingDir", rule{least: 2}),
		Env:            f.get("Envvars", odd).pairs(),
		PrivateContent: f.may("PrivateContent", rule{}),
	}
	shared := f.get("SharedContent", odd)
	items := shared.list()
	for _, item := range items {
		if s := item.fields(broken, "Src", "Tgt", "MType"); s != nil {
			x := Shared{Src: s.want("Src", rule{}), Tgt: s.want("Tgt", rule{})}
			if kind := s.get("MType", broken); s.has("MType") {
				x.MountType = kind.oneOf(Bind, Volume)
			}
			r.SharedContent = append(r.SharedContent, x)
		}
	}
	if len(items) > 10 || !shared.null() && len(items) == 0 {
		shared.find(strict, "%s has %d items: the original takes 1 to 10, or null", shared.name, len(items))
	}
	return r
}
