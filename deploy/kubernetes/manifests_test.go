// Package kubernetes_test holds the manifests to the Kubernetes API's own types, to each other, and to swarmd's options. No
// cluster is needed. It is a module of its own: those types are no dependency of swarmd's.
package kubernetes_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	trainerv1 "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const namespace = "swarm"

// clusterSPIFFEID is what SPIRE's controller manager defines, as far as it is used here: its Go module brings all of
// controller-runtime along.
type clusterSPIFFEID struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ClassName         string                `json:"className,omitempty"`
		SPIFFEIDTemplate  string                `json:"spiffeIDTemplate"`
		NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
		PodSelector       *metav1.LabelSelector `json:"podSelector,omitempty"`
		TTL               string                `json:"ttl,omitempty"`
		Hint              string                `json:"hint,omitempty"`
	} `json:"spec"`
}

// kinds makes an empty object for each apiVersion and kind that may stand here.
var kinds = map[string]func() metav1.Object{
	"v1 Namespace":                             func() metav1.Object { return new(corev1.Namespace) },
	"v1 Service":                               func() metav1.Object { return new(corev1.Service) },
	"v1 ServiceAccount":                        func() metav1.Object { return new(corev1.ServiceAccount) },
	"v1 PersistentVolumeClaim":                 func() metav1.Object { return new(corev1.PersistentVolumeClaim) },
	"v1 Pod":                                   func() metav1.Object { return new(corev1.Pod) },
	"v1 ConfigMap":                             func() metav1.Object { return new(corev1.ConfigMap) },
	"apps/v1 Deployment":                       func() metav1.Object { return new(appsv1.Deployment) },
	"batch/v1 Job":                             func() metav1.Object { return new(batchv1.Job) },
	"apps/v1 StatefulSet":                      func() metav1.Object { return new(appsv1.StatefulSet) },
	"policy/v1 PodDisruptionBudget":            func() metav1.Object { return new(policyv1.PodDisruptionBudget) },
	"networking.k8s.io/v1 NetworkPolicy":       func() metav1.Object { return new(networkingv1.NetworkPolicy) },
	"spire.spiffe.io/v1alpha1 ClusterSPIFFEID": func() metav1.Object { return new(clusterSPIFFEID) },

	"jobset.x-k8s.io/v1alpha2 JobSet":               func() metav1.Object { return new(jobsetv1.JobSet) },
	"trainer.kubeflow.org/v1alpha1 TrainingRuntime": func() metav1.Object { return new(trainerv1.TrainingRuntime) },
	"trainer.kubeflow.org/v1alpha1 TrainJob":        func() metav1.Object { return new(trainerv1.TrainJob) },
}

// decode reads one document; a field that its type does not have, or one that stands twice, is an error.
func decode(document []byte) (metav1.Object, error) {
	var t metav1.TypeMeta
	if err := yaml.Unmarshal(document, &t); err != nil {
		return nil, err
	}
	empty, known := kinds[t.APIVersion+" "+t.Kind]
	if !known {
		return nil, fmt.Errorf("unknown kind %q of %q", t.Kind, t.APIVersion)
	}
	o := empty()
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Kind, err)
	}
	// The API server's own decoder: unlike encoding/json it minds the case of names.
	strict, err := json.UnmarshalStrict(text, o)
	if err := errors.Join(append(strict, err)...); err != nil {
		return nil, fmt.Errorf("%s: %w", t.Kind, err)
	}
	if o.GetName() == "" {
		return nil, fmt.Errorf("%s has no name", t.Kind)
	}
	return o, nil
}

// manifests are all objects, in the order of the files.
func manifests(t *testing.T) []metav1.Object {
	t.Helper()
	return read(t, "manifests/*.yaml", func(text []byte) []byte { return text })
}

// read decodes files after a change to their text.
func read(t *testing.T, pattern string, change func([]byte) []byte) (objects []metav1.Object) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = change(text)
		for i, document := range bytes.Split(text, []byte("\n---\n")) {
			o, err := decode(document)
			if err != nil {
				t.Fatalf("%s, document %d: %v", file, i+1, err)
			}
			objects = append(objects, o)
		}
	}
	return objects
}

