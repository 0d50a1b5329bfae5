package docker_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/work"
)

// breaks is an engine that goes away after a call, which it has carried out without an answer, and is not reached for the next ones.
type breaks struct {
	mu   sync.Mutex
	at   string // end of the path of the call after which it goes; "": it stays
	away int    // calls that it is away for then
	left int
	made map[string]int // calls that it carried out, by the end of their paths
}

func (b *breaks) answer(r *http.Response) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, call := range []string{"/containers/create", "/start"} {
		if r.Request.Method == http.MethodPost && strings.HasSuffix(r.Request.URL.Path, call) && strings.Contains(r.Request.URL.Path, "/containers/") && r.StatusCode < http.StatusBadRequest {
			b.made[call]++
			if call == b.at {
				b.at, b.left = "", b.away
				return errors.New("gone")
			}
		}
	}
	return nil
}

func (b *breaks) ask(*http.Request) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left == 0 {
		return nil
	}
	b.left--
	return errors.New("gone")
}

func (b *breaks) goes(at string, away int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at, b.away, b.left, b.made = at, away, 0, map[string]int{}
}

// TestEngineGoesAwayWhileSLsAreStarted: what an engine has made or started without a word to its SWOP is found by the next try, and nothing
// runs twice.
func TestEngineGoesAwayWhileSLsAreStarted(t *testing.T) {
	s, all := newSite(t), tasks{}
	r := s.host(all)(false)
	outcome := s.name("outcome") + ":1"
	s.named(enginetest.TestImage, outcome)
	all.add("image", task.PullImage, task.Root, outcome, "RepoName : x\nTag : 1\nOrgAndReg : o\nAuth : null\n")
	x := all.add("run", task.RunSwarm, "image", "out", strings.ReplaceAll(strings.Replace(s.fill(runSwarm), `"BATCHES": 30`, `"BATCHES": 1000000`, 1), ": CONTRACT", ": c7"))
	j := work.Job{Label: work.Label{Swarm: "swarm", Node: s.name("swop"), Assignment: "7", Epoch: 1}, Assignment: task.Request{ID: "7", Task: x.Name}, Task: x, Grant: work.Grant{
		Paths: map[string]string{s.path("model"): s.path("model")},
	}}
	var err error
	if j.Image, err = r.Image(t.Context(), j.Task); err != nil {
		t.Fatal(err)
	}
	b := &breaks{made: map[string]int{}}
	address := enginetest.Between(t, s.engine, enginetest.Faults{Ask: b.ask, Answer: b.answer})
	r.Open = func(ctx context.Context) (*engine.Engine, error) { return engine.OpenAt(ctx, address) }
	until := func(what string, try func() error) (tries int) {
		t.Helper()
		for began := time.Now(); ; tries++ {
			err := try()
			var passing *work.Passing
			switch {
			case err == nil:
				return tries
			case !errors.As(err, &passing):
				t.Fatalf("%s: %v", what, err)
			case time.Since(began) > enginetest.Timeout:
				t.Fatalf("%s does not come to an end: %v", what, err)
			}
		}
	}
	prepares := func() error { return r.Prepare(t.Context(), j) }
	starts := func() error { _, err := r.Start(t.Context(), j); return err }

	b.goes("/containers/create", 20)
	if until("prepare", prepares) == 0 {
		t.Error("the engine did not go away")
	}
	b.goes("/start", 40) // for so long that the try can't remove what it has started either
	if until("start", starts) == 0 {
		t.Error("the engine did not go away")
	}
	s.becomes(r, task.Ready)
	if names := s.containersOf(j.Label); len(names) != 2 || b.made["/start"] != 2 {
		t.Errorf("the SLs are %v after %d starts", names, b.made["/start"])
	}
	s.cleans(r, j.Label)
	s.stopsClean()
}
