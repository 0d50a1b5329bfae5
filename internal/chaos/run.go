package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Run runs a swarm under faults and returns what it did; the error is the driver's own trouble, not the swarm's. It ends at the
// first violation.
func Run(ctx context.Context, cfg Config) (report *Report, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	layout, err := layoutOf(cfg.Floats)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.RemoveAll(cfg.Dir), os.MkdirAll(filepath.Join(cfg.Dir, "models"), 0o755)); err != nil {
		return nil, err
	}
	c, err := newCluster(cfg)
	if err != nil {
		return nil, err
	}
	r := &runner{cfg: cfg, c: c, judge: newJudge(cfg.Dir, layout, c.sns, c.sls, c.lateSN), watch: newWatch(), report: newReport(cfg)}
	defer func() {
		r.report.close(r)
		err = errors.Join(err, c.close(), os.RemoveAll(filepath.Join(cfg.Dir, "models")))
	}()
	begun := time.Now()
	err = r.run(ctx)
	r.report.Took = time.Since(begun)
	if errors.Is(err, errViolated) {
		err = nil
	}
	return r.report, err
}

// errViolated ends a run.
var errViolated = errors.New("violation")

// runner is a run.
type runner struct {
	cfg      Config
	c        *cluster
	judge    *judge
	watch    *watch
	report   *Report
	contract string
	bundle   string // file with the founding CA certificates

	mu sync.Mutex // of judge and report, which faults write to
}

func (r *runner) run(ctx context.Context) error {
	until := time.Now().Add(r.cfg.For)
	more := func(number int) bool {
		if r.cfg.Waves > 0 {
			return number <= r.cfg.Waves
		}
		return time.Now().Before(until)
	}
	if err := r.train(1); err != nil {
		return err
	}
	if err := r.c.start(); err != nil {
		return err
	}
	r.bundle = filepath.Join(r.cfg.Dir, "founding.pem")
	if out, err := r.c.swarmctl(timeout, offline, "get", "bundle", "--out", r.bundle); err != nil {
		return fmt.Errorf("get bundle: %w: %s", err, out)
	}
	if err := r.recover(ctx, time.Now(), "the start"); err != nil {
		return err
	}
	ends := time.Now().Add(r.cfg.Training)
	for number := 1; more(number); number++ {
		if err := r.wave(ctx, number); err != nil {
			return err
		}
		if time.Now().After(ends) && more(number+1) {
			if err := r.another(ctx); err != nil {
				return err
			}
			ends = time.Now().Add(r.cfg.Training)
		}
	}
	if err := r.end(ctx); err != nil {
		return err
	}
	return r.audit(ctx)
}

// train tells all programs the contract of a training.
func (r *runner) train(number int) error {
	r.report.Trainings = number
	r.contract = fmt.Sprintf("chaos-%d", number)
	return order{Contract: r.contract}.write(r.cfg.Dir)
}

// another ends this training and begins the next one.
func (r *runner) another(ctx context.Context) error {
	if err := r.end(ctx); err != nil {
		return err
	}
	if err := r.train(r.report.Trainings + 1); err != nil {
		return err
	}
	for _, n := range r.c.sls {
		n.trains(r.contract)
	}
	begun := time.Now()
	r.c.startSLs()
	return r.recover(ctx, begun, "the start of "+r.contract)
}

// wave does all faults of a wave and waits until the swarm has recovered from them.
func (r *runner) wave(ctx context.Context, number int) error {
	faults := WaveOf(r.cfg.Seed, number, r.cfg.shape())
	r.say("wave %d, round %d", number, r.lastRound())
	if err := r.inflict(ctx, faults, fmt.Sprintf("wave %d", number)); err != nil {
		return err
	}
	return r.recover(ctx, time.Now(), fmt.Sprintf("wave %d", number))
}

// inflict does faults, each at its time, and returns when all are over.
func (r *runner) inflict(ctx context.Context, faults []Fault, when string) error {
	errs := make([]error, len(faults))
	var all sync.WaitGroup
	for i, f := range faults {
		all.Go(func() { errs[i] = r.fault(ctx, f) })
	}
	over := make(chan struct{})
	go func() {
		all.Wait()
		close(over)
	}()
	for done := false; !done; {
		select {
		case <-over:
			done = true
		case <-time.After(100 * time.Millisecond):
		}
		if err := r.look(); err != nil {
			<-over
			return err
		}
	}
	if err := errors.Join(errs...); err != nil {
		r.violate("%s: %v", when, err)
	}
	return r.verdict()
}

