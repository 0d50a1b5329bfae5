package runjob_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// TestNoTwoContainersHaveAGPU at a time: the engine is asked for GPUs by what no other member's container has, also by a SWOP that was restarted.
// Nothing is started, so no GPU is needed.
func TestNoTwoContainersHaveAGPU(t *testing.T) {
	l := newLab(t)
	c := l.containers()
	c.GPUs.Names = []string{"2", "3", "5"}
	jobs := l.jobs(2, nil, "image: "+enginetest.TestImage, "replicas: 2", "resources: {gpu: 1}")
	var prepared sync.WaitGroup
	for _, j := range jobs {
		prepared.Go(func() {
			if err := c.Prepare(t.Context(), j); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(func() {
			if err := c.Clean(context.WithoutCancel(t.Context()), j.Label); err != nil {
				t.Error(err)
			}
		})
	}
	prepared.Wait()
	all, err := l.e.ContainerList(t.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", engine.LabelScope+"="+l.scope))})
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, x := range all {
		info, err := l.e.ContainerInspect(t.Context(), x.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range info.HostConfig.DeviceRequests {
			has[strings.Join(r.DeviceIDs, ",")] = true
		}
	}
	if len(all) != 2 || len(has) != 2 || !has["2"] || !has["3"] {
		t.Errorf("%d containers have the GPUs %v", len(all), has)
	}
	more := l.jobs(1, nil, "image: "+enginetest.TestImage, "resources: {gpu: 2}")[0]
	more.Assignment.ID, more.Label.Assignment = "8", "8"
	next := l.containers()
	next.GPUs.Names = c.GPUs.Names
	if err := next.Prepare(t.Context(), more); err == nil || !strings.Contains(err.Error(), "it needs 2 GPUs, and this host has 1 left of 3") {
		t.Errorf("two of the last one: %v", err)
	}
	if err := next.Clean(t.Context(), more.Label); err != nil {
		t.Error(err)
	}
}
