package swop_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
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
