package kubernetes_test

import (
	"slices"
	"strings"
	"testing"

	trainerv1 "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// TestRanksHaveOneNode: in all forms rank 0's pod has the node as a container beside the program, which has the bridge, the node's user and
// neither its state nor its identity; the node's address is that of the first rank.
func TestRanksHaveOneNode(t *testing.T) {
	var seen []string
	for _, o := range read(t, "ranks/*.yaml", func(text []byte) []byte { return text }) {
		var first corev1.PodSpec
		var job, host string
		switch o := o.(type) {
		case *jobsetv1.JobSet:
			first, job, host = o.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec, "JobSet", o.Name+"-first-0-0."+o.Name
			if rest := o.Spec.ReplicatedJobs[1].Template.Spec.Template.Spec; len(rest.InitContainers) != 0 {
				t.Error("a pod without rank 0 has a node")
			}
		case *trainerv1.TrainingRuntime:
			first, job, host = o.Spec.Template.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec, "TrainingRuntime", "hospital-a-node-0-0.hospital-a"
		case *batchv1.Job:
			first, job, host = o.Spec.Template.Spec, "Job", o.Name+"-0."+o.Spec.Template.Spec.Subdomain
			if *o.Spec.CompletionMode != batchv1.IndexedCompletion || *o.Spec.Completions != *o.Spec.Parallelism {
				t.Errorf("%+v: want all ranks at a time, each with its index", o.Spec)
			}
		case *trainerv1.TrainJob:
			if o.Spec.RuntimeRef.Name != "swarm-torch" || o.Name != "hospital-a" {
				t.Errorf("%+v", o)
			}
			continue
		default:
			continue
		}
		seen = append(seen, job)
		node, program := first.InitContainers[0], first.Containers[0]
		if p := node.RestartPolicy; p == nil || *p != corev1.ContainerRestartPolicyAlways {
			t.Errorf("%s: the node's container is not one that runs beside the others", job)
		}
		for _, want := range []string{"run-sl", "--attach", "--bridge-dir=/dev/shm/bridge", "--host-ip=" + host + ".swarm.svc.cluster.local"} {
			if !slices.Contains(node.Args, want) {
				t.Errorf("%s: the node lacks %s", job, want)
			}
		}
		if !slices.Contains(program.Env, corev1.EnvVar{Name: "SWARM_BRIDGE_DIR", Value: "/dev/shm/bridge"}) {
			t.Errorf("%s: the program does not find the bridge", job)
		}
		if job != "TrainingRuntime" && !slices.Contains(program.Args, "--master_addr="+host) {
			t.Errorf("%s: ranks look for the first one elsewhere: %v", job, program.Args)
		}
		for _, m := range program.VolumeMounts {
			if strings.Contains(m.MountPath, "spiffe") || strings.Contains(m.MountPath, "/var/lib/swarmd") {
				t.Errorf("%s: the program has the node's %s", job, m.MountPath)
			}
		}
		var names []string
		for _, v := range first.Volumes {
			names = append(names, v.Name)
		}
		for _, m := range slices.Concat(node.VolumeMounts, program.VolumeMounts) {
			if !slices.Contains(names, m.Name) {
				t.Errorf("%s: no volume %s", job, m.Name)
			}
		}
	}
	if !slices.Equal(seen, []string{"Job", "JobSet", "TrainingRuntime"}) {
		t.Errorf("looked at %q", seen)
	}
}

// TestIndexedJobIsFound: the headless Service and the policy are of the Job's pods, and their names lead to them before they are ready.
func TestIndexedJobIsFound(t *testing.T) {
	var job *batchv1.Job
	var service *corev1.Service
	for _, o := range read(t, "ranks/indexedjob.yaml", func(text []byte) []byte { return text }) {
		switch o := o.(type) {
		case *batchv1.Job:
			job = o
		case *corev1.Service:
			service = o
		}
	}
	if s := service.Spec; s.ClusterIP != corev1.ClusterIPNone || !s.PublishNotReadyAddresses || s.Selector[batchv1.JobNameLabel] != job.Name || service.Name != job.Spec.Template.Spec.Subdomain {
		t.Errorf("%+v of job %s", s, job.Name)
	}
}
