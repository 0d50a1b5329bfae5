package framework_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/framework"
)

// TestAProgramThatStartsItsClusterItself meets in WORK_DIR, asks no service of Oracle's, and signs in with a key that it finds, unless the job says how.
func TestAProgramThatStartsItsClusterItself(t *testing.T) {
	names := []string{"JOB_OCID", "WORK_DIR", "OCI__WORK_DIR", "OCI_IAM_TYPE", "OCI_CONFIG_FILE", "POST_PROCESSING_WAIT"}
	const folder = "/run/swarm/work/x-1"
	key := framework.Bootstrap{Itself: true, Key: "/run/swarm/oci"}
	whole := map[string]string{
		"JOB_OCID": "", "WORK_DIR": folder, "OCI__WORK_DIR": folder, "OCI_IAM_TYPE": "api_key", "OCI_CONFIG_FILE": "/run/swarm/oci/config", "POST_PROCESSING_WAIT": "5",
	}
	with := func(change map[string]string, without ...string) map[string]string {
		all := map[string]string{}
		for k, v := range whole {
			all[k] = v
		}
		for _, k := range without {
			delete(all, k)
		}
		for k, v := range change {
			all[k] = v
		}
		return all
	}
	classic := map[string]string{"JOB_OCID": "x-1", "WORK_DIR": "/run/swarm/work", "OCI__WORK_DIR": "/run/swarm/work"}
	for name, tt := range map[string]struct {
		lines []string
		want  framework.Bootstrap
		vars  map[string]string
	}{
		"itself":           {[]string{"env: {CLUSTER_TYPE: DASK}"}, key, whole},
		"by the long name": {[]string{"env: {OCI__CLUSTER_TYPE: DASK}"}, key, whole},
		"with an ID":       {[]string{"env: {CLUSTER_TYPE: DASK, JOB_OCID: x-1}"}, framework.Bootstrap{Key: key.Key}, with(classic)},
		"with an empty ID": {[]string{"env: {CLUSTER_TYPE: DASK, JOB_OCID: ''}"}, key, whole},
		"with its folder":  {[]string{"env: {CLUSTER_TYPE: DASK, WORK_DIR: /mnt}"}, key, with(map[string]string{"WORK_DIR": "/mnt", "OCI__WORK_DIR": "/mnt"})},
		"with a key of its own": {
			[]string{"env: {CLUSTER_TYPE: DASK, OCI_CONFIG_PROFILE: ME}"}, framework.Bootstrap{Itself: true}, with(nil, "OCI_IAM_TYPE", "OCI_CONFIG_FILE"),
		},
		"with a principal": {
			[]string{"env: {CLUSTER_TYPE: DASK}", "secrets: [OCI_RESOURCE_PRINCIPAL_RPST]"}, framework.Bootstrap{Itself: true}, with(nil, "OCI_IAM_TYPE", "OCI_CONFIG_FILE"),
		},
		"with a wait":    {[]string{"env: {CLUSTER_TYPE: DASK, POST_PROCESSING_WAIT: 60}", "grace: 61s"}, key, with(map[string]string{"POST_PROCESSING_WAIT": "60"})},
		"a framework":    {[]string{"framework: pytorch", "env: {CLUSTER_TYPE: DASK}"}, framework.Bootstrap{}, classic},
		"no cluster":     {nil, framework.Bootstrap{}, classic},
		"another folder": {[]string{"work_dir: other", "env: {CLUSTER_TYPE: DASK}"}, key, whole},
	} {
		lines := append([]string{"compat: oci", "command: a.py", "image: i", "replicas: 2"}, tt.lines...)
		if !strings.Contains(strings.Join(lines, "\n"), "work_dir") {
			lines = append(lines, "work_dir: w")
		}
		w := world(t, lines...)
		p := meeting(w.Size())
		p.Metadata = "/run/swarm/nodes.json"
		x := programs(t, w, p)[1]
		got := map[string]string{}
		for _, v := range x.Env {
			for _, n := range names {
				if v.Name == n {
					got[n] = v.Value
				}
			}
		}
		if x.Starter != tt.want {
			t.Errorf("%s: %+v, want %+v", name, x.Starter, tt.want)
		}
		if d := cmp.Diff(tt.vars, got); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
	}
}

// TestAWaitThatOutlastsTheGrace is refused: what a program says with its exit code then comes too late.
func TestAWaitThatOutlastsTheGrace(t *testing.T) {
	for lines, want := range map[string]string{
		"env: {CLUSTER_TYPE: DASK, POST_PROCESSING_WAIT: 60}":     "write grace: 1m30s",
		"env: {CLUSTER_TYPE: DASK}\ngrace: 5s":                    "write grace: 35s",
		"env: {CLUSTER_TYPE: DASK, POST_PROCESSING_WAIT: a lot}":  "write seconds, 0 to 600",
		"env: {CLUSTER_TYPE: DASK, POST_PROCESSING_WAIT: '9999'}": "write seconds, 0 to 600",
		"env: {POST_PROCESSING_WAIT: 60}":                         "",
	} {
		_, err := framework.WorldOf(job(t, "compat: oci", "command: a.py", "image: i", "work_dir: w", lines))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", lines, err, want)
		}
	}
}
