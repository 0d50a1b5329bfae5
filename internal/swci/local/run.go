package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/swci/cluster"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/metrics"
	"github.com/swarmd/swarmd/internal/swci/report"
)

// run is one `local run` while it goes on.
type run struct {
	cfg      *RunConfig
	host     Host
	board    *Board
	cluster  *cluster.Cluster
	outputs  []*output // by peer
	started  time.Time
	progress *progress
	python   launch.Package  // of baselines
	results  []report.Events // what the programs wrote, once all have ended
	failed   map[int]bool    // peers whose program failed
	failure  error           // of the first of them

	mu      sync.Mutex
	reasons map[string]string // by SL: what its daemon said last of its end
}

// Run trains cfg's program across peers of a swarm that lives as long as this call, and leaves the models, summary.json
// and report.html in cfg.Out. It blocks until all is torn down. When ctx ends, its cause is returned.
func Run(ctx context.Context, cfg RunConfig, h Host) error {
	r := &run{cfg: &cfg, host: h, started: h.Now(), board: NewBoard(h), failed: map[int]bool{}, reasons: map[string]string{}}
	if err := cfg.check(ctx, h); err != nil {
		return err
	}
	if err := cfg.prepareOut(); err != nil {
		return err
	}
	if cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, cfg.Timeout, exit.New(exit.TimedOut, "give it more with --timeout, or look into "+filepath.Join(cfg.Out, logsDir), "training took longer than %s", cfg.Timeout))
		defer cancel()
	}
	summary, rounds, err := r.train(ctx)
	if err != nil {
		// Whatever broke first because we are being stopped, the stop is the reason.
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return r.finish(summary, rounds)
}

// train runs the swarm from its start to its end. When it returns nothing of it is left but the output folder.
func (r *run) train(ctx context.Context) (*report.Summary, []report.Round, error) {
	var err error
	r.cluster, err = cluster.New(cluster.Config{
		Swarmd: r.cfg.Swarmd, SNs: r.cfg.SNs, Spire: r.cfg.Spire, LogDir: filepath.Join(r.cfg.Out, logsDir), Keep: r.cfg.Keep,
		Environ: r.host.Environ, OnLine: r.line, Containers: r.cfg.docker(), Nodes: r.cfg.Nodes,
	})
	if err != nil {
		return nil, nil, err
	}
	defer r.board.Close()
	defer r.cluster.Close()
	if r.cfg.docker() {
		r.board.Log(fmt.Sprintf("programs run in containers of %s, scope %s", r.cfg.Image, r.cluster.Scope()))
	}
	if r.cfg.Keep {
		r.board.Log("state is kept in " + r.cluster.Dir())
	}
	defer r.closeOutputs()
	for i := range r.cfg.Peers {
		out, err := openOutput(r.cfg.peerDir(i))
		if err != nil {
			return nil, nil, err
		}
		r.outputs = append(r.outputs, out)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.cluster.Start(gctx) })
	if r.cfg.Baseline {
		r.board.Log("training every peer alone, for comparison")
		g.Go(func() error { return r.runBaselines(gctx) })
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	status, err := r.swarm(ctx)
	if err != nil {
		return nil, nil, err
	}
	summary, rounds := r.collect(status)
	return summary, rounds, nil
}

// swarm starts the SLs and waits until all have ended. It returns the contract's last status, which may be nil.
func (r *run) swarm(ctx context.Context) (*swarmv1.GetContractStatusResponse, error) {
	api, closeAPI, err := r.host.Connect(ctx, r.cluster.APIs(), r.cluster.Identity())
	if err != nil {
		return nil, fmt.Errorf("connect to own swarm: %w", err)
	}
	defer closeAPI()
	if err := letOut(ctx, api); err != nil {
		return nil, err
	}
	for _, w := range r.cfg.warnings() {
		r.board.Log("WARNING: " + w.Text)
	}
	r.board.Log(fmt.Sprintf("swarm is up: %d SN, API https://%s; starting %d peers", r.cfg.SNs, r.cluster.APIs()[0], r.cfg.Peers))
	for i := range r.cfg.Peers {
		if _, err := r.cluster.StartSL(cluster.SLSpec{
			Index: i, Expected: r.cfg.Peers, DataDir: r.cfg.dataDir(i), ModelDir: r.cfg.peerDir(i), Program: r.cfg.Program,
			Platform: platforms[r.cfg.Platform], Python: r.cfg.Python, Image: r.cfg.Image, Env: r.cfg.programEnv(i, false), Checkin: r.cfg.Checkin,
		}); err != nil {
			return nil, err
		}
	}
	r.progress = newProgress(r.cfg, r.host, r.board, api)
	stop := r.progress.follow(ctx)
	err = r.wait(ctx)
	stop() // with one more look, so that the last rounds are on the page
	if err != nil {
		return nil, err
	}
	return r.progress.status, nil
}

