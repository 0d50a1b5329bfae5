package runjob

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/gpus"
)

// TestNoTwoProcessesHaveAGPU at a time: those that are prepared at the same time, by the same SWOP or by the next, until nothing of one is left.
func TestNoTwoProcessesHaveAGPU(t *testing.T) {
	dir := t.TempDir()
	swop := func() *Processes {
		return &Processes{
			SwarmID: func() string { return "s" }, Node: "swop-1", Dir: dir, Getenv: func(string) string { return "" }, Log: slog.New(slog.DiscardHandler), GPUs: gpus.Pool{Names: []string{"0", "1", "2"}},
			Lookup: func(context.Context, string) ([]netip.Addr, error) { return nil, nil },
		}
	}
	job := func(assignment string, gpus int) work.Job {
		body := fmt.Sprintf("name: x\ncommand: ./run\nresources: {gpu: %d}\n--- source\n755 text 3 run\n#!\n", gpus)
		return work.Job{
			Label: work.Label{Swarm: "s", Node: "swop-1", Assignment: assignment, Epoch: 1}, Group: "node", Peers: 1, Task: &task.Task{Name: "x.1", Definition: []byte(body)},
			World: []task.Site{{Node: "swop-1", Group: "node", Address: "127.0.0.1"}},
		}
	}
	sees := func(p *Processes, j work.Job) (gpus string) {
		o, err := orderIn(p.memberDir(j.Label))
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(o.Env, func(kv string) bool { return strings.HasPrefix(kv, "CUDA_VISIBLE_DEVICES=") })
		if i < 0 || !slices.Contains(o.Env, "CUDA_DEVICE_ORDER=PCI_BUS_ID") {
			t.Fatalf("%s sees any GPU: %q", filepath.Base(o.Dir), o.Env)
		}
		return strings.TrimPrefix(o.Env[i], "CUDA_VISIBLE_DEVICES=")
	}
	p := swop()
	all := []work.Job{job("7", 1), job("8", 1), job("9", 0)}
	var prepared sync.WaitGroup
	for _, j := range all {
		prepared.Go(func() {
			if err := p.Prepare(t.Context(), j); err != nil {
				t.Error(err)
			}
		})
	}
	prepared.Wait()
	has := []string{sees(p, all[0]), sees(p, all[1])}
	if slices.Sort(has); !slices.Equal(has, []string{"0", "1"}) || sees(p, all[2]) != "" {
		t.Errorf("they have %q and %q", has, sees(p, all[2]))
	}
	p = swop() // that was restarted
	more := job("10", 2)
	if err := p.Prepare(t.Context(), more); err == nil || !strings.Contains(err.Error(), "job x, group node: it needs 2 GPUs, and this host has 1 left of 3") {
		t.Errorf("two of the last one: %v", err)
	}
	before := sees(p, all[0])
	if err := p.Prepare(t.Context(), all[0]); err != nil || sees(p, all[0]) != before { // it is prepared again after a restart
		t.Errorf("prepared again it has %q: %v", sees(p, all[0]), err)
	}
	if err := p.Clean(t.Context(), all[0].Label); err != nil {
		t.Fatal(err)
	}
	if err := p.Prepare(t.Context(), more); err != nil || sees(p, more) != before+",2" && sees(p, more) != "0,2" {
		t.Errorf("it has %q: %v", sees(p, more), err)
	}
}
