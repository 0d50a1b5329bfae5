package adsfile

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

var varForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// Variables that say where a member is, and who else. A file does not know these: the swarm sets them for the members that it has placed. What a plain
// job has under these names is its own.
var (
	nodeVars    = []string{"CLUSTER_NODES_METADATA_FILE", "FQDN", "JOB_OCID", "JOB_RUN_OCID", "NODE_COUNT", "NODE_RANK"}
	clusterVars = []string{
		"CLUSTER_TYPE", "INITIAL_CLUSTER_SIZE", "MODE", "OCI__CLUSTER_TYPE", "OCI__MAIN_IP", "OCI__MODE", "OCI__WORKER_COUNT", "OCI__WORKER_IP", "RANK", "WORKER_COUNT",
	}
	meetingVars   = []string{"OCI__WORK_DIR", "WORK_DIR", "tmpdir"} // where there is a folder in which nodes meet
	frameworkVars = map[string][]string{
		"DASK":       {"DASK_SCHEDULER_ADDRESS", "SCHEDULER_IP"},
		"PYTORCH":    {"GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "RANK", "WORLD_SIZE"},
		"RAY":        {"HEAD_IP"},
		"TENSORFLOW": {"OCI__PS_COUNT", "TF_CONFIG"},
	}
)

// ofCluster are the variables that the swarm sets for members of a cluster.
func (r *reader) ofCluster() []string {
	all := slices.Concat(nodeVars, clusterVars, frameworkVars[r.kind])
	if r.job.WorkDir != "" {
		all = append(all, meetingVars...)
	}
	return all
}

// waits are variables that say for how many seconds a cluster is waited for. ADS has START_TIMEOUT, which is Horovod's, never shorter than its own.
var waits = []string{"OCI__TIMEOUT", "TIMEOUT", "TIME_OUT", startTimeout}

const startTimeout = "START_TIMEOUT"

// variable is one of a file, with the place where it stands.
type variable struct {
	jobfile.Var
	at yamlfile.Value
}

// variables are a list of names and values, as ADS has them, or a map, as the API has.
func (r *reader) variables(v yamlfile.Value) (all []variable) {
	take := func(k, x yamlfile.Value) {
		name := text(k)
		at := k
		at.Name = v.Name
		switch {
		case !varForm.MatchString(name):
			at.Find(yamlfile.Broken, "%s has the name %q: use letters, digits and _", v.Name, yamlfile.Excerpt(name))
		case slices.ContainsFunc(all, func(v variable) bool { return v.Name == name }):
			at.Find(yamlfile.Broken, "%s has %s twice: write it once", v.Name, name)
		default:
			all = append(all, variable{jobfile.Var{Name: name, Value: asPython(x)}, at})
		}
	}
	switch {
	case v.Null():
	case v.Kind() == "a map":
		entries := v.Entries()
		for i := 0; i+1 < len(entries); i += 2 {
			take(r.At(entries[i], v.Name), r.At(entries[i+1], v.Name+"."+yamlfile.Excerpt(entries[i].Value)))
		}
	case v.Kind() == "a list":
		for _, item := range v.List() {
			if f := r.fields(item, "name", "value"); f != nil {
				take(f.Get("name", yamlfile.Broken), f.Get("value", 0))
			}
		}
	default:
		v.Find(yamlfile.Broken, "%s is %s: write a list of name and value", v.Name, v.Kind())
	}
	return all
}

// ofFile are the variables that members get of the file's: but for those that the swarm sets.
func ofFile(all []variable, sets []string) (vars []jobfile.Var) {
	for _, v := range all {
		if slices.Contains(sets, v.Name) {
			v.at.Find(yamlfile.Noted, "%s: %s is ignored: the swarm sets it, from where the members are", v.at.Name, v.Name)
			continue
		}
		vars = jobfile.WithVars(vars, []jobfile.Var{v.Var})
	}
	return vars
}

// environment are the variables of a cluster, or of some of its nodes, as members get them. What they say to Oracle's launchers is taken.
func (r *reader) environment(all []variable) []jobfile.Var {
	for _, v := range all {
		r.places[v.Name] = v.at
		if !slices.Contains(r.ofCluster(), v.Name) {
			r.meant(v)
		}
	}
	return ofFile(all, r.ofCluster())
}

// meant takes what a variable says to Oracle's launchers, and not to the program.
func (r *reader) meant(v variable) {
	j := r.job
	switch {
	case slices.Contains(waits, v.Name):
		if d, ok := secondsOf(v); ok {
			if v.Name == startTimeout {
				d = max(d, jobfile.DefaultReadyTimeout)
			}
			j.ReadyTimeout = d
			v.at.Find(yamlfile.Noted, "%s: %s becomes ready_timeout: %s, within which all members have to be ready", v.at.Name, v.Name, jobfile.Duration(d))
		}
	case v.Name == "SYNC_SLEEP":
		if d, ok := secondsOf(v); ok {
			r.every = min(max(d, 5*time.Second), 24*time.Hour)
		}
	case v.Name == "SYNC_ARTIFACTS":
		r.artifacts = v.Value == "1"
	case slices.Contains([]string{"WORKSPACE", "WORKSPACE_PREFIX"}, v.Name):
		v.at.Find(yamlfile.Noted, "%s: %s leads nowhere: artifacts stay on their hosts for swarmctl get artifacts; a job file's artifacts.to has them copied to a target of the hosts", v.at.Name, v.Name)
	case v.Name == "POST_PROCESSING_WAIT":
		v.at.Find(yamlfile.Noted, "%s: POST_PROCESSING_WAIT leads nowhere: what members have left is kept when they have ended, however long that takes", v.at.Name)
	}
}

// secondsOf reads a time as those variables have it.
func secondsOf(v variable) (time.Duration, bool) {
	n, err := strconv.Atoi(strings.TrimSuffix(v.Value, "s"))
	if err == nil && n > 0 && n <= int(jobfile.MaxTimeout.Seconds()) {
		return time.Duration(n) * time.Second, true
	}
	v.at.Find(yamlfile.Broken, "%s: %s is %q: write a number of seconds, from 1 to %d", v.at.Name, v.Name, yamlfile.Excerpt(v.Value), int(jobfile.MaxTimeout.Seconds()))
	return 0, false
}

// maxValue is how many bytes a value has at most.
const maxValue = 16 << 10

// filled are variables with those of the same file in the place of each ${NAME}. What the file does not set is left to the hosts, which have the
// variables of the member.
func (r *reader) filled(at yamlfile.Value, vars []jobfile.Var) []jobfile.Var {
	s := &substitution{vars: vars, done: map[string]string{}}
	out := slices.Clone(vars)
	for i, v := range out {
		fillable(at, v.Value)
		out[i].Value = s.value(v.Name)
	}
	if s.bad != "" {
		at.Find(yamlfile.Broken, "%s: %s names itself, or is too long once its variables are filled in: write its value", at.Name, s.bad)
	}
	return out
}

// substitution fills variables in, each once.
type substitution struct {
	vars []jobfile.Var
	done map[string]string
	open []string // that are filled in now
	bad  string   // the first that can't be
}

func (s *substitution) value(name string) string {
	if v, is := s.done[name]; is {
		return v
	}
	if slices.Contains(s.open, name) {
		s.fail(name)
		return ""
	}
	s.open = append(s.open, name)
	raw, _ := lookup(s.vars, name)
	v := s.fill(raw)
	if len(v) > maxValue {
		s.fail(name)
		v = ""
	}
	s.open = s.open[:len(s.open)-1]
	s.done[name] = v
	return v
}

func (s *substitution) fail(name string) {
	if s.bad == "" {
		s.bad = name
	}
}

// fill fills a text in, and leaves what is no variable of the file's.
func (s *substitution) fill(raw string) string {
	var b strings.Builder
	for b.Len() <= maxValue {
		i := strings.IndexByte(raw, '$')
		if i < 0 {
			break
		}
		b.WriteString(raw[:i])
		raw = raw[i:]
		name, rest, closed := strings.Cut(strings.TrimPrefix(raw, "${"), "}")
		_, known := lookup(s.vars, name)
		switch {
		case strings.HasPrefix(raw, "$$"):
			b.WriteString("$$")
			raw = raw[2:]
		case strings.HasPrefix(raw, "${") && closed && known:
			b.WriteString(s.value(name))
			raw = rest
		default:
			b.WriteByte('$')
			raw = raw[1:]
		}
	}
	return b.String() + raw
}

// lookup is a variable's value.
func lookup(vars []jobfile.Var, name string) (string, bool) {
	for _, v := range vars {
		if v.Name == name {
			return v.Value, true
		}
	}
	return "", false
}

// with is vars and one more, unless that has no value or the file sets it.
func with(vars []jobfile.Var, name, value string) []jobfile.Var {
	if _, is := lookup(vars, name); is || value == "" {
		return vars
	}
	return jobfile.WithVars(vars, []jobfile.Var{{Name: name, Value: value}})
}