// fault does one. What it could not do, or end, is an error.
func (r *runner) fault(ctx context.Context, f Fault) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(f.At):
	}
	r.say("  %s", f)
	r.mu.Lock()
	r.report.Faults[f.Kind]++
	changed := spans{} // of which nobody asks
	switch f.Kind {
	case "local-garble":
		changed = r.judge.misoffered
	case "merged-garble":
		changed = r.judge.misread
	}
	changed.begin(f.Node, time.Now().UnixMilli())
	r.mu.Unlock()
	end, err := specs[f.Kind].begin(r.c, f)
	select {
	case <-ctx.Done():
	case <-time.After(f.For):
	}
	err = errors.Join(err, end())
	r.mu.Lock()
	changed.end(f.Node, time.Now().UnixMilli())
	r.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", f, err)
	}
	return nil
}

// look has the judge read what is new.
func (r *runner) look() error {
	r.mu.Lock()
	err := r.judge.look()
	r.mu.Unlock()
	if err != nil {
		return err
	}
	return r.verdict()
}

// verdict is errViolated once there is a violation.
func (r *runner) verdict() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.judge.found) > 0 {
		return errViolated
	}
	return nil
}

func (r *runner) violate(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judge.violate(format, args...)
}

func (r *runner) names() []string {
	var out []string
	for _, n := range r.c.sls[:r.cfg.SLs] {
		out = append(out, n.name)
	}
	return out
}

// recover waits until all peers have merged together again, and all SNs have the whole ledger.
func (r *runner) recover(ctx context.Context, since time.Time, what string) error {
	names := r.names()
	ok, err := r.until(ctx, since, func() bool {
		return r.judge.together(r.contract, since.UnixMilli(), names) && r.judge.chain.same()
	})
	if err != nil {
		return err
	}
	if !ok {
		r.violate("%s after %s not all peers were in one round, and all SNs at one record: %s", r.cfg.Bound, what, r.where())
		r.autopsy()
		return r.verdict()
	}
	took := time.Since(since)
	r.report.Recoveries = append(r.report.Recoveries, took)
	r.say("  all together after %s", took.Round(10*time.Millisecond))
	for _, wrong := range r.watch.sample(r.c.nodes()) {
		r.violate("%s", wrong)
	}
	return r.verdict()
}

