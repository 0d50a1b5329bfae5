package swop_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/swop"
)

func TestOfferOfThisHost(t *testing.T) {
	o, err := swop.OfferOf(task.Offer{Taskrunner: "tr"}, 2, []string{"site=a", "disk=ssd"})
	if err != nil || o.Taskrunner != "tr" || o.Peers != 2 || o.CPUs == 0 || o.MemoryBytes < 1<<26 || !slices.Equal(o.Labels, []string{"disk=ssd", "site=a"}) {
		t.Errorf("%+v, %v", o, err)
	}
	var many []string
	for i := range task.MaxLabels + 1 {
		many = append(many, "k"+strings.Repeat("x", i)+"=v")
	}
	for want, labels := range map[string][]string{"--host-label \"site\"": {"site"}, "has a key twice": {"a=1", "a=2"}, "33 labels are more than 32": many} {
		if _, err := swop.OfferOf(task.Offer{Taskrunner: "tr"}, 2, labels); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", labels, err)
		}
	}
}

// TestAnOfferWithinAPolicy: what jobs may ask for is what their host's owner gives, if that is less.
func TestAnOfferWithinAPolicy(t *testing.T) {
	p, err := policy.Parse("p.yaml", []byte("limits: {cpus: 1.5, memory: 1g, gpus: 1, disk: 10g}"), "a.example")
	if err != nil {
		t.Fatal(err)
	}
	has := task.Offer{CPUs: 8, MemoryBytes: 4 << 30, GPUs: 2, DiskBytes: 40 << 30}
	if got := swop.Within(has, p); got.CPUs != 2 || got.MemoryBytes != 1<<30 || got.GPUs != 1 || got.DiskBytes != 10<<30 {
		t.Errorf("%+v", got)
	}
	has.DiskBytes = 5
	if got := swop.Within(has, p); got.DiskBytes != 5 {
		t.Errorf("%+v", got)
	}
}
