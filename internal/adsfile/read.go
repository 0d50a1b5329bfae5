package adsfile

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// Import is a file of Oracle's as a job.
type Import struct {
	Job  *jobfile.Job
	From string // what the file is, in words
	Only string // the file of the source's folder that travels; empty: all of them
	// Entry is the file that the source's folder has to have, as members run it, and EntryLine where it is said; empty: none.
	Entry     string
	EntryLine int
	// Notes are what of the file is ignored, or is another thing here, by line.
	Notes []*yamlfile.Finding
}

// Is reports whether a file is one of Oracle's by what is in it.
func Is(data []byte) bool {
	d := &yamlfile.Document{}
	root := d.Parse(data)
	return root != nil && (hasField(root, "kind") && hasField(root, "spec") || isAPI(root) || isAPI(fieldNode(root, "data")))
}

// isAPI reports whether a map is a job as the API has it.
func isAPI(n *yaml.Node) bool {
	if n == nil {
		return false
	}
	for name, part := range otherNames {
		if slices.Contains(jobParts, part) && hasField(n, name) {
			return true
		}
	}
	return slices.ContainsFunc(jobParts, func(name string) bool { return hasField(n, name) })
}

func hasField(n *yaml.Node, name string) bool { return fieldNode(n, name) != nil }

// fieldNode is that of a name in a map, in any spelling; nil: there is none.
func fieldNode(n *yaml.Node, name string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if spelled(n.Content[i].Value) == spelled(name) {
			return n.Content[i+1]
		}
	}
	return nil
}

// Images are names of images that a file has not. Empty ones are not known.
type Images struct {
	Said  string // in the place of all that the file names
	Built string // what @image stands for
}

// Read reads a file of Oracle's. file is its name, for what is said of it. The error is one line and names the file's line.
func Read(file string, data []byte, images Images) (*Import, error) {
	r := &reader{Document: &yamlfile.Document{File: file, Once: true}, image: images.Said, built: images.Built, job: newJob(), places: map[string]yamlfile.Value{}}
	if root := r.Parse(data); root != nil {
		r.read(r.At(root, ""))
	}
	if r.First(yamlfile.Broken) == nil && r.First(yamlfile.Unfilled) == nil {
		r.finish()
	}
	if n := r.Missed(); n > 0 { // what is not said would be done in silence
		r.Find(yamlfile.Broken, 1, "of the file %d more things are ignored, or are another thing here, than are shown: leave out what nothing here has", n)
	}
	if all := r.All(yamlfile.Unfilled, yamlfile.Broken); len(all) == 1 {
		return nil, all[0]
	} else if len(all) > 0 {
		return nil, fmt.Errorf("%w (and %d more of its lines are wrong)", all[0], len(all)-1)
	}
	return &Import{Job: r.job, From: r.from, Only: r.only, Entry: r.entry, EntryLine: r.entryLine, Notes: r.All(yamlfile.Noted)}, nil
}

// reader is a file while it becomes a job.
type reader struct {
	*yamlfile.Document
	image string // in the place of all others
	built string // in the place of @image
	job   *jobfile.Job
	from  string
	only  string
	base  string // of the folder that travels, if paths may begin with it
	entry string // the file of that folder that runs
	root  yamlfile.Value

	entryLine int

	kind      string                    // of the cluster, in capitals; empty: the job is none
	vars      []variable                // of the job, or the group, that is read
	places    map[string]yamlfile.Value // where each variable of a cluster stands
	every     time.Duration             // between copies of artifacts; 0: not said
	artifacts bool                      // members copy what they leave
}

// newJob is a job with what holds where a file says nothing.
func newJob() *jobfile.Job {
	return &jobfile.Job{
		Framework: jobfile.None, Compat: jobfile.OCI, Timeout: jobfile.MaxTimeout, ReadyTimeout: jobfile.DefaultReadyTimeout, Grace: jobfile.DefaultGrace,
	}
}

func (r *reader) read(root yamlfile.Value) {
	r.root = root
	if data := fieldNode(root.Node, "data"); data != nil { // as Oracle's command line prints it
		r.root = r.At(data, "")
	}
	if isAPI(r.root.Node) {
		r.from = "a job of OCI Data Science"
		readAPI(r, r.root)
		return
	}
	f := r.fields(root, "kind", "apiVersion", "type", "name", "spec")
	if f == nil {
		return
	}
	switch kind := f.Get("kind", 0); text(kind) {
	case "distributed":
		r.from = "ADS, kind: distributed"
		readDistributed(r, f)
	case "job":
		r.from = "ADS, kind: job"
		readJob(r, f)
	default:
		kind.Find(yamlfile.Broken, "kind %q is no job: files of ADS are read with kind: distributed or kind: job", yamlfile.Excerpt(text(kind)))
	}
}

// finish completes the job, and holds it to what a job file is held to.
func (r *reader) finish() {
	j := r.job
	if j.Name == "" {
		j.Name = jobNamed(j.Framework)
	}
	r.network()
	if !slices.Contains(jobfile.Frameworks, j.Framework) {
		return // who runs it says that
	}
	if _, err := jobfile.Read("", []byte(j.Text())); err != nil {
		var at *yamlfile.Finding
		if errors.As(err, &at) {
			r.root.Find(yamlfile.Broken, "it becomes no job: %s", at.Text)
		}
	}
}

// network chooses the network: nodes of Oracle's are machines of their own, which reach each other.
func (r *reader) network() {
	j := r.job
	images := j.Image != ""
	for _, g := range j.Groups {
		images = images || g.Image != ""
	}
	switch {
	case !images:
		j.Network = jobfile.Host
	case j.Members() > 1:
		j.Network = jobfile.Host
		r.root.Find(yamlfile.Noted, "members are in their hosts' networks (network: host), where each host's policy has host under networks; --network private has all of them on one host")
	default:
		j.Network, j.AnyNetwork = jobfile.Private, true
	}
}