// wait returns nil when all SLs have ended. It returns an error as soon as too many have failed for the rest to train on,
// or another process ends.
func (r *run) wait(ctx context.Context) error {
	for left := r.cfg.Peers; left > 0; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-r.progress.hopeless:
			return err
		case e := <-r.cluster.Exits():
			i, ok := r.peer(e.Name)
			if !ok {
				return &exit.Error{Status: exit.Failed, Err: cluster.Failure(e), Hint: "its whole log is " + filepath.Join(r.cfg.Out, logsDir, e.Name+".log")}
			}
			left--
			if e.Code == 0 {
				r.progress.ended(i, "done")
				continue
			}
			r.progress.ended(i, "failed")
			r.failed[i] = true
			if r.failure == nil {
				r.failure = r.slFailure(i, e)
			}
			if r.cfg.Peers-len(r.failed) < r.cfg.MinPeers {
				return r.failure
			}
			r.board.Log(fmt.Sprintf("%s failed; the others go on, %d are enough", e.Name, r.cfg.MinPeers))
		}
	}
	return nil
}

// slFailure tells why the SL of the peer with index i failed.
func (r *run) slFailure(i int, e cluster.Exit) error {
	r.mu.Lock()
	reason := r.reasons[e.Name]
	r.mu.Unlock()
	// That the program ended with an exit code is no reason: it stands there already.
	if reason = strings.TrimSuffix(reason, "; last lines:"); !strings.Contains(reason, ": exit code ") {
		e.Reason = reason
	}
	return r.programFailure(e, r.outputs[i].last(), filepath.Join(r.cfg.peerDir(i), programLog)+", the daemon's log in "+filepath.Join(r.cfg.Out, logsDir, e.Name+".log"))
}

// peer returns the index of the SL called name.
func (r *run) peer(name string) (int, bool) {
	for i := range r.cfg.Peers {
		if cluster.SLName(i) == name {
			return i, true
		}
	}
	return 0, false
}

// roundLine matches what the swarmlearning package says of every round. The peers' lines say the same, and tens of these
// a second would hide them.
var roundLine = regexp.MustCompile(`: SwarmCallback : INFO : (round [0-9]+: merged |Starting Swarm merging round |Merge Done: )`)

// Of warnings that the package says, and peers that they name.
var (
	warningLine = regexp.MustCompile(`: SwarmCallback : WARNING : (.*)`)
	peerName    = regexp.MustCompile(`\bsl-[0-9]+\b`)
)

// aboutOthers reports whether a line of a peer's program warns of other peers alone: their own programs say the same.
func aboutOthers(name, line string) bool {
	said := warningLine.FindStringSubmatch(line)
	if said == nil {
		return false
	}
	named := peerName.FindAllString(said[1], -1)
	return len(named) > 0 && !slices.Contains(named, name)
}

// line takes one line of a daemon.
func (r *run) line(name, line string, program bool) {
	i, sl := r.peer(name)
	if reason, ok := strings.CutPrefix(line, "swarmd: "); ok && sl && !program {
		r.mu.Lock()
		r.reasons[name] = reason
		r.mu.Unlock()
	}
	if sl && program {
		r.outputs[i].line(line)
		if r.cfg.Verbose || !roundLine.MatchString(line) && !aboutOthers(name, line) {
			r.show(name, line)
		}
	} else if r.cfg.Verbose {
		r.board.Log(name + " : " + line)
	}
}

func (r *run) closeOutputs() {
	for _, o := range r.outputs {
		o.close()
	}
}