// of are the objects of one type.
func of[T metav1.Object](t *testing.T) (found []T) {
	t.Helper()
	for _, o := range manifests(t) {
		if x, ok := o.(T); ok {
			found = append(found, x)
		}
	}
	if len(found) == 0 {
		t.Fatalf("no %T", found)
	}
	return found
}

// pod is what a manifest says about pods, by the name of its owner.
type pod struct {
	name   string
	labels map[string]string
	spec   corev1.PodSpec
	claims []corev1.PersistentVolumeClaim
}

func pods(t *testing.T) (found []pod) {
	t.Helper()
	for _, s := range of[*appsv1.StatefulSet](t) {
		found = append(found, pod{s.Name, s.Spec.Template.Labels, s.Spec.Template.Spec, s.Spec.VolumeClaimTemplates})
	}
	for _, p := range of[*corev1.Pod](t) {
		found = append(found, pod{p.Name, p.Labels, p.Spec, nil})
	}
	return found
}

func TestDecodingIsStrict(t *testing.T) {
	for _, bad := range []string{
		"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {prots: []}\n",
		"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: [{port: api}]}\n",
		"apiVersion: v1\nkind: Service\nmetadata: {name: x, name: y}\n",
		"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {clusterip: None}\n",
		"apiVersion: v1\nkind: Sevrice\nmetadata: {name: x}\n",
		"apiVersion: spire.spiffe.io/v1alpha1\nkind: ClusterSPIFFEID\nmetadata: {name: x}\nspec: {spiffeID: x}\n",
	} {
		if _, err := decode([]byte(bad)); err == nil {
			t.Errorf("decoded %q", bad)
		}
	}
}

func TestEverythingIsInTheNamespace(t *testing.T) {
	for _, o := range manifests(t) {
		switch o.(type) {
		case *corev1.Namespace:
			if o.GetName() != namespace {
				t.Errorf("the namespace is called %s", o.GetName())
			}
		case *clusterSPIFFEID:
			if o.GetNamespace() != "" {
				t.Errorf("%s is of the whole cluster and has a namespace", o.GetName())
			}
		default:
			if o.GetNamespace() != namespace {
				t.Errorf("%s is in the namespace %q", o.GetName(), o.GetNamespace())
			}
		}
	}
}

// The namespace enforces the restricted standard: a pod that breaks it would be refused by the cluster.
func TestPodsMeetTheRestrictedStandard(t *testing.T) {
	for _, p := range pods(t) {
		s := p.spec.SecurityContext
		if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 ||
			s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: pod's security context %+v", p.name, s)
		}
		if p.spec.AutomountServiceAccountToken == nil || *p.spec.AutomountServiceAccountToken {
			t.Errorf("%s: its programs get a token for the Kubernetes API", p.name)
		}
		if p.spec.HostNetwork || p.spec.HostPID || p.spec.HostIPC {
			t.Errorf("%s: uses the host's namespaces", p.name)
		}
		for _, v := range p.spec.Volumes {
			if v.HostPath != nil {
				t.Errorf("%s: volume %s is a host path", p.name, v.Name)
			}
		}
		for _, c := range p.spec.Containers {
			s := c.SecurityContext
			if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil ||
				!*s.ReadOnlyRootFilesystem || s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
				t.Errorf("%s: container's security context %+v", p.name, s)
			}
		}
	}
}

func TestVolumesAreThere(t *testing.T) {
	for _, p := range pods(t) {
		volumes := map[string]corev1.VolumeSource{}
		for _, v := range p.spec.Volumes {
			volumes[v.Name] = v.VolumeSource
		}
		for _, c := range p.claims {
			volumes[c.Name] = corev1.VolumeSource{}
		}
		spiffe, ok := volumes["spiffe"]
		if !ok || spiffe.CSI == nil || spiffe.CSI.Driver != "csi.spiffe.io" || spiffe.CSI.ReadOnly == nil || !*spiffe.CSI.ReadOnly {
			t.Errorf("%s: the Workload API is no volume of SPIRE's CSI driver: %+v", p.name, spiffe)
		}
		for _, c := range p.spec.Containers {
			mounted := []string{}
			for _, m := range c.VolumeMounts {
				mounted = append(mounted, m.Name)
				if _, ok := volumes[m.Name]; !ok {
					t.Errorf("%s: mounts %s, which is no volume", p.name, m.Name)
				}
			}
			for name := range volumes {
				if !slices.Contains(mounted, name) {
					t.Errorf("%s: does not mount %s", p.name, name)
				}
			}
		}
	}
}

