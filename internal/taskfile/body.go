package taskfile

import (
	"slices"
	"strings"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/yamlfile"
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
	d := &yamlfile.Document{}
	var body Body
	if root := d.Parse(definition); root != nil {
		body = readBody(d.At(root, ""), taskType)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	if err := asError(d.First(yamlfile.Unfilled)); err != nil {
		return nil, err
	}
	return body, nil
}

// body reads a body of a type; nil, with a finding, if it is none.
func readBody(v yamlfile.Value, taskType string) Body {
	switch taskType {
	case task.PullImage:
		return pullImage(v)
	case task.MakeUserContainer:
		return makeUserContainer(v)
	case task.MakeSwarmUserContent:
		return makeContent(v)
	case task.RunSwarm:
		return runSwarm(v)
	}
	v.Find(yamlfile.Broken, "task type %q is not known%s", yamlfile.Excerpt(taskType), yamlfile.Meant(taskType, Types))
	return nil
}

func pullImage(v yamlfile.Value) Body {
	f := v.Fields(yamlfile.Broken, "OrgAndReg", "RepoName", "Tag", "Auth")
	if f == nil {
		return nil
	}
	p := PullImage{OrgAndReg: f.May("OrgAndReg", yamlfile.Rule{}), RepoName: f.Want("RepoName", yamlfile.Rule{}), Tag: f.May("Tag", yamlfile.Rule{})}
	switch auth := f.Get("Auth", yamlfile.Odd); {
	case auth.Null():
	case strings.HasPrefix(auth.Kind(), "a "): // a map, or a mistake
		a := auth.Fields(yamlfile.Broken, "Username", "Password")
		if a == nil {
			return nil
		}
		p.Auth = Auth{Username: a.Want("Username", yamlfile.Rule{Free: true}), Password: a.Want("Password", yamlfile.Rule{Free: true})}
		auth.Find(yamlfile.Noted, "%s has a password, which every node of the swarm will hold and every operator can read: give the path of a config.json on the hosts", auth.Name)
	default:
		p.Auth.Config = auth.Text(yamlfile.Rule{})
	}
	return p
}

func makeUserContainer(v yamlfile.Value) Body {
	f := v.Fields(yamlfile.Broken, "BuildContext", "BuildType", "BuildSteps")
	if f == nil {
		return nil
	}
	m := MakeUserContainer{BuildContext: f.May("BuildContext", yamlfile.Rule{Least: 3})}
	switch kind := f.Get("BuildType", yamlfile.Odd); {
	case kind.Null():
	case strings.EqualFold(kind.Node.Value, "REMOTE"):
		kind.Find(yamlfile.Broken, "%s REMOTE was never made: use INLINE", kind.Name)
	default:
		kind.OneOf("INLINE")
	}
	steps := f.Get("BuildSteps", yamlfile.Broken)
	items := steps.List()
	for _, s := range items {
		m.BuildSteps = append(m.BuildSteps, s.Text(yamlfile.Rule{Least: -1, Lines: true, Free: true}))
	}
	switch {
	case f.Has("BuildSteps") && len(items) == 0:
		steps.Find(yamlfile.Broken, "%s is empty: write lines of a Dockerfile", steps.Name)
	case len(items) > 80:
		steps.Find(yamlfile.Strict, "%s has %d lines: the original takes 80", steps.Name, len(items))
	}
	return m
}

func makeContent(v yamlfile.Value) Body {
	f := v.Fields(yamlfile.Broken, "ContentType", "OpsList")
	if f == nil {
		return nil
	}
	m := MakeSwarmUserContent{}
	if kind := f.Get("ContentType", yamlfile.Broken); f.Has("ContentType") {
		m.ContentType = kind.OneOf(BuildContent, SwarmContent)
	}
	ops := f.Get("OpsList", yamlfile.Broken)
	items := ops.List()
	for _, item := range items {
		o := item.Fields(yamlfile.Broken, "Operation", "Target", "Options")
		if o == nil {
			continue
		}
		x := Operation{Target: o.Want("Target", yamlfile.Rule{}), Out: out(o.Get("Options", 0))}
		if op := o.Get("Operation", yamlfile.Broken); o.Has("Operation") {
			x.Operation = op.OneOf(Download, Extract)
		}
		m.Ops = append(m.Ops, x)
	}
	switch {
	case f.Has("OpsList") && len(items) == 0:
		ops.Find(yamlfile.Broken, "%s is empty: write what is to be done", ops.Name)
	case len(items) > 20:
		ops.Find(yamlfile.Strict, "%s has %d items: the original takes 20", ops.Name, len(items))
	}
	return m
}

// out reads the options of an operation, of which there is one.
func out(v yamlfile.Value) (out string) {
	if v.Null() {
		return ""
	}
	items := []yamlfile.Value{v}
	if v.Kind() == "a map" {
		v.Find(yamlfile.Strict, "%s is a map: write a list, as - Out : FILE", v.Name)
	} else {
		items = v.List()
	}
	for _, item := range items {
		if o := item.Fields(yamlfile.Broken, "Out"); o != nil {
			out = o.May("Out", yamlfile.Rule{})
		}
	}
	return out
}

func runSwarm(v yamlfile.Value) Body {
	f := v.Fields(yamlfile.Broken, "Entrypoint", "Command", "WorkingDir", "Envvars", "PrivateContent", "SharedContent")
	if f == nil {
		return nil
	}
	r := RunSwarm{
		Entrypoint:     strings.TrimRight(f.Want("Entrypoint", yamlfile.Rule{Free: true, Lines: true}), "\n"), // > in a file ends a text with one
		Command:        strings.TrimRight(f.Want("Command", yamlfile.Rule{Free: true, Lines: true}), "\n"),
		WorkingDir:     f.Want("WorkingDir", yamlfile.Rule{Least: 2}),
		Env:            pairs(f.Get("Envvars", yamlfile.Odd)),
		PrivateContent: f.May("PrivateContent", yamlfile.Rule{}),
	}
	shared := f.Get("SharedContent", yamlfile.Odd)
	items := shared.List()
	for _, item := range items {
		if s := item.Fields(yamlfile.Broken, "Src", "Tgt", "MType"); s != nil {
			x := Shared{Src: s.Want("Src", yamlfile.Rule{}), Tgt: s.Want("Tgt", yamlfile.Rule{})}
			if kind := s.Get("MType", yamlfile.Broken); s.Has("MType") {
				x.MountType = kind.OneOf(Bind, Volume)
			}
			r.SharedContent = append(r.SharedContent, x)
		}
	}
	if len(items) > 10 || !shared.Null() && len(items) == 0 {
		shared.Find(yamlfile.Strict, "%s has %d items: the original takes 1 to 10, or null", shared.Name, len(items))
	}
	return r
}
