package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/swarmd/swarmd/internal/swci/cluster"
)

// ticksPerSecond is USER_HZ, which Linux fixes at 100 on every architecture that Go runs on.
const ticksPerSecond = 100

// cpuSeconds is the processor time that the daemons have used so far.
func cpuSeconds(procs []*cluster.Proc) (float64, error) {
	var ticks int64
	for _, p := range procs {
		t, err := cluster.CPUTicks(p.PID())
		if err != nil {
			return 0, fmt.Errorf("read CPU time of %s: %w", p.Name, err)
		}
		ticks += t
	}
	return float64(ticks) / ticksPerSecond, nil
}

// memory is one process's memory in bytes.
type memory struct {
	peak int64 // VmHWM: the most that was ever resident
	anon int64 // RssAnon: resident now, not backed by a file
}

// readMemory reads /proc/PID/status.
func readMemory(pid int) (memory, error) {
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return memory{}, fmt.Errorf("read memory: %w", err)
	}
	defer f.Close()
	var m memory
	for s := bufio.NewScanner(f); s.Scan(); {
		key, value, _ := strings.Cut(s.Text(), ":")
		fields := strings.Fields(value)
		if len(fields) != 2 || fields[1] != "kB" {
			continue
		}
		n, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			continue
		}
		switch key {
		case "VmHWM":
			m.peak = n << 10
		case "RssAnon":
			m.anon = n << 10
		}
	}
	return m, nil
}

// sampler watches the daemons' memory. Anonymous memory has no high-water mark in Linux: it is sampled.
type sampler struct {
	procs []*cluster.Proc

	mu   sync.Mutex
	most memory // of the largest daemon, each figure by itself
}

// run samples until ctx ends, and once more then.
func (s *sampler) run(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s.sample()
		select {
		case <-ctx.Done():
			s.sample()
			return
		case <-tick.C:
		}
	}
}

func (s *sampler) sample() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.procs {
		if m, err := readMemory(p.PID()); err == nil {
			s.most.peak, s.most.anon = max(s.most.peak, m.peak), max(s.most.anon, m.anon)
		}
	}
}

func (s *sampler) result() memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}