func matches(selector *metav1.LabelSelector, labels map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(set(labels))
}

// set is labels as a selector wants them.
type set map[string]string

func (s set) Has(k string) bool              { _, ok := s[k]; return ok }
func (s set) Get(k string) string            { return s[k] }
func (s set) Lookup(k string) (string, bool) { v, ok := s[k]; return v, ok }

func TestSelectorsMeetPods(t *testing.T) {
	all := pods(t)
	some := func(what string, selector *metav1.LabelSelector) {
		t.Helper()
		if !slices.ContainsFunc(all, func(p pod) bool { return matches(selector, p.labels) }) {
			t.Errorf("%s selects no pod", what)
		}
	}
	for _, s := range of[*corev1.Service](t) {
		some("service "+s.Name, &metav1.LabelSelector{MatchLabels: s.Spec.Selector})
	}
	for _, b := range of[*policyv1.PodDisruptionBudget](t) {
		some("budget "+b.Name, b.Spec.Selector)
	}
	for _, s := range of[*appsv1.StatefulSet](t) {
		if !matches(s.Spec.Selector, s.Spec.Template.Labels) {
			t.Errorf("%s does not select its own pods", s.Name)
		}
		if !slices.ContainsFunc(of[*corev1.Service](t), func(x *corev1.Service) bool { return x.Name == s.Spec.ServiceName && x.Spec.ClusterIP == "None" }) {
			t.Errorf("%s: no headless service %s", s.Name, s.Spec.ServiceName)
		}
	}
	for _, id := range of[*clusterSPIFFEID](t) {
		some("identity "+id.Name, id.Spec.PodSelector)
	}
	for _, p := range of[*networkingv1.NetworkPolicy](t) {
		some("policy "+p.Name, &p.Spec.PodSelector)
		for _, rule := range p.Spec.Ingress {
			for _, from := range rule.From {
				some("a source of policy "+p.Name, from.PodSelector)
			}
		}
		for _, rule := range p.Spec.Egress {
			for _, to := range rule.To {
				if to.NamespaceSelector == nil {
					some("a destination of policy "+p.Name, to.PodSelector)
				}
			}
		}
	}
	for _, p := range all { // each is a role, and gets exactly one identity for it
		ids := 0
		for _, id := range of[*clusterSPIFFEID](t) {
			if !matches(id.Spec.PodSelector, p.labels) {
				continue
			}
			ids++
			if want := "/swarm/" + p.labels["app.kubernetes.io/component"]; !strings.Contains(id.Spec.SPIFFEIDTemplate, want) {
				t.Errorf("%s gets the identity %s, want %s", p.name, id.Spec.SPIFFEIDTemplate, want)
			}
		}
		if ids != 1 {
			t.Errorf("%s gets %d identities", p.name, ids)
		}
	}
}

// Who needs which port of whom is what swarmd's components do; the policies must allow it, and nothing to anywhere else.
func TestPoliciesAllowTheSwarmAndNothingElse(t *testing.T) {
	labels := map[string]map[string]string{}
	for _, p := range pods(t) {
		labels[p.labels["app.kubernetes.io/component"]] = p.labels
	}
	allowed := func(peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, peer string, port int) bool {
		return slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
			return p.NamespaceSelector == nil && p.PodSelector != nil && matches(p.PodSelector, labels[peer])
		}) && slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port.IntValue() == port })
	}
	reaches := func(from, to string, port int) bool {
		out, in := false, false
		for _, p := range of[*networkingv1.NetworkPolicy](t) {
			if matches(&p.Spec.PodSelector, labels[from]) {
				out = out || slices.ContainsFunc(p.Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool { return allowed(r.To, r.Ports, to, port) })
			}
			if matches(&p.Spec.PodSelector, labels[to]) {
				in = in || slices.ContainsFunc(p.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool { return allowed(r.From, r.Ports, from, port) })
			}
		}
		return out && in
	}
	needed := []string{
		"sn sn 30303", "sn sn 30304", "sn sn 30305", "sl sn 30304", "sl sn 30305", "sl sl 30305", "swci sn 30304", "swci sl 30305",
	}
	for from := range labels {
		for to := range labels {
			for _, port := range []int{22, 443, 30303, 30304, 30305} {
				line := fmt.Sprintf("%s %s %d", from, to, port)
				if got, want := reaches(from, to, port), slices.Contains(needed, line); got != want {
					t.Errorf("%s: allowed %v, want %v", line, got, want)
				}
			}
		}
	}
	for _, p := range of[*networkingv1.NetworkPolicy](t) {
		for _, rule := range p.Spec.Egress {
			if len(rule.To) == 0 || len(rule.Ports) == 0 {
				t.Errorf("policy %s lets pods out to everywhere", p.Name)
			}
		}
	}
}

