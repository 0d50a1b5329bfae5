package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// unfit is the exit code of scripts/web where Node.js or Chromium is missing.
const unfit = 3

// stage is a swarm whose page a test in web/test/live drives, which has processes killed and started.
type stage struct {
	*swarm
	procs map[string]*e2etest.Proc
	// starts are the nodes that can be started again.
	starts map[string]func() *e2etest.Proc
	// does are what the test in Chromium may ask for, as in "kill sl-1".
	does map[string]func(name string)
}

func newStage(t *testing.T) *stage {
	t.Helper()
	e2etest.NeedPython(t)
	s := &stage{swarm: newSwarm(t), procs: map[string]*e2etest.Proc{}, starts: map[string]func() *e2etest.Proc{}}
	s.does = map[string]func(string){"kill": s.kill, "start": func(name string) { s.procs[name] = s.starts[name]() }}
	return s
}

func (s *stage) kill(name string) {
	s.procs[name].Kill()
}

// sns starts n SNs, and returns the addresses of their APIs by name once all answer.
func (s *stage) sns(n int) map[string]string {
	s.T.Helper()
	apis := map[string]string{}
	for i := 1; i <= n; i++ {
		p := s.SN(i)
		s.procs[p.Name], apis[p.Name] = p, s.api(i)
		s.starts[p.Name] = func() *e2etest.Proc { return s.SN(i) }
	}
	for name := range apis {
		s.procs[name].Sees(apiMarker)
	}
	return apis
}

func (s *stage) api(i int) string { return s.Addr(i) + ":" + apiPort }

// board starts a dashboard of the swarm, and returns the address that it prints.
func (s *stage) board(args ...string) (address string) {
	s.T.Helper()
	p := e2etest.Start(s.T, "dashboard", s.Dir, nil, append([]string{"swarmctl", "dashboard", "--listen", s.Addr(30) + ":30309"}, args...)...)
	s.procs[p.Name] = p
	p.Sees("dashboard: http")
	return regexp.MustCompile(`dashboard: (http\S+)`).FindStringSubmatch(p.Output())[1]
}

// plays runs web/test/live/PLAY.mjs, which is told what it needs to know, and does what it asks for. It skips the test without Node.js and Chromium.
func (s *stage) plays(play string, known map[string]any) {
	s.T.Helper()
	type wish struct {
		does func(string)
		name string
		done chan struct{}
	}
	wishes := make(chan wish)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		verb, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		do := s.does[verb]
		if do == nil {
			http.Error(w, "no such deed: "+verb, http.StatusNotFound)
			return
		}
		x := wish{do, name, make(chan struct{})}
		select {
		case wishes <- x:
			<-x.done
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	known["play"], known["stage"], known["ctl"] = play, server.URL, filepath.Join(e2etest.BinDir, "swarmctl")
	live, err := json.Marshal(known)
	script, pathErr := filepath.Abs(filepath.Join("..", "..", "scripts", "web"))
	if err := errorOf(err, pathErr); err != nil {
		s.T.Fatal(err)
	}
	cache := os.Getenv("SWARM_CACHE")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache", "swarmd")
	}
	page := e2etest.Start(s.T, "page", s.Dir, []string{"SWARM_CACHE=" + cache, "SWARM_TEST_LONG=" + os.Getenv("SWARM_TEST_LONG"), fmt.Sprintf("LIVE=%s", live)}, script, "live")
	late := time.After(4 * time.Minute)
	for ended := false; !ended; {
		select {
		case x := <-wishes:
			x.does(x.name)
			close(x.done)
		case <-page.Done:
			ended = true
		case <-late:
			s.T.Fatal("the page's test does not end")
		}
	}
	switch code := page.Cmd.ProcessState.ExitCode(); code {
	case 0:
		s.T.Log("\n" + page.Output())
	case unfit:
		s.T.Skip(e2etest.Last(page.Output(), 1))
	default:
		s.T.Errorf("exit code %d\n%s", code, page.Output())
	}
}
