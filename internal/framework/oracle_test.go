package framework_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
)

// meeting is a placement with a folder of the run and one for artifacts.
func meeting(n int) framework.Placement {
	p := placed(n)
	for i := range p.Members {
		p.Members[i].WorkDir, p.Members[i].Artifacts = "/run/swarm/work/x-1", "/opt/ml"
	}
	return p
}

// oracleVars are the variables that a program has with compat: oci, and has not without.
func oracleVars(t *testing.T, rank int, lines ...string) map[string]string {
	t.Helper()
	with, without := world(t, append(slices.Clone(lines), "compat: oci")...), world(t, lines...)
	p := meeting(with.Size())
	all, before := programs(t, with, p)[rank], programs(t, without, p)[rank]
	found := of(all, "")
	for name, value := range of(before, "") {
		if found[name] != value {
			t.Errorf("%s is %q, and %q without compat", name, found[name], value)
		}
		delete(found, name)
	}
	return found
}

func TestOracleVariables(t *testing.T) {
	got := oracleVars(t, 1, "framework: pytorch", "command: train.py --lr 0.1", "replicas: 3", "image: i", "ready_timeout: 2m", "resources: {gpu: 2}")
	want := map[string]string{
		"OCI__MAIN_IP": "10.0.0.1", "OCI__WORKER_IP": "10.0.0.2", "OCI__SLOTS": "2", "OCI__SYNC_DIR": "/opt/ml", "JOB_OCID": "x-1", "JOB_RUN_OCID": "x-1-1", "INITIAL_CLUSTER_SIZE": "3",
		"tmpdir": "/run/swarm/work/x-1", "SWARM_NUM_PROCESSES": "6",
	}
	for name, value := range map[string]string{
		"WORK_DIR": "/run/swarm/work", "CLUSTER_TYPE": "PYTORCH", "WORKER_COUNT": "2", "EPHEMERAL": "1", "MODE": "WORKER", "TIMEOUT": "120", "ENTRY_SCRIPT": "train.py", "ENTRY_POINT": "train.py",
		"ENTRY_SCRIPT_ARGS": "--lr 0.1", "ARGS": "--lr 0.1",
	} {
		want[name], want["OCI__"+name] = value, value
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A job that is no cluster has what Oracle's service says of a node alone: a program that finds RANK would look for the others.
func TestOracleVariablesOfPlainJobs(t *testing.T) {
	w := world(t, "image: i", "replicas: 2", "compat: oci", "env: {A: b}")
	got := of(programs(t, w, placed(2))[1], "RANK", "MODE", "WORKER_COUNT", "TIMEOUT", "ARGS", "OCI__MAIN_IP", "JOB_OCID", "JOB_RUN_OCID", "INITIAL_CLUSTER_SIZE", "NODE_RANK")
	if d := cmp.Diff(map[string]string{"JOB_OCID": "x-1", "JOB_RUN_OCID": "x-1-1", "INITIAL_CLUSTER_SIZE": "2", "NODE_RANK": "1"}, got); d != "" {
		t.Error(d)
	}
	w = world(t, "image: i", "replicas: 2", "compat: oci", "env: {CLUSTER_TYPE: DASK}")
	if got := of(programs(t, w, placed(2))[1], "RANK", "MODE"); got["RANK"] != "1" || got["MODE"] != "WORKER" {
		t.Errorf("a cluster has %v", got)
	}
}

// A program of Dask's is in the main node of Oracle's clusters.
func TestOracleModes(t *testing.T) {
	for _, tt := range []struct {
		lines []string
		modes []string
		ranks []string
		count string
	}{
		{[]string{"command: a", "image: i", "replicas: 2"}, []string{"MAIN", "WORKER"}, []string{"0", "1"}, "1"},
		{[]string{"command: a", "image: i", "groups: [{name: chief}, {name: worker, replicas: 2}, {name: ps}]"}, []string{"MAIN", "WORKER", "WORKER", "PS"}, []string{"0", "1", "2", ""}, "2"},
		{[]string{"framework: dask", "command: a.py", "image: i", "replicas: 2"}, []string{"MAIN", "WORKER", "WORKER", "MAIN"}, []string{"0", "1", "2", "0"}, "2"},
	} {
		w := world(t, append(tt.lines, "compat: oci")...)
		for i, p := range programs(t, w, meeting(w.Size())) {
			got := of(p, "MODE", "RANK", "WORKER_COUNT")
			want := map[string]string{"MODE": tt.modes[i], "WORKER_COUNT": tt.count}
			if tt.ranks[i] != "" {
				want["RANK"] = tt.ranks[i]
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%v, rank %d: %s", tt.lines, i, d)
			}
		}
	}
}

// What the job says comes before what it would be otherwise, under all names that Oracle has for it.
func TestOracleOverridden(t *testing.T) {
	got := oracleVars(t, 0, "command: a.py b", "image: i", "ends: {ttl: 1h}", "env: {OCI__ENTRY_SCRIPT: '${SWARM_JOB_NAME}/own.py', TIMEOUT: 7, RANK: 9}")
	for name, want := range map[string]string{
		"ENTRY_POINT": "x/own.py", "ENTRY_SCRIPT": "x/own.py", "OCI__ENTRY_POINT": "x/own.py", "OCI__TIMEOUT": "7", "EPHEMERAL": "0", "ARGS": "b",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

// filesOf are the files by which members of a job meet.
func filesOf(t *testing.T, w *framework.World) map[string]any {
	t.Helper()
	all, err := w.OracleFiles(meeting(w.Size()))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	for _, f := range all {
		var values any
		if err := json.Unmarshal(f.Data, &values); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		found[f.Name] = values
	}
	return found
}

func TestOracleFiles(t *testing.T) {
	type values = map[string]any
	const dir = "/run/swarm/work/x-1"
	for _, tt := range []struct {
		lines []string
		want  values
	}{
		{[]string{"command: a", "image: i", "replicas: 2"}, values{
			"MAIN_config.json":         values{"OCI__MAIN_IP": "10.0.0.1", "tmpdir": dir},
			"WORKER_x-1-1_config.json": values{"OCI__WORKER_IP": "10.0.0.2", "tmpdir": dir},
		}},
		{[]string{"framework: pytorch", "image: i", "command: a", "groups: [{name: main}, {name: worker}]"}, values{
			"MAIN_config.json":         values{"OCI__MAIN_IP": "10.0.0.1", "MASTER_ADDR": "10.0.0.1", "tmpdir": dir},
			"WORKER_x-1-1_config.json": values{"OCI__WORKER_IP": "10.0.0.2", "tmpdir": dir},
		}},
		{[]string{"framework: dask", "image: i", "command: a.py", "groups: [{name: worker, replicas: 1, env: {nprocs: 4}}]"}, values{
			"MAIN_config.json":         values{"OCI__MAIN_IP": "10.0.0.1", "SCHEDULER_IP": "10.0.0.1", "nprocs": "1", "death_timeout": "10", "tmpdir": dir},
			"WORKER_x-1-1_config.json": values{"OCI__WORKER_IP": "10.0.0.2", "nprocs": "4", "death_timeout": "10", "tmpdir": dir},
		}},
		{[]string{"command: a", "replicas: 2", "env: {A: b}"}, values{ // each host has the folder at a path of its own
			"MAIN_config.json":         values{"OCI__MAIN_IP": "10.0.0.1"},
			"WORKER_x-1-1_config.json": values{"OCI__WORKER_IP": "10.0.0.2"},
		}},
		{[]string{"image: i", "env: {CLUSTER_TYPE: DASK, nprocs: 2}", "groups: [{name: main}, {name: worker}]"}, values{
			"MAIN_config.json":         values{"OCI__MAIN_IP": "10.0.0.1", "SCHEDULER_IP": "10.0.0.1", "nprocs": "2", "death_timeout": "10", "tmpdir": dir},
			"WORKER_x-1-1_config.json": values{"OCI__WORKER_IP": "10.0.0.2", "nprocs": "2", "death_timeout": "10", "tmpdir": dir},
		}},
	} {
		if d := cmp.Diff(tt.want, filesOf(t, world(t, append(tt.lines, "compat: oci")...))); d != "" {
			t.Errorf("%v: %s", tt.lines, d)
		}
		if all := filesOf(t, world(t, tt.lines...)); len(all) > 0 {
			t.Errorf("without compat: %v", all)
		}
	}
}

// TensorFlow's nodes meet by a file more, once it is a framework here.
func TestOracleFilesOfTensorFlow(t *testing.T) {
	if !slices.Contains(jobfile.Frameworks, "tensorflow") {
		return
	}
	type values = map[string]any
	w := world(t, "framework: tensorflow", "image: i", "command: a.py", "env: {WORKER_PORT: 22345}", "groups: [{name: chief}, {name: worker}, {name: ps}]", "compat: oci")
	want := values{"worker": values{"0": "10.0.0.1:22345", "1": "10.0.0.2:22345"}, "ps": values{"0": "10.0.0.3:22345"}}
	found := filesOf(t, w)
	if d := cmp.Diff(want, found["cluster.json"]); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(values{"OCI__MODE": "PS", "OCI__WORKER_IP": "10.0.0.3", "WORKER_PORT": "22345", "tmpdir": "/run/swarm/work/x-1"}, found["PS_x-1-2_config.json"]); d != "" {
		t.Error(d)
	}
}