var (
	option = regexp.MustCompile(`--?[A-Za-z][A-Za-z-]*`)
	words  = regexp.MustCompile(`(swarmd|swarmctl) ([a-z-]+)((?: --?[a-z-]+(?: [a-z]+)?)*)`)
)

// known are the options of a command of swarmd.
func known(t *testing.T, command string) []string {
	t.Helper()
	bin := os.Getenv("SWARM_BIN")
	if bin == "" {
		bin = "../../bin"
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(bin, "swarmd")); err != nil {
		t.Skip("needs swarmd: run make build")
	}
	help, err := exec.Command(filepath.Join(bin, "swarmd"), command, "--help").Output()
	if err != nil {
		t.Fatalf("swarmd %s --help: %v", command, err)
	}
	return option.FindAllString(string(help), -1)
}

func TestSwarmdKnowsWhatPodsGiveIt(t *testing.T) {
	for _, p := range pods(t) {
		for _, c := range p.spec.Containers {
			if len(c.Args) > 0 {
				options := known(t, c.Args[0])
				for _, arg := range c.Args[1:] {
					name, _, _ := strings.Cut(arg, "=")
					if !slices.Contains(options, name) {
						t.Errorf("%s: swarmd %s has no option %s", p.name, c.Args[0], name)
					}
				}
			}
			for _, probe := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
				if probe == nil {
					continue
				}
				if probe.Exec == nil {
					t.Fatalf("%s: a probe that asks no command", p.name)
				}
				found := words.FindStringSubmatch(strings.Join(probe.Exec.Command, " "))
				if found == nil || found[1] != "swarmd" || found[2] != "health" {
					t.Errorf("%s: the probe %q is not swarmd health", p.name, probe.Exec.Command)
					continue
				}
				options := known(t, found[2])
				for _, name := range option.FindAllString(found[3], -1) {
					if strings.HasPrefix(name, "-") && !slices.Contains(options, name) {
						t.Errorf("%s: swarmd health has no option %s", p.name, name)
					}
				}
			}
		}
	}
}

// Names that the SNs and SLs are given are those that the cluster's DNS gives to their pods.
func TestNodesAreCalledWhatDNSCallsThem(t *testing.T) {
	arg := func(c corev1.Container, name string) string {
		for _, a := range c.Args {
			if v, ok := strings.CutPrefix(a, name+"="); ok {
				return v
			}
		}
		return ""
	}
	services := map[string]bool{}
	for _, s := range of[*corev1.Service](t) {
		services[s.Name+"."+namespace+".svc.cluster.local"] = true
	}
	for _, s := range of[*appsv1.StatefulSet](t) {
		c := s.Spec.Template.Spec.Containers[0]
		domain := s.Spec.ServiceName + "." + namespace + ".svc.cluster.local"
		if host := arg(c, "--host-ip"); host != "$(POD_NAME)."+domain && host != s.Name+"-0."+domain {
			t.Errorf("%s: --host-ip is %s", s.Name, host)
		}
		switch c.Args[0] {
		case "run-sn":
			if sentinel := arg(c, "--sentinel-ip"); sentinel != s.Name+"-0."+domain {
				t.Errorf("%s: --sentinel-ip is %s", s.Name, sentinel)
			}
		case "run-sl":
			if sn := arg(c, "--sn-ip"); !services[sn] {
				t.Errorf("%s: --sn-ip is %s, which is no service", s.Name, sn)
			}
			if *s.Spec.Replicas > 1 {
				t.Errorf("%s: several pods would be one node", s.Name)
			}
		}
	}
}
