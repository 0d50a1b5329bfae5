package track_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/track"
	"github.com/swarmd/swarmd/internal/swci/track/mlflow"
	"github.com/swarmd/swarmd/internal/swci/track/tensorboard"
)

// tracked is a follower of a swarm that writes into both kinds of trackers.
type tracked struct {
	t      *testing.T
	swarm  *swarm
	server *server
	dir    string
	said   []string
}

func newTracked(t *testing.T, rounds uint64) *tracked {
	t.Helper()
	return &tracked{t: t, swarm: &swarm{began: time.Now(), rounds: rounds, run: 1}, server: &server{t: t}, dir: filepath.Join(t.TempDir(), "tb")}
}

// follow runs one follower, as a process does.
func (x *tracked) follow(ctx context.Context, once bool) (track.Result, error) {
	x.t.Helper()
	c, err := mlflow.New(mlflow.Config{URI: "http://mlflow:5000", Transport: x.server})
	if err != nil {
		x.t.Fatal(err)
	}
	say := func(line string) { x.said = append(x.said, line) }
	board, err := track.OpenBoard(x.dir, say)
	if err != nil {
		x.t.Fatal(err)
	}
	defer func() {
		if err := board.Close(); err != nil {
			x.t.Error(err)
		}
	}()
	f := track.Follower{Config: track.Config{Source: x.swarm, Sinks: []track.Sink{track.NewExperiment(c, "swarmd", say), board}, Once: once, Say: say}}
	return f.Run(ctx)
}

// holds wants every figure of every round once in both trackers.
func (x *tracked) holds(base string) {
	x.t.Helper()
	if diff := cmp.Diff(x.server.have("1"), x.swarm.want()); diff != "" {
		x.t.Errorf("MLflow (-got +want): %s", diff)
	}
	got := map[string]map[string]map[uint64]float64{}
	for name, node := range map[string]string{"swarm": "", "sl-0": "sl-0", "sl-1": "sl-1"} {
		got[node] = map[string]map[uint64]float64{}
		files, err := filepath.Glob(filepath.Join(base, name, "events.out.tfevents.*"))
		if err != nil {
			x.t.Fatal(err)
		}
		for _, f := range files {
			if err := tensorboard.ReadFile(f, func(e *tensorboard.Event) {
				for _, s := range e.Scalars {
					if got[node][s.Tag] == nil {
						got[node][s.Tag] = map[uint64]float64{}
					}
					if _, twice := got[node][s.Tag][e.Step]; twice {
						x.t.Errorf("step %d of %s of %s is there twice", e.Step, s.Tag, name)
					}
					got[node][s.Tag][e.Step] = s.Value
				}
			}); err != nil {
				x.t.Error(err)
			}
		}
	}
	if diff := cmp.Diff(got, x.swarm.want()); diff != "" {
		x.t.Errorf("TensorBoard (-got +want): %s", diff)
	}
}

// TestFollow: each figure of each round is written once, also those that come late; statuses and tags say how it ended; the swarm is asked no
// more often than it should.
func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTracked(t, 50)
		done, err := x.follow(t.Context(), false)
		if err != nil || done.Sinks[0] != (track.Written{Rounds: 50, Last: 50}) || done.Sinks[1] != done.Sinks[0] || !done.Over {
			t.Errorf("%+v %v", done, err)
		}
		x.holds(x.dir)
		swarm := x.server.runs[0]
		if len(x.server.runs) != 3 || swarm.Status != "FINISHED" || swarm.EndMS == 0 || swarm.Params["method"] != "mean" || swarm.Tags["swarmd.digest"] != "digest50" || swarm.Tags["swarmd.record"] != "53" ||
			strings.Count(swarm.Tags["swarmd.digests"], "\n") != 39 || !strings.HasSuffix(swarm.Tags["swarmd.digests"], "\n50 digest50 record 53") {
			t.Errorf("%d runs, %+v", len(x.server.runs), swarm)
		}
		for i, want := range []string{"FINISHED", "FAILED"} {
			if p := x.server.runs[i+1]; p.Status != want || p.Tags["mlflow.parentRunId"] != swarm.ID || p.Tags["metric_name"] != []string{"F1", ""}[i] || swarm.Tags["metric_name"] != "F1" {
				t.Errorf("peer: %+v, want %s", p, want)
			}
		}
		spent := time.Since(x.swarm.began)
		if asked := time.Duration(len(x.swarm.asked)); spent > 90*time.Second || asked > 3*(spent/(2*time.Second)+2) { // how it stands, and history for each tracker
			t.Errorf("asked %d times within %s", asked, spent)
		}
	})
}

