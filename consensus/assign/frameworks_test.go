package assign_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/jobrequest"
)

// framed is the world of a job of a framework, of several groups.
func framed(t *testing.T, name, lines string) *framework.World {
	t.Helper()
	for _, groups := range []string{"replicas: 2\n", "groups: [{name: chief}, {name: worker, replicas: 2}]\n"} {
		j, err := jobfile.Read("f", []byte("name: x\nframework: "+name+"\nimage: i\nnetwork: lab\ncommand: a\n"+groups+lines))
		if err != nil {
			t.Fatal(err)
		}
		w, err := framework.WorldOf(j)
		if err != nil {
			t.Fatal(err)
		}
		if len(w.Groups) > 1 {
			return w
		}
	}
	t.Fatalf("a job of %s has one group", name)
	return nil
}

// firstOf is the first rank of the main group, or of another that is not it.
func firstOf(w *framework.World, main bool) (rank int) {
	for i, g := range w.Groups {
		if (i == w.Main()) == main {
			return rank
		}
		rank += g.Replicas
	}
	return rank
}

// TestEndsOfFrameworks: a job of each framework comes to each of the ends that a job file leads to.
func TestEndsOfFrameworks(t *testing.T) {
	serves := func(w *framework.World) func(h *host, k key, p *program) {
		return func(h *host, k key, p *program) {
			rank := 0
			for _, g := range w.Groups {
				if rank += g.Replicas; k.member < rank {
					if g.Serves() {
						hang(h, k, p)
					}
					return
				}
			}
		}
	}
	all := []struct {
		end   task.End
		lines string
		fate  func(w *framework.World) func(h *host, k key, p *program)
	}{
		{task.EndEntryDone, "", serves},
		{task.EndStopFile, "work_dir: w\n", func(w *framework.World) func(h *host, k key, p *program) {
			return func(h *host, k key, p *program) {
				if hang(h, k, p); k.member == firstOf(w, true) && p.state == task.Ready {
					p.asks = task.AskStop
				}
			}
		}},
		{task.EndTTL, "ends: {ttl: 30s}\n", func(*framework.World) func(h *host, k key, p *program) { return hang }},
		{task.EndMainTimeout, "ready_timeout: 90s\n", func(w *framework.World) func(h *host, k key, p *program) { return stuck(firstOf(w, true)) }},
		{task.EndReadyTimeout, "ready_timeout: 90s\n", func(w *framework.World) func(h *host, k key, p *program) { return stuck(firstOf(w, false)) }},
	}
	for _, name := range jobfile.Frameworks {
		for _, tt := range all {
			t.Run(fmt.Sprintf("%s %s", name, tt.end), func(t *testing.T) {
				w := framed(t, name, tt.lines)
				inSwarm(t, 3, func(s *swarm) {
					for _, h := range s.hosts {
						h.fate = tt.fate(w)
					}
					s.job("7", 0, func(q *task.Request) {
						r := jobrequest.Request(w)
						r.ID, r.Task, r.By, r.Hosts = q.ID, q.Task, q.By, q.Hosts
						*q = r
					})
					if a := s.over("7", 5*time.Minute); a.End != tt.end {
						t.Errorf("got %s: %s", a.End, a.Reason)
					}
				})
			})
		}
	}
}
