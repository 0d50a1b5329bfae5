package adsfile

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/shellwords"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// A cluster may be a job whose variables say what it is: CLUSTER_TYPE, WORK_DIR, WORKER_COUNT, EPHEMERAL, ENTRY_POINT, ARGS, NAMED_ARGS and
// DOCKER_CUSTOM_IMAGE, each also with OCI__ before it.

// taken are those that make the cluster. The swarm sets them for its members.
var taken = []string{"CLUSTER_TYPE", "PS_COUNT", "WORKER_COUNT", "WORK_DIR"}

// said is the value of the first of these variables that the file has.
func (r *reader) said(names ...string) (v variable, is bool) {
	for _, name := range names {
		for _, prefix := range []string{"", "OCI__"} {
			if i := slices.IndexFunc(r.vars, func(v variable) bool { return v.Name == prefix+name }); i >= 0 {
				return r.vars[i], true
			}
		}
	}
	return v, false
}

// customImage is an image that a variable names.
func (r *reader) customImage() (string, bool) {
	v, is := r.said("DOCKER_CUSTOM_IMAGE")
	if !is {
		return "", false
	}
	return r.imageOf(valueOf(v)), true
}

// clusterType is the variable that says of which framework the cluster is. A value that is none may be a program's own.
func clusterType(r *reader) (variable, bool) {
	v, is := r.said("CLUSTER_TYPE")
	return v, is && frameworks[strings.ToUpper(v.Value)] != nil
}

// seed makes the cluster that a job's variables say, and reports whether they do.
func (r *reader) seed(at yamlfile.Value, s *jobfile.Settings) bool {
	kind, is := r.said("CLUSTER_TYPE")
	place, meets := r.said("WORK_DIR")
	if _, known := clusterType(r); known && !meets {
		kind.at.Find(yamlfile.Broken, "%s: %s=%s makes a cluster of the job, and there is no WORK_DIR, in which its nodes meet: write it, as oci://bucket@namespace/prefix, or leave %s out", kind.at.Name, kind.Name, yamlfile.Excerpt(kind.Value), kind.Name)
		return false
	}
	if !is || !meets {
		return false
	}
	j := r.job
	if s == nil {
		s = &j.Settings
	}
	c := &cluster{at: at, kind: strings.ToUpper(kind.Value), image: s.Image, needs: s.Resources, volumes: j.Volumes, main: role{replicas: 1}, worker: role{replicas: 1}}
	c.at.Name = kind.at.Name + " " + kind.Name
	r.kind = c.kind
	kind.at.Find(yamlfile.Noted, "%s: %s says that the job is a cluster of %s: its nodes are started together, each with its mode", kind.at.Name, kind.Name, yamlfile.Excerpt(c.kind))
	if image, is := r.customImage(); is {
		c.image = image
	}
	r.workDir(valueOf(place))
	if n, is := r.count("WORKER_COUNT"); is {
		c.worker.replicas = n
	}
	if n, is := r.count("PS_COUNT"); is && n > 0 {
		c.ps.replicas = n
	}
	if e, is := r.said("EPHEMERAL"); is && slices.Contains([]string{"0", "false", "False"}, e.Value) {
		c.idle = true
	}
	if start, is := r.said("START_ARGS"); is {
		c.main.at = valueOf(start)
		c.main.options = divided(c.main.at, start.Value)
		c.worker.options, c.worker.at = slices.Clone(c.main.options), c.main.at
	}
	seedProgram(r, c, *s)
	c.env = r.environment(slices.DeleteFunc(slices.Clone(r.vars), func(v variable) bool {
		return slices.Contains(taken, strings.TrimPrefix(v.Name, "OCI__"))
	}))
	if !r.Broken() {
		buildCluster(r, c)
	}
	return true
}

// seedProgram is the program that variables name, or else the job's own.
func seedProgram(r *reader, c *cluster, s jobfile.Settings) {
	entry, is := r.said("ENTRY_POINT", "ENTRY_SCRIPT")
	if !is || entry.Value == "" {
		if served := c.kind == "DASK" || c.kind == "RAY"; served && !c.idle {
			c.at.Find(yamlfile.Broken, "%s: the job has no ENTRY_POINT, which names the program that the cluster serves, as its image would start each node by itself: write it among the job's variables, as /code/main.py", c.at.Name)
		}
		c.program.command, c.program.args = s.Command, s.Args
		return
	}
	file := entry.Value
	if !path.IsAbs(file) {
		file = path.Join(codeDir, file)
	}
	c.program.command = interpreter(file)
	for _, name := range []string{"ARGS", "ENTRY_SCRIPT_ARGS", "NAMED_ARGS", "ENTRY_SCRIPT_KWARGS"} {
		if v, is := r.said(name); is {
			c.program.args = append(c.program.args, divided(valueOf(v), v.Value)...)
		}
	}
	c.program.env = with(c.program.env, "PYTHONPATH", codeDir)
	if len(s.Command)+len(s.Args) > 0 {
		entry.at.Find(yamlfile.Noted, "%s: members run %s in the place of %s", entry.at.Name, yamlfile.Excerpt(entry.Value), yamlfile.Excerpt(shellwords.Join(slices.Concat(s.Command, s.Args))))
	}
}

// valueOf is a variable's value, where the variable stands.
func valueOf(v variable) yamlfile.Value {
	at := v.at
	node := *at.Node
	node.Value = v.Value
	at.Node, at.Name = &node, v.at.Name+" "+v.Name
	return at
}

// count is a variable that is a number of nodes.
func (r *reader) count(name string) (int, bool) {
	v, is := r.said(name)
	if !is {
		return 0, false
	}
	n, err := strconv.Atoi(v.Value)
	if err != nil || n < 0 || n > jobfile.MaxMembers {
		v.at.Find(yamlfile.Broken, "%s: %s is %q: give a number from 0 to %d", v.at.Name, v.Name, yamlfile.Excerpt(v.Value), jobfile.MaxMembers)
		return 0, false
	}
	v.at.Find(yamlfile.Noted, "%s: %s becomes how many of these nodes there are: %d", v.at.Name, v.Name, n)
	return n, true
}
