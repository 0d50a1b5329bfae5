package local

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/swci/cluster"
	"github.com/swarmd/swarmd/internal/swci/exit"
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
	python   launch.Package        // of baselines
	failed   map[int]bool          // peers whose program failed
	rounds   []report.Round        // of the ledger
	past     map[int64]report.Past // how rounds went, by their numbers
	whole    bool                  // all programs have ended, and enough of them well

	mu       sync.Mutex
	failures []failure         // why, in the order in which they failed
	reasons  map[string]string // by SL: what its daemon said last of its end
}

// Run trains cfg's program across peers of a swarm that lives as long as this call, and leaves the models, summary.json
// and report.html in cfg.Out, also when it is stopped or fails. It blocks until all is torn down. When ctx ends, its cause is returned.
func Run(ctx context.Context, cfg RunConfig, h Host) error {
	r := &run{cfg: &cfg, host: h, started: h.Now(), board: NewBoard(h), failed: map[int]bool{}, reasons: map[string]string{}}
	if err := cfg.check(ctx, h); err != nil {
		return err
	}
	moved, err := cfg.prepareOut()
	if err != nil {
		return err
	}
	if moved != "" {
		r.board.Log("the results of an earlier run were moved to " + moved)
	}
	if cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, cfg.Timeout, exit.New(exit.TimedOut, "give it more with --timeout, or look into "+filepath.Join(cfg.Out, logsDir), "training took longer than %s", cfg.Timeout))
		defer cancel()
	}
	err = r.train(ctx)
	// Whatever broke first because we are being stopped, the stop is the reason.
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return r.finish(err)
}

// train runs the swarm from its start to its end. When it returns nothing of it is left but the output folder.
func (r *run) train(ctx context.Context) error {
	var err error
	r.cluster, err = cluster.New(cluster.Config{
		Swarmd: r.cfg.Swarmd, SNs: r.cfg.SNs, Spire: r.cfg.Spire, LogDir: filepath.Join(r.cfg.Out, logsDir), Keep: r.cfg.Keep,
		Environ: r.host.Environ, OnLine: r.line, Containers: r.cfg.docker(), Nodes: r.cfg.Nodes,
	})
	if err != nil {
		return err
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
			return err
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
		if errors.Is(err, errAlone) {
			return r.failure()
		}
		return err
	}
	return r.swarm(ctx)
}

// swarm starts the SLs and waits until all have ended.
func (r *run) swarm(ctx context.Context) error {
	api, closeAPI, err := r.host.Connect(ctx, r.cluster.APIs(), r.cluster.Identity())
	if err != nil {
		return fmt.Errorf("connect to own swarm: %w", err)
	}
	defer closeAPI()
	if err := letOut(ctx, api); err != nil {
		return err
	}
	for _, w := range r.cfg.warnings() {
		r.board.Log("WARNING: " + w.Text)
	}
	r.board.Log(fmt.Sprintf("swarm is up: %d SN, API https://%s; starting %d peers", r.cfg.SNs, r.cluster.APIs()[0], r.cfg.Peers))
	if r.cfg.Dashboard {
		after := "see " + filepath.Join(r.cfg.Out, "report.html") + ", which has its curves and models"
		stop, err := r.host.Dashboard(ctx, r.cluster.APIs(), r.cluster.Identity(), after, Say{Address: r.board.Head, Log: r.board.Log})
		if err != nil {
			return err
		}
		defer stop()
	}
	for i := range r.cfg.Peers {
		if _, err := r.cluster.StartSL(cluster.SLSpec{
			Index: i, Expected: r.cfg.Peers, DataDir: r.cfg.dataDir(i), ModelDir: r.cfg.peerDir(i), Program: r.cfg.Program, Args: start.Words(r.cfg.programArgs(i)).String(),
			Platform: platforms[r.cfg.Platform], Python: r.cfg.Python, Image: r.cfg.Image, Env: r.cfg.programEnv(i, false), Checkin: r.cfg.Checkin,
		}); err != nil {
			return err
		}
	}
	r.progress = newProgress(r.cfg, r.host, r.board, api)
	stop := r.progress.follow(ctx)
	err = r.wait(ctx)
	stop() // with one more look, so that the last rounds are on the page
	r.rounds = ledgerRounds(ctx, api, r.progress.contract())
	var pastErr error
	if r.past, pastErr = pastRounds(ctx, api, r.progress.contract()); pastErr != nil {
		r.board.Log("the report will not say how long the phases of rounds took: " + pastErr.Error())
	}
	return err
}

// wait returns nil when all SLs have ended. It returns an error as soon as too many have failed for the rest to train on,
// or another process ends.
func (r *run) wait(ctx context.Context) error {
	for left := r.cfg.Peers; left > 0; left-- {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-r.progress.hopeless:
			return err
		case e := <-r.cluster.Exits():
			if err := r.ended(e); err != nil {
				return err
			}
			if r.cfg.Peers-len(r.failed) < r.cfg.MinPeers {
				return r.allFailed(ctx, left-1)
			}
			if e.Code != 0 {
				r.board.Log(fmt.Sprintf("%s failed; the others go on, %d are enough", e.Name, r.cfg.MinPeers))
			}
		}
	}
	r.whole = true
	return r.failure()
}

// ended notes that a process has ended. It returns an error if that is no SL.
func (r *run) ended(e cluster.Exit) error {
	i, ok := r.peer(e.Name)
	if !ok {
		return &exit.Error{Status: exit.Failed, Err: cluster.Failure(e), Hint: "its whole log is " + filepath.Join(r.cfg.Out, logsDir, e.Name+".log")}
	}
	if e.Code == 0 {
		r.progress.ended(i, "done")
		return nil
	}
	r.progress.ended(i, "failed")
	r.failed[i] = true
	r.add(r.slFailure(i, e))
	return nil
}

// alike is how long a run that has failed waits for the other programs: what is wrong with one is often wrong with all.
const alike = time.Second

// allFailed returns why programs failed, those that do so now among them; so many have not ended yet.
func (r *run) allFailed(ctx context.Context, left int) error {
	limit := time.NewTimer(alike)
	defer limit.Stop()
	for ; left > 0; left-- {
		select {
		case <-ctx.Done():
			return r.failure()
		case <-limit.C:
			return r.failure()
		case e := <-r.cluster.Exits():
			if r.ended(e) != nil {
				return r.failure() // it is what came first that counts
			}
		}
	}
	return r.failure()
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
