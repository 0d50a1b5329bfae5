package kubernetes_test

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// jobSetSpec is what JobSet v0.8 defines, as far as it is used here: its Go module brings all of controller-runtime along, as Kubeflow's does.
type jobSetSpec struct {
	Network struct {
		EnableDNSHostnames       bool `json:"enableDNSHostnames,omitempty"`
		PublishNotReadyAddresses bool `json:"publishNotReadyAddresses,omitempty"`
	} `json:"network,omitempty"`
	FailurePolicy struct {
		MaxRestarts int32 `json:"maxRestarts,omitempty"`
	} `json:"failurePolicy,omitempty"`
	ReplicatedJobs []struct {
		Name     string                  `json:"name"`
		Replicas int32                   `json:"replicas,omitempty"`
		Template batchv1.JobTemplateSpec `json:"template"`
	} `json:"replicatedJobs,omitempty"`
}

type jobSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              jobSetSpec `json:"spec"`
}

// trainingRuntime is what Kubeflow's Trainer v2.0 defines, likewise.
type trainingRuntime struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		MLPolicy struct {
			NumNodes int32 `json:"numNodes,omitempty"`
			Torch    struct {
				NumProcPerNode int32 `json:"numProcPerNode,omitempty"`
			} `json:"torch,omitempty"`
		} `json:"mlPolicy,omitempty"`
		Template struct {
			Spec jobSetSpec `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

type trainJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		RuntimeRef struct {
			Name     string `json:"name"`
			APIGroup string `json:"apiGroup,omitempty"`
			Kind     string `json:"kind,omitempty"`
		} `json:"runtimeRef"`
		Trainer struct {
			NumNodes         int32                       `json:"numNodes,omitempty"`
			NumProcPerNode   int32                       `json:"numProcPerNode,omitempty"`
			ResourcesPerNode corev1.ResourceRequirements `json:"resourcesPerNode,omitempty"`
		} `json:"trainer,omitempty"`
	} `json:"spec"`
}

// TestRanksHaveOneNode: in both forms rank 0's pod has the node as a container beside the program, which has the bridge, the node's user and
// neither its state nor its identity; the node's address is that of the first rank.
func TestRanksHaveOneNode(t *testing.T) {
	var seen []string
	for _, o := range read(t, "ranks/*.yaml", func(text []byte) []byte { return text }) {
		var spec jobSetSpec
		var job, host string
		switch o := o.(type) {
		case *jobSet:
			spec, job, host = o.Spec, o.Name, o.Name+"-first-0-0."+o.Name
			if rest := spec.ReplicatedJobs[1].Template.Spec.Template.Spec; len(rest.InitContainers) != 0 {
				t.Error("a pod without rank 0 has a node")
			}
		case *trainingRuntime:
			spec, host = o.Spec.Template.Spec, "hospital-a-node-0-0.hospital-a"
		case *trainJob:
			if o.Spec.RuntimeRef.Name != "swarm-torch" || o.Name != "hospital-a" {
				t.Errorf("%+v", o)
			}
			continue
		default:
			continue
		}
		seen = append(seen, job)
		first := spec.ReplicatedJobs[0].Template.Spec.Template.Spec
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
		if job != "" && !slices.Contains(program.Args, "--master_addr="+host) {
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
	if !slices.Equal(seen, []string{"hospital-a", ""}) {
		t.Errorf("looked at %q", seen)
	}
}
