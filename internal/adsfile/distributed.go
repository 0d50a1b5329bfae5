package adsfile

import (
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// readDistributed reads train.yaml of ads opctl.
func readDistributed(r *reader, f *fields) {
	spec := r.fields(f.Get("spec", yamlfile.Broken), "infrastructure", "cluster", "runtime", "name")
	if spec == nil {
		return
	}
	if !spec.given("cluster") {
		spec.Of.Find(yamlfile.Broken, "spec.cluster is missing: write its kind, and its spec")
		return
	}
	c := &cluster{}
	if outer := r.fields(spec.Get("cluster", 0), "kind", "apiVersion", "spec", "type"); outer != nil {
		c.at = outer.Get("kind", yamlfile.Broken)
		c.kind = strings.ToUpper(text(c.at))
		r.kind = c.kind
		readCluster(r, c, outer.Get("spec", yamlfile.Broken))
	}
	r.name(spec.Get("name", 0))
	c.needs, c.volumes = r.infrastructure(spec.Get("infrastructure", 0))
	c.program = clusterProgram(r, spec.Get("runtime", 0))
	if c.at.Node == nil || r.Broken() {
		return
	}
	buildCluster(r, c)
}

func readCluster(r *reader, c *cluster, v yamlfile.Value) {
	f := r.fields(v, "image", "workDir", "ephemeral", "name", "config", "certificate", "main", "worker", "ps")
	if f == nil {
		return
	}
	r.name(f.Get("name", 0))
	c.image = r.imageOf(f.Get("image", 0))
	r.workDir(f.Get("workDir", 0))
	if e := f.Get("ephemeral", 0); !e.Null() && !e.Yes() {
		c.idle = true
		f.note("ephemeral", "is false: it lives for %s after all members are ready, whatever its program does, and a file named stop in the folder of its run ends it before; a job file has another time under ends", jobfile.Duration(idleFor))
	}
	if f.given("certificate") {
		f.refuse("certificate", "has certificates of Oracle's vault, and members speak without TLS: leave it out, and have them on one host, in a network of their own (network: private)")
	}
	all := readRole(r, f.Get("config", 0), true)
	c.env = all.env
	for _, x := range []struct {
		name string
		to   *role
	}{{"main", &c.main}, {"worker", &c.worker}, {"ps", &c.ps}} {
		if !f.given(x.name) {
			continue
		}
		*x.to = readRole(r, f.Get(x.name, 0), false)
		if len(x.to.options) == 0 {
			x.to.options, x.to.at = slices.Clone(all.options), all.at
		}
	}
	if c.main.replicas > 1 {
		f.note("main", "has one replica: a cluster has one main node")
	}
	if c.image == "" && (c.main.image == "" || f.given("worker") && c.worker.image == "" || f.given("ps") && c.ps.image == "") && !r.Broken() {
		f.Of.Find(yamlfile.Broken, "%s.image is missing: write the name of the cluster's image", f.Of.Name)
	}
	if c.main.replicas == 0 {
		c.main.options, c.main.at = all.options, all.at
	}
}

// readRole reads what a kind of nodes has of its own, or what all have.
func readRole(r *reader, v yamlfile.Value, all bool) (x role) {
	if v.Null() {
		return x
	}
	if all {
		return readConfig(r, v)
	}
	f := r.fields(v, "name", "image", "replicas", "config")
	if f == nil {
		return x
	}
	x = readConfig(r, f.Get("config", 0))
	x.replicas = 1
	if n, ok := f.Get("replicas", 0).Number(0, jobfile.MaxMembers); ok {
		if x.replicas = max(n, 1); n == 0 {
			f.note("replicas", "is 0, of which ADS makes 1: leave these nodes out")
		}
	}
	x.image = r.imageOf(f.Get("image", 0))
	f.ignore("members are called by their rank, as node-0", "name")
	return x
}

func readConfig(r *reader, v yamlfile.Value) (x role) {
	f := r.fields(v, "env", "startOptions")
	if f == nil {
		return x
	}
	x.env = r.environment(r.variables(f.Get("env", 0)))
	x.at = f.Get("startOptions", 0)
	x.options = startOptions(x.at)
	return x
}

// imageOf reads the name of an image.
func (r *reader) imageOf(v yamlfile.Value) string {
	s := text(v)
	switch {
	case s == "":
		return ""
	case r.image != "":
		if s != r.image {
			v.Find(yamlfile.Noted, "%s %s becomes %s", v.Name, yamlfile.Excerpt(s), yamlfile.Excerpt(r.image))
		}
		return r.image
	case s == "@image" && r.built != "":
		v.Find(yamlfile.Noted, "%s @image becomes %s, as config.ini says", v.Name, yamlfile.Excerpt(r.built))
		if !imageForm.MatchString(r.built) {
			v.Find(yamlfile.Broken, "%s is what config.ini says, %q: write the name of an image, or say it with --image NAME", v.Name, yamlfile.Excerpt(r.built))
		}
		return r.built
	case strings.HasPrefix(s, "@"):
		v.Find(yamlfile.Broken, "%s is %q, which stands for what ads opctl build-image has written to config.ini: write the image's name, or say it with --image NAME", v.Name, yamlfile.Excerpt(s))
	case !imageForm.MatchString(s):
		v.Find(yamlfile.Broken, "%s is %q: write the name of an image, as torch:2 or with its digest, or say it with --image NAME", v.Name, yamlfile.Excerpt(s))
	}
	return s
}