// collect reads what the programs wrote.
func (r *run) collect(status *swarmv1.GetContractStatusResponse) (*report.Summary, []report.Round) {
	var peers []report.Events
	for i := range r.cfg.Peers {
		e := report.Events{Name: cluster.SLName(i), ModelDir: r.cfg.peerDir(i), Failed: r.failed[i]}
		e.Isolation = session(status, e.Name).GetIsolation()
		e.Swarm = r.events(r.cfg.metricsPath(i, false))
		if r.cfg.Baseline {
			e.Local = r.events(r.cfg.metricsPath(i, true))
		}
		peers = append(peers, e)
	}
	c := status.GetContract()
	s := &report.Summary{
		WallSeconds: r.host.Now().Sub(r.started).Seconds(), Program: r.cfg.Program, Platform: r.cfg.Platform, Runtime: r.cfg.Runtime,
		Contract: c.GetName(), SNs: r.cfg.SNs, MinPeers: r.cfg.MinPeers, Started: r.started.UTC().Format(time.RFC3339),
	}
	s.Warnings = r.cfg.warned(status)
	s.Summarise(peers, int64(min(c.GetCommitted().GetRound(), 1<<40)))
	r.results = peers
	return s, report.MergeRounds(committed(status), peers)
}

func (r *run) events(path string) []metrics.Event {
	events, skipped, err := metrics.ReadFile(path)
	if err != nil {
		r.board.Log(err.Error())
	}
	if skipped > 0 {
		r.board.Log(fmt.Sprintf("%s: %d lines are no metrics and are left out", path, skipped))
	}
	return events
}

// committed converts the rounds that the swarm remembers.
func committed(status *swarmv1.GetContractStatusResponse) []report.Round {
	var out []report.Round
	for _, x := range status.GetRecent() {
		n := report.Round{
			Round: int64(min(x.GetRound(), 1<<40)), Attempt: int64(min(x.GetAttempt(), 1<<40)),
			Participants: x.GetParticipants(), Digest: x.GetDigest(), Final: x.GetFinal(),
		}
		if x.GetPlannedUnixMs() > 0 {
			n.Seconds = max(0, float64(x.GetCommittedUnixMs()-x.GetPlannedUnixMs())/1000)
		}
		out = append(out, n)
	}
	return out
}

// finish writes summary and page and prints the table. It fails, loudly, when peers ended with different models, and when
// a program failed.
func (r *run) finish(s *report.Summary, rounds []report.Round) error {
	page := report.Page{Summary: *s, Peers: r.results, Rounds: rounds}
	var html, js bytes.Buffer
	if err := errors.Join(page.WriteHTML(&html), s.WriteJSON(&js)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.cfg.Out, reportFile), html.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.cfg.Out, summaryFile), js.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	if r.cfg.JSON {
		if err := s.WriteJSON(r.host.Stdout); err != nil {
			return err
		}
	} else if err := r.printEnd(s); err != nil {
		return err
	}
	if s.Differ() {
		return exit.New(exit.Failed, "this must never happen: please report it with the folder "+r.cfg.Out, "THE PEERS' FINAL MODELS DIFFER\n%s", strings.Join(digests(s), "\n"))
	}
	if r.failure != nil {
		return r.failure
	}
	return strictly(s, r.cfg.Strict)
}

func (r *run) printEnd(s *report.Summary) error {
	w := r.host.Stdout
	fmt.Fprintln(w)
	if err := s.WriteTable(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%d rounds in %.1f s", s.Rounds, s.WallSeconds)
	if s.ModelsEqual {
		fmt.Fprint(w, "; all final models are the same bytes"+except(len(r.failed)))
	}
	fmt.Fprintf(w, "\nmodels  %s\nreport  %s\nsummary %s\n", filepath.Join(r.cfg.Out, "sl-*"), filepath.Join(r.cfg.Out, reportFile), filepath.Join(r.cfg.Out, summaryFile))
	printAdvice(w, s)
	return nil
}

// except is what a sentence about all peers ends with when some failed.
func except(failed int) string {
	if failed == 0 {
		return ""
	}
	return fmt.Sprintf(", but for %d that failed", failed)
}

func digests(s *report.Summary) []string {
	var out []string
	for _, p := range s.Peers {
		d := "unknown"
		if p.ModelSHA256 != nil {
			d = *p.ModelSHA256
		}
		out = append(out, p.Name+"  "+d)
	}
	return out
}
