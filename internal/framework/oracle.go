package framework

import (
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/shellwords"
)

// What a node of Oracle's clusters is, by its variables.
const (
	modeMain   = "MAIN"
	modeWorker = "WORKER"
	modePS     = "PS"
)

// oracleNames are variables that Oracle has under several names, each of these also with OCI__ before it.
var oracleNames = [][]string{
	{"WORK_DIR"}, {"CLUSTER_TYPE"}, {"WORKER_COUNT"}, {"EPHEMERAL"}, {"MODE"}, {"TIMEOUT"}, {"ENTRY_SCRIPT", "ENTRY_POINT"}, {"ENTRY_SCRIPT_ARGS", "ARGS"}, {"ENTRY_SCRIPT_KWARGS", "NAMED_ARGS"},
}

// oracleVars are the variables of a member of a job with compat: oci, beside those of its framework, which come before them.
func oracleVars(w *World, p Placement, m Member) []jobfile.Var {
	me, mode := p.Members[m.Rank], oracleMode(w, m)
	vars := []jobfile.Var{
		{Name: "OCI__SYNC_DIR", Value: me.Artifacts},
		{Name: "JOB_OCID", Value: p.Run},
		{Name: "JOB_RUN_OCID", Value: nodeRun(p, m.Rank)},
		{Name: "INITIAL_CLUSTER_SIZE", Value: strconv.Itoa(len(p.Members))},
	}
	if clusterType(w, m) == jobfile.None && me.WorkDir == "" {
		return sorted(vars) // a program that finds RANK would look for the others
	}
	vars = append(vars,
		jobfile.Var{Name: "WORK_DIR", Value: folderOf(me.WorkDir)},
		jobfile.Var{Name: "WORKER_COUNT", Value: strconv.Itoa(workerCount(w, p))},
		jobfile.Var{Name: "EPHEMERAL", Value: bit(w.job.TTL == 0)},
		jobfile.Var{Name: "MODE", Value: mode},
		jobfile.Var{Name: "TIMEOUT", Value: strconv.Itoa(int(w.job.ReadyTimeout.Seconds()))},
		jobfile.Var{Name: "OCI__SLOTS", Value: strconv.Itoa(max(1, w.Groups[m.group].Resources.GPU))},
		jobfile.Var{Name: "OCI__MAIN_IP", Value: p.Members[0].reachable()},
		jobfile.Var{Name: "OCI__WORKER_IP", Value: me.reachable()},
		jobfile.Var{Name: "tmpdir", Value: me.WorkDir},
	)
	if w.job.Framework == jobfile.PyTorch {
		vars = append(vars, jobfile.Var{Name: "SWARM_NUM_PROCESSES", Value: strconv.Itoa(processes(w))})
	}
	if w.job.Framework != jobfile.None {
		vars = append(vars, jobfile.Var{Name: "CLUSTER_TYPE", Value: strings.ToUpper(w.job.Framework)})
	}
	switch mode {
	case modeMain: // of Dask and Ray the program too, which is in the main node there
		vars = append(vars, jobfile.Var{Name: "RANK", Value: "0"})
	case modeWorker:
		vars = append(vars, jobfile.Var{Name: "RANK", Value: strconv.Itoa(m.Rank)})
	}
	if n := replicasOf(w, parameterServer); n > 0 {
		vars = append(vars, jobfile.Var{Name: "OCI__PS_COUNT", Value: strconv.Itoa(n)})
	}
	return oracleForms(sorted(append(vars, entryScript(w, m)...)), nil)
}

// oracleForms are variables with each of Oracle's under all of its names. Those of own come before others, under whichever name.
func oracleForms(vars, own []jobfile.Var) []jobfile.Var {
	for _, names := range oracleNames {
		var all []string
		for _, name := range names {
			all = append(all, name, "OCI__"+name)
		}
		value, is := firstSet(own, all)
		if !is {
			if value, is = firstSet(vars, all); !is {
				continue
			}
		}
		for _, name := range all {
			if _, set := valueOf(own, name); !set {
				vars = jobfile.WithVars(vars, []jobfile.Var{{Name: name, Value: value}})
			}
		}
	}
	return vars
}

// firstSet is the value of the first of the names that variables have.
func firstSet(vars []jobfile.Var, names []string) (string, bool) {
	for _, name := range names {
		if value, is := valueOf(vars, name); is {
			return value, true
		}
	}
	return "", false
}

// entryScript is the program of the job, which a framework's own members have not as their command.
func entryScript(w *World, m Member) (vars []jobfile.Var) {
	words := slices.Concat(w.job.Command, w.job.Args)
	if len(w.job.Command) == 0 {
		g := w.Groups[m.group]
		words = slices.Concat(g.Command, g.Args)
	}
	i := slices.IndexFunc(words, func(s string) bool { return path.Ext(s) == ".py" })
	if i < 0 || strings.Contains(words[i], "$") {
		return nil
	}
	vars = append(vars, jobfile.Var{Name: "ENTRY_SCRIPT", Value: words[i]})
	if args := shellwords.Join(words[i+1:]); !strings.Contains(args, "$") {
		vars = append(vars, jobfile.Var{Name: "ENTRY_SCRIPT_ARGS", Value: args})
	}
	return vars
}

