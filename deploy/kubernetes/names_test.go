package kubernetes_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// only are the objects of one type among others.
func only[T metav1.Object](objects []metav1.Object) (found []T) {
	for _, o := range objects {
		if x, ok := o.(T); ok {
			found = append(found, x)
		}
	}
	return found
}

// TestDNSCanBeClosed follows the documentation: with names.yaml applied, and the marked lines of the SL's manifest taken in, its
// pod asks a resolver that knows the namespace's names only, and reaches no other.
func TestDNSCanBeClosed(t *testing.T) {
	base := manifests(t)
	closed := read(t, "manifests/*.yaml", func(text []byte) []byte { return bytes.ReplaceAll(text, []byte("#+ "), nil) })
	names := read(t, "names/*.yaml", func(text []byte) []byte { return text })
	resolver, service := only[*appsv1.Deployment](names)[0], only[*corev1.Service](names)[0]

	var sl, open *appsv1.StatefulSet
	for i, s := range only[*appsv1.StatefulSet](closed) {
		if s.Spec.Template.Labels["app.kubernetes.io/component"] == "sl" {
			sl, open = s, only[*appsv1.StatefulSet](base)[i]
		}
	}
	pod := sl.Spec.Template
	if pod.Spec.DNSPolicy != corev1.DNSNone || pod.Spec.DNSConfig == nil || !slices.Equal(pod.Spec.DNSConfig.Nameservers, []string{service.Spec.ClusterIP}) {
		t.Errorf("the SL's pod has the resolver %s %+v, want that of the service, %s", pod.Spec.DNSPolicy, pod.Spec.DNSConfig, service.Spec.ClusterIP)
	}
	if !matches(sl.Spec.Selector, pod.Labels) {
		t.Error("the StatefulSet does not select its pod any more")
	}
	if !matches(resolver.Spec.Selector, resolver.Spec.Template.Labels) || !matches(&metav1.LabelSelector{MatchLabels: service.Spec.Selector}, resolver.Spec.Template.Labels) {
		t.Error("deployment or service do not select the resolver's pods")
	}

	port53 := func(labels map[string]string, policies []*networkingv1.NetworkPolicy) (to []string) {
		for _, p := range policies {
			if !matches(&p.Spec.PodSelector, labels) {
				continue
			}
			for _, rule := range p.Spec.Egress {
				dns := slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool {
					return p.Port.IntValue() == 53 || p.Port.IntValue() == 5353
				})
				for _, peer := range rule.To {
					switch {
					case !dns:
					case peer.NamespaceSelector != nil:
						to = append(to, "cluster")
					case matches(peer.PodSelector, resolver.Spec.Template.Labels):
						to = append(to, "resolver")
					default:
						to = append(to, "others")
					}
				}
			}
		}
		return to
	}
	policies := append(only[*networkingv1.NetworkPolicy](closed), only[*networkingv1.NetworkPolicy](names)...)
	for _, tt := range []struct {
		what   string
		labels map[string]string
		want   string
	}{
		{"an SL that is closed", pod.Labels, "resolver"},
		{"an SL that is not", open.Spec.Template.Labels, "cluster"},
		{"the resolver", resolver.Spec.Template.Labels, "cluster"},
	} {
		if got := port53(tt.labels, policies); !slices.Equal(got, []string{tt.want}) {
			t.Errorf("%s reaches for names %v, want %s", tt.what, got, tt.want)
		}
	}
	file := only[*corev1.ConfigMap](names)[0].Data["Corefile"]
	zone, _, _ := strings.Cut(file, " ")
	if zone != namespace+".svc.cluster.local:5353" || strings.Count(file, "{") != 1 {
		t.Errorf("the resolver knows more than the namespace's names:\n%s", file)
	}
}
