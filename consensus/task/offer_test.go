package task_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
)

// TestOfferKeepsItsBounds: what a host says of itself is hostile until then.
func TestOfferKeepsItsBounds(t *testing.T) {
	var many []string
	for i := range task.MaxLabels {
		many = append(many, fmt.Sprintf("k%02d=v", i))
	}
	for name, tt := range map[string]struct {
		change func(o *task.Offer)
		want   bool
	}{
		"bare": {func(*task.Offer) {}, true},
		"all": {func(o *task.Offer) {
			o.CPUs, o.MemoryBytes, o.GPUs, o.DiskBytes, o.Labels = 64, 1<<39, 8, 1<<50, []string{"gpu=h100", "site=b/2"}
		}, true},
		"many labels":      {func(o *task.Offer) { o.Labels = many }, true},
		"one too many":     {func(o *task.Offer) { o.Labels = append(many, "z=v") }, false},
		"not sorted":       {func(o *task.Offer) { o.Labels = []string{"b=1", "a=1"} }, false},
		"a key twice":      {func(o *task.Offer) { o.Labels = []string{"a=1", "a=2"} }, false},
		"no value":         {func(o *task.Offer) { o.Labels = []string{"a="} }, false},
		"no key":           {func(o *task.Offer) { o.Labels = []string{"=a"} }, false},
		"two equal signs":  {func(o *task.Offer) { o.Labels = []string{"a=b=c"} }, false},
		"a blank":          {func(o *task.Offer) { o.Labels = []string{"a=b c"} }, false},
		"markup":           {func(o *task.Offer) { o.Labels = []string{"a=<b>"} }, false},
		"long":             {func(o *task.Offer) { o.Labels = []string{"a=" + strings.Repeat("x", 200)} }, false},
		"long together":    {func(o *task.Offer) { o.Labels = longer(many, 100) }, false},
		"more CPUs":        {func(o *task.Offer) { o.CPUs = 1 << 20 }, false},
		"more GPUs":        {func(o *task.Offer) { o.GPUs = 1 << 20 }, false},
		"more memory":      {func(o *task.Offer) { o.MemoryBytes = 1 << 60 }, false},
		"more disk":        {func(o *task.Offer) { o.DiskBytes = 1<<50 + 1 }, false},
		"jobs":             {func(o *task.Offer) { o.Jobs = task.JobsAsProcesses }, true},
		"other jobs":       {func(o *task.Offer) { o.Jobs = "vm" }, false},
		"no peers":         {func(o *task.Offer) { o.Peers = 0 }, false},
		"a bad taskrunner": {func(o *task.Offer) { o.Taskrunner = "a b" }, false},
	} {
		o := task.Offer{Taskrunner: "tr", Peers: 1}
		if tt.change(&o); o.Valid() != tt.want {
			t.Errorf("%s: valid: %v", name, o.Valid())
		}
	}
}

func longer(labels []string, n int) (all []string) {
	for _, l := range labels {
		all = append(all, l+strings.Repeat("x", n))
	}
	return all
}