// oracleMode is what a member is in Oracle's words.
func oracleMode(w *World, m Member) string {
	switch {
	case m.Rank == 0, w.Groups[m.group].Name == entry && servesWorkers(w):
		return modeMain
	case w.Groups[m.group].Name == parameterServer:
		return modePS
	}
	return modeWorker
}

// servesWorkers reports whether groups of the framework's own serve the program.
func servesWorkers(w *World) bool {
	return slices.ContainsFunc(w.Groups, func(g Group) bool { return g.Serves() && g.Name == worker })
}

func replicasOf(w *World, group string) int {
	for _, g := range w.Groups {
		if g.Name == group {
			return g.Replicas
		}
	}
	return 0
}

// workerCount is how many nodes are workers.
func workerCount(w *World, p Placement) int {
	if servesWorkers(w) {
		return replicasOf(w, worker)
	}
	return len(p.Members) - 1 - replicasOf(w, parameterServer)
}

// processes is how many all members start together, each one for each of its GPUs.
func processes(w *World) (n int) {
	for _, m := range w.members() {
		n += max(1, w.Groups[m.group].Resources.GPU)
	}
	return n
}

// nodeRun is what Oracle's launchers have as the run of one node.
func nodeRun(p Placement, rank int) string { return p.Run + "-" + strconv.Itoa(rank) }

// folderOf is the folder that the one of a run is in; empty: there is none.
func folderOf(run string) string {
	if run == "" {
		return ""
	}
	return path.Dir(run)
}

func bit(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}

// Found is a file that members find in the folder of their run.
type Found struct {
	Name string
	Data []byte
}

// OracleFiles are the files by which nodes of Oracle's clusters meet, of a job with compat: oci: what the main node and each worker would write, once
// they are placed.
func (w *World) OracleFiles(p Placement) (all []Found, err error) {
	if w.job.Compat != jobfile.OCI {
		return nil, nil
	}
	add := func(name string, values any) {
		raw, failed := json.Marshal(values)
		if err == nil {
			err = failed
		}
		all = append(all, Found{name, append(raw, '\n')})
	}
	for _, m := range w.members() {
		values := oracleConfig(w, p, m)
		switch mode := oracleMode(w, m); {
		case m.Rank == 0:
			add("MAIN_config.json", values)
		case mode != modeMain:
			add(mode+"_"+nodeRun(p, m.Rank)+"_config.json", values)
		}
	}
	if len(all) > 0 && strings.EqualFold(clusterType(w, w.members()[0]), jobfile.TensorFlow) {
		add("cluster.json", oracleCluster(w, p))
	}
	return all, err
}

// oracleConfig is what a node tells the others. All values are texts: who reads them makes variables of them.
func oracleConfig(w *World, p Placement, m Member) map[string]string {
	me, mode := p.Members[m.Rank], oracleMode(w, m)
	own := w.Groups[m.group].Env
	or := func(name, fallback string) string {
		if v, is := valueOf(own, name); is {
			return v
		}
		return fallback
	}
	values := map[string]string{}
	if w.Groups[m.group].Image != "" { // of processes it is another path on each host
		values["tmpdir"] = me.WorkDir
	}
	if mode == modeMain {
		values["OCI__MAIN_IP"] = me.reachable()
	} else {
		values["OCI__WORKER_IP"] = me.reachable()
	}
	switch strings.ToLower(clusterType(w, m)) {
	case jobfile.PyTorch:
		if mode == modeMain {
			values["MASTER_ADDR"] = me.reachable()
		}
	case jobfile.Dask:
		values["nprocs"], values["death_timeout"] = or("nprocs", "1"), or("death_timeout", "10")
		if mode == modeMain {
			values["SCHEDULER_IP"] = me.reachable()
		}
	case jobfile.TensorFlow:
		values["OCI__MODE"], values["OCI__WORKER_IP"], values["WORKER_PORT"] = mode, me.reachable(), or("WORKER_PORT", strconv.Itoa(workerPort))
	case jobfile.Horovod:
		values["OCI__WORKER_IP"], values["OCI__SLOTS"] = me.reachable(), strconv.Itoa(max(1, w.Groups[m.group].Resources.GPU))
	case jobfile.Ray:
		if mode == modeMain {
			values["HEAD_IP"] = me.reachable()
		}
	}
	return values
}

// clusterType is the framework by which nodes meet: an image may bring one that the job does not know.
func clusterType(w *World, m Member) string {
	if s, is := firstSet(w.Groups[m.group].Env, []string{"CLUSTER_TYPE", "OCI__CLUSTER_TYPE"}); is && w.job.Framework == jobfile.None {
		return s
	}
	return w.job.Framework
}

// oracleCluster is the file that the main node of TensorFlow writes when it knows all: the main node is the first worker.
func oracleCluster(w *World, p Placement) map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, m := range w.members() {
		kind := "worker"
		if oracleMode(w, m) == modePS {
			kind = parameterServer
		}
		if all[kind] == nil {
			all[kind] = map[string]string{}
		}
		port, is := valueOf(w.Groups[m.group].Env, "WORKER_PORT")
		if !is {
			port = strconv.Itoa(workerPort)
		}
		all[kind][strconv.Itoa(len(all[kind]))] = p.Members[m.Rank].reachable() + ":" + port
	}
	return all
}