// until looks again and again until is, false when the bound is over.
func (r *runner) until(ctx context.Context, since time.Time, is func() bool) (bool, error) {
	for {
		if err := r.look(); err != nil {
			return false, err
		}
		if is() {
			return true, nil
		}
		if time.Since(since) > r.cfg.Bound {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// end has all programs finish. Each must have the one final model, and its node must end well and leave nothing.
func (r *runner) end(ctx context.Context) error {
	r.say("end of %s, round %d", r.contract, r.lastRound())
	faults, draw := r.endFaults()
	ordered := make(chan error, 1)
	time.AfterFunc(draw, func() { ordered <- order{Contract: r.contract, Stop: true}.write(r.cfg.Dir) })
	if err := errors.Join(r.inflict(ctx, faults, "end of "+r.contract), <-ordered); err != nil {
		return err
	}
	since := time.Now()
	ok, err := r.until(ctx, since, func() bool {
		for i, n := range r.c.sls[:r.cfg.SLs] {
			if _, ended := r.judge.peers[i].ended[r.contract]; !ended || n.up() {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	if !ok {
		r.violate("%s after the end of %s not all programs have the final model and exit code 0: %s", r.cfg.Bound, r.contract, r.where())
		r.autopsy()
		return r.verdict()
	}
	r.report.Ends = append(r.report.Ends, time.Since(since))
	return r.ended()
}

// endFaults are what goes wrong while a training ends, and when in that its programs are told to end.
func (r *runner) endFaults() (faults []Fault, order time.Duration) {
	shape := r.cfg.shape()
	if shape.Kinds = r.cfg.endKinds(); len(shape.Kinds) == 0 {
		return nil, 0
	}
	faults = WaveOf(r.cfg.Seed, -r.report.Trainings, shape)
	draw := faults[0].Draw
	order = time.Duration(draw % uint64(spread)) //nolint:gosec // of a time
	if r.cfg.killsAtEnd() {
		node := slName(int(draw>>8) % r.cfg.SLs) //nolint:gosec // an index
		faults = []Fault{{Kind: "sl-kill-at-end", Node: node, At: order + time.Duration(draw>>8%500)*time.Millisecond}}
	}
	return faults, order
}

// ended judges a training that has ended.
func (r *runner) ended() error {
	last := r.judge.chain.last(r.contract)
	for _, p := range r.judge.peers[:r.cfg.SLs] {
		if e := p.ended[r.contract]; e.Digest != last.model {
			r.violate("%s ended with a model of round %d which is not the last one, of round %d", p.name, e.Round, last.number)
		}
		for _, e := range p.taken {
			r.violate("%s took round %d of %s, which is in no ledger", p.name, e.Round, e.Contract)
		}
	}
	for _, what := range append(leftovers(r.c.shm), strays(r.c.shm, "-u\x00"+r.cfg.Dir)...) {
		r.violate("after the end of %s is left: %s", r.contract, what)
	}
	return r.verdict()
}

// audit copies the ledgers and has them verified as an auditor would, and backs one SN up, as an operator would.
func (r *runner) audit(ctx context.Context) error {
	if ok, err := r.until(ctx, time.Now(), r.c.identifies); err != nil {
		return err
	} else if !ok {
		r.violate("%s after the end the authority does not answer", r.cfg.Bound)
	}
	for _, n := range r.c.sns {
		file := filepath.Join(r.cfg.Dir, n.name+".ledger.jsonl")
		if out, err := r.c.swarmctl(timeout, n, "get", "ledger", "--out", file, "--force"); err != nil {
			r.violate("get ledger from %s: %v: %s", n.name, err, out)
			continue
		}
		if out, err := r.c.swarmctl(timeout, offline, "verify", "ledger", file, "--bundle", r.bundle); err != nil {
			r.violate("the ledger of %s does not verify: %s", n.name, out)
		}
	}
	file := filepath.Join(r.cfg.Dir, "swarm.backup")
	if out, err := r.c.swarmctl(timeout, r.c.sns[0], "backup", "sn", file, "--force"); err != nil {
		r.violate("backup sn from %s: %v: %s", r.c.sns[0].name, err, out)
	} else if out, err := r.c.swarmctl(timeout, offline, "verify", "backup", file, "--bundle", r.bundle); err != nil {
		r.violate("the backup of %s does not verify: %s", r.c.sns[0].name, out)
	}
	return r.verdict()
}

func (r *runner) lastRound() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.judge.chain.last(r.contract); last != nil {
		return last.number
	}
	return 0
}

// where tells how far each one is.
func (r *runner) where() string {
	var out []string
	for _, p := range r.judge.peers[:r.cfg.SLs] {
		_, ended := p.ended[r.contract]
		text := fmt.Sprintf("%s has round %d", p.name, p.last[r.contract])
		if ended {
			text += " and ended"
		}
		out = append(out, text)
	}
	for _, c := range r.judge.chain.copies {
		out = append(out, fmt.Sprintf("%s has %d of %d records", c.name, c.records, len(r.judge.chain.hashes)))
	}
	if last := r.judge.chain.last(r.contract); last != nil {
		var by []string
		for _, p := range last.by {
			by = append(by, p.Node)
		}
		out = append(out, fmt.Sprintf("round %d is the newest, by %s", last.number, strings.Join(by, " ")))
	}
	return strings.Join(out, ", ")
}

// autopsy keeps what tells why a swarm stands: what it says itself, and what its processes do.
func (r *runner) autopsy() {
	var out strings.Builder
	for _, args := range [][]string{{"list", "nodes"}, {"explain", "contract", r.contract}, {"get", "contract", "status", r.contract}, {"get", "health"}} {
		for _, n := range r.c.sns {
			text, err := r.c.swarmctl(10*time.Second, n, args...)
			fmt.Fprintf(&out, "==== %s: swarmctl %s: %v\n%s\n", n.name, strings.Join(args, " "), err, text)
		}
	}
	for _, n := range r.c.sls {
		fmt.Fprintf(&out, "==== bridge of %s: %s\n", n.name, bridgeStatus(n.bridge))
	}
	if err := os.WriteFile(filepath.Join(r.cfg.Dir, "autopsy.txt"), []byte(out.String()), 0o600); err != nil {
		r.say("autopsy: %v", err)
	}
	for _, n := range r.c.nodes() {
		n.signal(syscall.SIGQUIT) // All its goroutines are in its log then.
	}
	<-time.After(2 * time.Second)
}

// say prints a line of progress.
func (r *runner) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.say(format, args...)
}
