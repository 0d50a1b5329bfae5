package track_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/track"
)

// TestLacksForAMoment: what an SN lacks of old rounds for some seconds, as one that has just come back, is waited for; also with --once, and at the
// end of a training that is long over.
func TestLacksForAMoment(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(s *swarm, lacks func(uint64) bool){
		"rounds":  func(s *swarm, lacks func(uint64) bool) { s.lacks = lacks },
		"figures": func(s *swarm, lacks func(uint64) bool) { s.dull = lacks },
	} {
		for _, once := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				x := newTracked(t, 200)
				time.Sleep(80 * time.Second)
				set(x.swarm, forNow(20, 45, 20*time.Second))
				if once {
					if done, err := x.follow(t.Context(), true); err != nil || done.Over || done.Sinks[0].Last < 69 || done.Sinks[1].Last < 69 || done.Sinks[0].LeftOut != 0 {
						t.Errorf("%s: %+v %v", name, done, err)
					}
				}
				time.Sleep(3 * time.Hour)
				set(x.swarm, forNow(100, 200, 20*time.Second))
				if done, err := x.follow(t.Context(), once); err != nil || !done.Over || done.Sinks[0].Last != 200 || done.Sinks[0].LeftOut != 0 {
					t.Errorf("%s: %+v %v", name, done, err)
				}
				x.holds(x.dir)
			})
		}
	}
}

// TestLacksAfterALongWait: a sink that was down for long does not leave out what an SN lacks at the moment when it is up again.
func TestLacksAfterALongWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTracked(t, 900)
		up := time.Now().Add(10 * time.Minute)
		x.server.fault = func(string) fault {
			if time.Now().Before(up) {
				return refused
			}
			if x.swarm.lacks == nil {
				x.swarm.lacks = forNow(200, 500, 20*time.Second)
			}
			return none
		}
		if done, err := x.follow(t.Context(), false); err != nil || done.Sinks[0] != (track.Written{Rounds: 900, Last: 900}) {
			t.Errorf("%+v %v", done, err)
		}
	})
}

// TestLacksForEver: rounds that nobody has are left out after half a minute, once for all of them, and counted for each sink; with --once too.
func TestLacksForEver(t *testing.T) {
	t.Parallel()
	for _, once := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			x := newTracked(t, 100)
			x.swarm.lacks = func(round uint64) bool { return round < 80 && round%2 == 1 }
			time.Sleep(time.Hour)
			from := time.Now()
			done, err := x.follow(t.Context(), once)
			if err != nil || done.Sinks[0] != (track.Written{Rounds: 60, Last: 100, LeftOut: 40}) || done.Sinks[1] != done.Sinks[0] || time.Since(from) > 40*time.Second {
				t.Errorf("within %s: %+v %v", time.Since(from), done, err)
			}
		})
	}
}

// TestRecordIsOfTheRound: a record that is not known does not leave that of an earlier round beside a newer digest.
func TestRecordIsOfTheRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTracked(t, 60)
		time.Sleep(50 * time.Second)
		if _, err := x.follow(t.Context(), true); err != nil || x.server.runs[0].Tags["swarmd.record"] != "37" {
			t.Errorf("%v %+v", err, x.server.runs[0].Tags)
		}
		x.swarm.dull = func(round uint64) bool { return round == 60 }
		if _, err := x.follow(t.Context(), false); err != nil {
			t.Error(err)
		}
		if tags := x.server.runs[0].Tags; tags["swarmd.round"] != "60" || tags["swarmd.digest"] != "digest60" || tags["swarmd.record"] != "unknown" || !strings.HasSuffix(tags["swarmd.digests"], "59 digest59 record 62\n60 digest60") {
			t.Errorf("%+v", tags)
		}
	})
}

// statuses counts the runs of a training's run by their status.
func (s *server) statuses(run string) map[string]int {
	out := map[string]int{}
	for _, r := range s.runs {
		if r.Tags["swarmd.run"] == run {
			out[r.Status]++
		}
	}
	return out
}

