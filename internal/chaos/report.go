package chaos

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Report is what a run did and found.
type Report struct {
	Seed       uint64
	Dir        string
	Took       time.Duration
	Trainings  int
	Rounds     int // committed
	Computed   int // of them again, with the same result
	NotChecked int // since what a peer offered was changed on purpose
	Taken      int // models by programs
	Refused    int // models whose bytes a program found to be others than the committed ones
	Lost       int // models that training went back from
	Faults     map[Kind]int
	Recoveries []time.Duration // after each wave and each start
	Ends       []time.Duration // of trainings
	Restarts   map[string]int  // of nodes, by their supervisor
	Violations []Violation

	out   io.Writer
	begun time.Time
	log   *os.File
	usage []string
}

func newReport(cfg Config) *Report {
	r := &Report{Seed: cfg.Seed, Dir: cfg.Dir, Faults: map[Kind]int{}, Restarts: map[string]int{}, out: cfg.Out, begun: time.Now()}
	var err error
	if r.log, err = os.Create(filepath.Join(cfg.Dir, "driver.log")); err == nil {
		r.out = io.MultiWriter(cfg.Out, r.log)
	}
	return r
}

func (r *Report) say(format string, args ...any) {
	fmt.Fprintf(r.out, "%7.1fs %s\n", time.Since(r.begun).Seconds(), fmt.Sprintf(format, args...))
}

// close takes the figures and prints the table.
func (r *Report) close(run *runner) {
	run.mu.Lock()
	defer run.mu.Unlock()
	j := run.judge
	for _, all := range j.chain.rounds {
		r.Rounds += len(all)
	}
	r.Computed, r.NotChecked, r.Taken, r.Refused, r.Lost, r.Violations = j.computed, j.skipped, j.took, j.wrongRead, j.chain.lost, j.found
	for _, n := range run.c.nodes() {
		n.mu.Lock()
		r.Restarts[n.name] = n.restarts
		n.mu.Unlock()
	}
	for _, name := range slices.Sorted(maps.Keys(run.watch.most)) {
		first, last, most := run.watch.first[name], run.watch.last[name], run.watch.most[name]
		r.usage = append(r.usage, fmt.Sprintf("%s: memory %d, %d, %d MiB; files %d, %d, %d; threads %d, %d, %d; restarts %d", name,
			first.memory, last.memory, most.memory, first.files, last.files, most.files, first.threads, last.threads, most.threads, r.Restarts[name]))
	}
	fmt.Fprint(r.out, r.String())
	if r.log != nil {
		_ = r.log.Close()
	}
}

// String is the table at the end.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nseed %d, %s, %d trainings\n", r.Seed, r.Took.Round(time.Second), r.Trainings)
	fmt.Fprintf(&b, "rounds    %d committed, %d computed again, %d not (what was offered was changed on purpose)\n", r.Rounds, r.Computed, r.NotChecked)
	fmt.Fprintf(&b, "models    %d taken, %d refused by programs, %d lost by all\n", r.Taken, r.Refused, r.Lost)
	total := 0
	for _, n := range r.Faults {
		total += n
	}
	fmt.Fprintf(&b, "faults    %d of %d kinds\n", total, len(r.Faults))
	for _, k := range slices.Sorted(maps.Keys(r.Faults)) {
		fmt.Fprintf(&b, "  %-22s %d\n", k, r.Faults[k])
	}
	fmt.Fprintf(&b, "recovery  %s\n", spreadOf(r.Recoveries))
	fmt.Fprintf(&b, "ends      %s\n", spreadOf(r.Ends))
	fmt.Fprintf(&b, "nodes     first, last and most in calm times\n")
	for _, line := range r.usage {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	if len(r.Violations) == 0 {
		fmt.Fprintf(&b, "violations 0; logs in %s\n", r.Dir)
		return b.String()
	}
	fmt.Fprintf(&b, "VIOLATIONS %d with seed %d; logs in %s\n", len(r.Violations), r.Seed, r.Dir)
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "  %s (%.1fs): %s\n", v.At.UTC().Format("15:04:05.000"), v.At.Sub(r.begun).Seconds(), v.What)
	}
	return b.String()
}

// spreadOf tells median and maximum.
func spreadOf(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(all))
	return fmt.Sprintf("%d, median %s, at most %s", len(sorted), sorted[len(sorted)/2].Round(10*time.Millisecond), sorted[len(sorted)-1].Round(10*time.Millisecond))
}

// bridgeStatus asks a bridge as a program would.
func bridgeStatus(dir string) string {
	c := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "bridge.sock"))
	}}}
	res, err := c.Get("http://bridge/v1/status")
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
