package work_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/work"
)

var errAway = work.EngineFails(errors.New("dial unix /run/secret.sock: connection refused"))

// wants is a member as the swarm wants it.
func wants(s task.State, start bool) task.HostedMember {
	return task.HostedMember{State: s, Start: start}
}

// TestEngineThatComesBack: an engine that is away while a member is prepared or started ends nothing, and the swarm is told what it waits for.
func TestEngineThatComesBack(t *testing.T) {
	inLab(t, func(l *lab) {
		l.world.fail("prepare", errAway)
		l.shows(1, wants(task.Placed, false))
		l.beat(110 * time.Second)
		l.world.fail("prepare", nil)
		l.beat(5 * time.Second)
		l.world.fail("start", errAway)
		l.shows(1, wants(task.Prepared, true))
		l.beat(110 * time.Second) // each has its own two minutes
		l.world.fail("start", nil)
		l.beat(5 * time.Second)
		engine := ", and tried again for 2m0s: this host's container engine does not say: see its SWOP's log, and whether the engine answers (docker info)"
		l.wantSaid("asked 0 not prepared yet"+engine, "prepared", "started 0 not started yet"+engine, "started")
	})
}

// TestEngineThatStaysAway: after two minutes of trying a member ends, with one verdict that tells nothing of the host.
func TestEngineThatStaysAway(t *testing.T) {
	for _, what := range []string{"prepare", "start"} {
		t.Run(what, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.world.fail(what, errAway)
				l.shows(1, wants(task.Placed, false))
				l.beat(5 * time.Second)
				if what == "start" {
					l.shows(1, wants(task.Prepared, true))
				}
				began := time.Now()
				for len(l.said) == 0 || !strings.HasPrefix(l.said[len(l.said)-1], "exited") {
					l.beat(time.Second)
				}
				if got := time.Since(began); got < 110*time.Second || got > 125*time.Second {
					t.Errorf("it ended after %v", got)
				}
				if last := l.said[len(l.said)-1]; !strings.Contains(last, "ed for 2m0s: this host's container engine does not say") || strings.Contains(last, "secret") {
					t.Error(last)
				}
				l.beat(5 * time.Second)
			})
		})
	}
}

// TestDefiniteErrorAfterOneThatPasses ends a member at once.
func TestDefiniteErrorAfterOneThatPasses(t *testing.T) {
	inLab(t, func(l *lab) {
		l.world.fail("prepare", errAway)
		l.shows(1, wants(task.Placed, false))
		l.beat(5 * time.Second)
		l.world.fail("prepare", errors.New("no such image"))
		l.beat(5 * time.Second)
		if !slices.Contains(l.said, "exited -1 no such image cleaned") {
			t.Errorf("%q", l.said)
		}
	})
}

// TestEngineThatTakesACallAndIsSilent: a member whose executor waits for an engine that never answers ends when the engine shows nothing for long.
func TestEngineThatTakesACallAndIsSilent(t *testing.T) {
	for name, err := range map[string]error{"to anybody": fmt.Errorf("reach container engine: %w", engine.ErrSilent), "but to pings": fmt.Errorf("look for containers of tasks: %w", context.DeadlineExceeded)} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.world.prepares = 24 * time.Hour
				l.world.fail("find", err)
				l.shows(1, wants(task.Placed, false))
				l.beat(6 * time.Minute)
				if !slices.ContainsFunc(l.said, func(s string) bool {
					return strings.HasPrefix(s, "exited -1 its host could not see for 5m0s what runs: ")
				}) {
					t.Errorf("%q", l.said)
				}
			})
		})
	}
}

// TestEngineThatOnlyCannotListWhatRuns: what an executor is doing goes on to its end, however long that takes.
func TestEngineThatOnlyCannotListWhatRuns(t *testing.T) {
	inLab(t, func(l *lab) {
		l.shows(1, wants(task.Placed, false))
		l.world.prepares = 20 * time.Minute
		l.world.fail("find", errors.New("list containers: 500"))
		l.beat(21 * time.Minute)
		l.wantSaid("asked", "prepared")
	})
}

// TestEngineThatIsNotToBeReached ends a member at once, in words that tell nothing of the host.
func TestEngineThatIsNotToBeReached(t *testing.T) {
	inLab(t, func(l *lab) {
		l.world.fail("prepare", &work.Lasting{Words: "this host can't use its container engine", Err: errors.New("dial unix /run/secret.sock: permission denied")})
		l.shows(1, wants(task.Placed, false))
		l.beat(5 * time.Second)
		l.wantSaid("exited -1 this host can't use its container engine cleaned")
	})
}

// TestEngineThatGoesAwayLateInAFetch, again and again: a try that came far is none in vain.
func TestEngineThatGoesAwayLateInAFetch(t *testing.T) {
	inLab(t, func(l *lab) {
		l.world.prepares = 5 * time.Minute
		l.world.fail("prepare", errAway)
		l.shows(1, wants(task.Placed, false))
		l.beat(11 * time.Minute)
		l.world.fail("prepare", nil)
		l.beat(6 * time.Minute)
		if last := l.said[len(l.said)-1]; last != "prepared" {
			t.Errorf("%q", l.said)
		}
	})
}

// TestEngineThatGoesAwayInEachTry: what comes far each time and never to its end is not tried for ever.
func TestEngineThatGoesAwayInEachTry(t *testing.T) {
	inLab(t, func(l *lab) {
		l.world.prepares = 5 * time.Minute
		l.world.fail("prepare", errAway)
		l.shows(1, wants(task.Placed, false))
		began := time.Now()
		for len(l.said) == 0 || !strings.HasPrefix(l.said[len(l.said)-1], "exited -1 it could not be prepared, and 5 tries took long: this host's container engine") {
			if l.beat(time.Second); time.Since(began) > 24*time.Hour {
				t.Fatalf("%q", l.said)
			}
		}
		if got := time.Since(began); got < 25*time.Minute || got > 26*time.Minute {
			t.Errorf("it ended after %v", got)
		}
	})
}

// TestTriesThatTookLongAreCountedForEach: what took long before it was prepared is not held against its start.
func TestTriesThatTookLongAreCountedForEach(t *testing.T) {
	inLab(t, func(l *lab) {
		l.world.prepares, l.world.starts = 5*time.Minute, 5*time.Minute
		l.world.fail("prepare", errAway)
		l.shows(1, wants(task.Placed, false))
		l.beat(21 * time.Minute) // four tries
		l.world.fail("prepare", nil)
		l.beat(5 * time.Minute)
		l.world.fail("start", errAway)
		l.shows(1, wants(task.Prepared, true))
		l.beat(21 * time.Minute) // four more
		l.world.fail("start", nil)
		l.beat(6 * time.Minute)
		if last := l.said[len(l.said)-1]; last != "started" {
			t.Errorf("%q", l.said)
		}
	})
}