// TestRunsEndAfterwards: what was reset or deleted while nobody tracked it, or while MLflow was down, does not stay RUNNING.
func TestRunsEndAfterwards(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) *tracked {
		t.Helper()
		x := newTracked(t, 1000)
		time.Sleep(50 * time.Second)
		if _, err := x.follow(t.Context(), true); err != nil || x.server.statuses("1")["RUNNING"] != 3 {
			t.Fatalf("%v %v", err, x.server.statuses("1"))
		}
		return x
	}
	synctest.Test(t, func(t *testing.T) { // nobody tracks it
		x := begin(t)
		x.swarm.resets = time.Now()
		time.Sleep(time.Minute)
		if _, err := x.follow(t.Context(), true); err != nil || x.server.statuses("1")["KILLED"] != 3 || x.server.statuses("2")["RUNNING"] != 3 {
			t.Errorf("%v %v %v", err, x.server.statuses("1"), x.server.statuses("2"))
		}
		x.swarm.resets = time.Time{} // an SN that lags tells of the run before, and later ones go on
		if _, err := x.follow(t.Context(), true); err != nil || x.server.statuses("2")["RUNNING"] != 3 {
			t.Errorf("%v %v", err, x.server.statuses("2"))
		}
	})
	synctest.Test(t, func(t *testing.T) { // MLflow is down
		x := begin(t)
		x.swarm.resets = time.Now().Add(10 * time.Second)
		x.server.fault = func(string) fault {
			if since := time.Since(x.swarm.resets); since > -5*time.Second && since < time.Minute {
				return refused
			}
			return none
		}
		if _, err := x.follow(t.Context(), false); err != nil || x.server.statuses("1")["KILLED"] != 3 || x.server.statuses("2")["FINISHED"] != 2 {
			t.Errorf("%v %v %v", err, x.server.statuses("1"), x.server.statuses("2"))
		}
	})
	synctest.Test(t, func(t *testing.T) { // it was deleted
		x := begin(t)
		x.swarm.gone = true
		x.server.fault = func(string) fault { return refused }
		if _, err := x.follow(t.Context(), false); exit.Code(err) != exit.NotFound || !strings.Contains(strings.Join(x.said, "\n"), "MLflow at http://mlflow:5000 does not answer") {
			t.Errorf("%v %v", err, x.said)
		}
		x.server.fault = nil
		if _, err := x.follow(t.Context(), false); exit.Code(err) != exit.NotFound || x.server.statuses("1")["KILLED"] != 3 {
			t.Errorf("%v %v", err, x.server.statuses("1"))
		}
	})
	synctest.Test(t, func(t *testing.T) { // it has never been
		x := newTracked(t, 10)
		x.swarm.gone = true
		if _, err := x.follow(t.Context(), false); exit.Code(err) != exit.NotFound || x.server.made {
			t.Errorf("%v, an experiment: %v", err, x.server.made)
		}
	})
}

// TestSinksFollowByThemselves: an error of one that does not pass is said and returned at the end; the other gets all.
func TestSinksFollowByThemselves(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]fault{"refuses": denied, "is down": refused} {
		synctest.Test(t, func(t *testing.T) {
			x := newTracked(t, 60)
			x.server.fault = func(string) fault { return bad }
			time.Sleep(time.Hour)
			done, err := x.follow(t.Context(), true)
			if err == nil || !strings.HasPrefix(err.Error(), "MLflow at ") || done.Sinks[1] != (track.Written{Rounds: 60, Last: 60}) || done.Sinks[0] != (track.Written{}) {
				t.Errorf("%s: %+v %v", name, done, err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		x := newTracked(t, 60)
		x.server.fault = func(string) fault {
			if time.Since(x.swarm.began) > 40*time.Second {
				return denied
			}
			return none
		}
		done, err := x.follow(t.Context(), false)
		if exit.Code(err) != exit.Denied || done.Sinks[1] != (track.Written{Rounds: 60, Last: 60}) || done.Sinks[0].Last == 60 || !strings.Contains(strings.Join(x.said, "\n"), "gets nothing more") {
			t.Errorf("%+v %v\n%s", done, err, strings.Join(x.said, "\n"))
		}
	})
}

// TestRunsThatSomebodyDeletes in MLflow are made anew, with all rounds.
func TestRunsThatSomebodyDeletes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTracked(t, 60)
		x.server.fault = func(string) fault {
			if time.Since(x.swarm.began) > 40*time.Second && x.server.created == 3 {
				x.server.runs = nil
			}
			return none
		}
		if done, err := x.follow(t.Context(), false); err != nil || done.Sinks[0].Last != 60 || x.server.created != 6 {
			t.Errorf("%+v %v, %d runs made", done, err, x.server.created)
		}
		x.holds(x.dir)
	})
}

// TestWrittenOfEachSink: one that comes later has its own count.
func TestWrittenOfEachSink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTracked(t, 30)
		ctx, stop := context.WithTimeout(t.Context(), 25*time.Second)
		defer stop()
		if done, err := x.follow(ctx, false); err == nil || done.Sinks[0].Last == 0 || done.Sinks[0].Rounds != done.Sinks[0].Last {
			t.Errorf("%+v %v", done, err)
		}
		x.dir = t.TempDir()
		if done, err := x.follow(t.Context(), false); err != nil || done.Sinks[0].Rounds >= 30 || done.Sinks[0].Last != 30 || done.Sinks[1] != (track.Written{Rounds: 30, Last: 30}) {
			t.Errorf("%+v %v", done, err)
		}
	})
}

// refusing is a sink that takes nothing.
type refusing struct{ track.Sink }

// String implements fmt.Stringer.
func (refusing) String() string { return "the sink" }

// End implements track.Sink.
func (refusing) End(context.Context, *track.State) error {
	return exit.New(exit.Denied, "sign in", "it refuses")
}

// TestNothingToWaitFor: where no sink takes anything, a contract that has not begun is not waited for.
func TestNothingToWaitFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTracked(t, 10)
		x.swarm.run = 0
		ctx, late := context.WithTimeout(t.Context(), time.Hour)
		defer late()
		f := track.Follower{Config: track.Config{Source: x.swarm, Sinks: []track.Sink{refusing{}, refusing{}}, Say: func(string) {}}}
		if _, err := f.Run(ctx); exit.Code(err) != exit.Denied {
			t.Errorf("%v", err)
		}
	})
}