// TestFollowThroughFaults: MLflow fails in all ways, the swarm loses its leader, the follower is stopped again and again; nothing is lost or doubled.
func TestFollowThroughFaults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			x := newTracked(t, 60)
			x.server.fault = faults(seed, 3)
			down := faults(seed+100, 6)
			x.swarm.down = func() bool { return down("") != none }
			for {
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Duration(7+seed)*time.Second, exit.ErrInterrupted)
				done, err := x.follow(ctx, false)
				cancel()
				if err == nil {
					if done.Sinks[0].Last != 60 || done.Sinks[1].Last != 60 {
						t.Errorf("%+v", done)
					}
					break
				}
				if !errors.Is(err, exit.ErrInterrupted) {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if time.Since(x.swarm.began) > 3*time.Hour {
					t.Fatalf("seed %d: no end: %s", seed, strings.Join(x.said, "\n"))
				}
			}
			x.holds(x.dir)
		})
	}
}

// TestMLflowStartsLate: it is said once, TensorBoard goes on meanwhile, and all comes from the history afterwards, but what that no longer has.
func TestMLflowStartsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTracked(t, 60)
		up := time.Now().Add(2 * time.Minute)
		x.server.fault = func(string) fault {
			if time.Now().Before(up) {
				return refused
			}
			return none
		}
		done, err := x.follow(t.Context(), false)
		if err != nil || done.Sinks[0].Rounds != 60 || done.Sinks[1].Rounds != 60 {
			t.Errorf("%+v %v", done, err)
		}
		x.holds(x.dir)
		all := strings.Join(x.said, "\n")
		if strings.Count(all, "does not answer: hangs up: is it running?") != 1 || strings.Count(all, "MLflow at http://mlflow:5000 answers again; it has the rounds up to 60") != 1 {
			t.Errorf("it says\n%s", all)
		}
	})
}

// TestOnce writes what has settled, ends, and goes on where it stopped. A tracker that does not answer ends it.
func TestOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTracked(t, 60)
		time.Sleep(50 * time.Second)
		done, err := x.follow(t.Context(), true)
		if err != nil || done.Sinks[0] != (track.Written{Rounds: 34, Last: 34}) || done.Sinks[1] != done.Sinks[0] || done.Over { // of 30 sl-1 has told just now, of 35 it has not, and that is not 30 s old
			t.Errorf("%+v %v", done, err)
		}
		x.server.fault = func(string) fault { return busy }
		time.Sleep(5 * time.Second)
		done, err = x.follow(t.Context(), true)
		if exit.Code(err) != exit.Unreachable || exit.Hint(err) == "" || done.Sinks[1] != (track.Written{Rounds: 5, Last: 39}) {
			t.Errorf("busy: %+v %v", done, err)
		}
		x.server.fault = nil
		time.Sleep(10 * time.Second)
		if done, err = x.follow(t.Context(), true); err != nil || !done.Over || done.Sinks[0] != (track.Written{Rounds: 26, Last: 60}) || done.Sinks[1] != (track.Written{Rounds: 21, Last: 60}) {
			t.Errorf("%+v %v", done, err)
		}
		x.holds(x.dir)
	})
}

// TestReset: a new run has runs and a directory of its own, and that before is killed.
func TestReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTracked(t, 1000)
		x.swarm.resets = time.Now().Add(100 * time.Second)
		if done, err := x.follow(t.Context(), false); err != nil || done.Run != 2 || done.Sinks[0].Rounds != 10 {
			t.Errorf("%+v %v", done, err)
		}
		if time.Since(x.swarm.began) > time.Minute {
			t.Errorf("it took %s", time.Since(x.swarm.began))
		}
		if len(x.server.runs) != 6 || x.server.runs[0].Status != "KILLED" || x.server.runs[3].Status != "FINISHED" || len(x.server.have("2")) != 3 {
			t.Errorf("%d runs: %+v", len(x.server.runs), x.server.runs[0].Status)
		}
		if _, err := os.Stat(filepath.Join(x.dir, "run+2", "swarm")); err != nil {
			t.Error(err)
		}
	})
}

// TestBoardKeepsTrainingsApart: a directory is of one contract of one swarm, and of one swarmctl at a time.
func TestBoardKeepsTrainingsApart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	say := func(string) {}
	open := func() *track.Board {
		b, err := track.OpenBoard(dir, say)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := open()
	if _, err := track.OpenBoard(dir, say); exit.Code(err) != exit.Conflict {
		t.Errorf("a second one: %v", err)
	}
	if _, err := b.Open(t.Context(), &track.State{Swarm: "s", Contract: "c", Run: 4}); err != nil {
		t.Error(err)
	}
	evil := track.Round{Round: 1, Swarm: []track.Value{{Key: track.Whole}}}
	for _, node := range []string{"../../up", "swarm", "/abs", "a/b", ""} {
		evil.Peers = append(evil.Peers, track.PeerRound{Node: node, Values: []track.Value{{Key: "loss"}}})
	}
	if err := b.Write(t.Context(), []track.Round{evil}); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff(names, []string{".swarmctl-track.lock", "peer+swarm", "swarm", "swarmctl+track.json"}); diff != "" {
		t.Error(diff)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	b = open()
	for _, other := range []track.State{{Swarm: "s", Contract: "d", Run: 4}, {Swarm: "t", Contract: "c", Run: 4}} {
		if _, err := b.Open(t.Context(), &other); exit.Code(err) != exit.Conflict || exit.Hint(err) == "" {
			t.Errorf("%+v: %v", other, err)
		}
	}
	if after, err := b.Open(t.Context(), &track.State{Swarm: "s", Contract: "c", Run: 4}); err != nil || after != 1 {
		t.Errorf("%d %v", after, err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// clipped is a swarm whose history lacks the last rounds, and answers in circles when it is asked for them.
type clipped struct {
	*swarm

	last    uint64
	circles bool
}

// After implements track.Source.
func (c *clipped) After(ctx context.Context, after uint64) (track.Page, error) {
	out, err := c.swarm.After(ctx, after)
	out.Rounds = slices.DeleteFunc(out.Rounds, func(r track.Round) bool { return r.Round > c.last })
	if out.More = false; c.circles && after > 0 {
		out.Rounds, out.More = []track.Round{c.round(after, time.Hour)}, true
	}
	return out, err
}

// TestRoundsThatNobodyHas: the last rounds are missed too, and an SN that answers with what was not asked for is named.
func TestRoundsThatNobodyHas(t *testing.T) {
	t.Parallel()
	for _, circles := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &clipped{&swarm{began: time.Now(), rounds: 10, run: 1}, 6, circles}
			board, err := track.OpenBoard(t.TempDir(), func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			defer board.Close()
			f := track.Follower{Config: track.Config{Source: s, Sinks: []track.Sink{board}, Say: func(string) {}}}
			done, err := f.Run(t.Context())
			if circles && (err == nil || !strings.Contains(err.Error(), "was asked for the rounds behind")) || !circles && (err != nil || done.Sinks[0] != (track.Written{Rounds: 6, Last: 6, LeftOut: 4})) {
				t.Errorf("circles %v: %+v, %v", circles, done, err)
			}
		})
	}
}
