package docker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/image"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledgerfile"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/netns"
)

// kind is a type of tasks, and how it is made to last until a fault has passed.
type kind struct {
	name string
	// make makes a task "work" that host 1 can carry out. under waits until the host is at it; release lets it come to its end.
	make   func(h *hosts) (under, release func())
	peers  string // of host 1 in such a task
	left   int    // images that it leaves
	volume string // that it leaves
}

var kinds = []kind{
	{name: task.MakeUserContainer, peers: "1", left: 1, make: builds},
	{name: task.MakeSwarmUserContent, peers: "1", volume: "work", make: fetches},
	{
		name: task.PullImage, peers: "1", left: 1,
		make: func(h *hosts) (under, release func()) {
			l, err := h.Host(21).Listen("tcp", "127.0.0.1:0")
			if err != nil {
				h.T.Fatal(err)
			}
			r := enginetest.NewRegistryAt(h.T, l)
			held := r.Hold()
			h.task("work", task.PullImage, "ROOTTASK", "OrgAndReg : "+r.Address+"/org\nRepoName : img\nTag : "+r.Tag+"\nAuth : null\n")
			return func() { <-held }, r.Release
		},
	},
	{
		name: task.RunSwarm, peers: "2",
		make: func(h *hosts) (under, release func()) {
			h.CopyProgram(h.Path("model"))
			h.taskOfImage()
			h.task("work", task.RunSwarm, "user_env_task", "Entrypoint : python3 -u\nCommand : model/train.py\nWorkingDir : /tmp/test\nPrivateContent : /tmp/test/app-data\n"+
				`Envvars : ["MIN_PEERS": 2, "HOLD_END": /tmp/test/model/go, "SWARM_METRICS_FILE": /tmp/test/app-data/metrics]`+
				"\nSharedContent : [{Src : "+h.Path("model")+", Tgt : /tmp/test/model, MType : BIND}]\n")
			under = func() {
				h.Until("the programs to merge", func() bool {
					for i := 1; i <= 2; i++ {
						raw, err := os.ReadFile(h.Path(fmt.Sprintf("sl%d", i), "app-data", "metrics"))
						if err != nil || !strings.Contains(string(raw), `"round": 1`) {
							return false
						}
					}
					return true
				})
			}
			return under, func() {
				if err := os.WriteFile(h.Path("model", "go"), nil, 0o644); err != nil {
					h.T.Fatal(err)
				}
			}
		},
	},
}

// taskFault is what happens while a host carries out a task, and what must come of it.
type taskFault struct {
	name    string
	strike  func(h *hosts)
	mend    func(h *hosts)
	verdict task.Verdict // Failed: the fault lasts until then
	reason  string
}

var taskFaults = []taskFault{
	{
		name: "SWOP killed", verdict: task.Succeeded,
		strike: func(h *hosts) { h.swops[0].Kill() },
		mend:   func(h *hosts) { h.swops[0] = h.seesReady(1) },
	},
	{
		name: "leader killed", verdict: task.Succeeded,
		strike: func(h *hosts) { h.sns[0].Kill() },
		mend:   func(h *hosts) { h.sns[0] = h.SN(1) },
	},
	{
		name: "link cut", verdict: task.Failed, reason: "swop-1 was lost: it is not heard any more",
		strike: func(h *hosts) { h.eachSN(h.Host(21).Cut) },
		mend:   func(h *hosts) { h.eachSN(h.Host(21).Heal) },
	},
}

// TestFaultsDuringTasksForMinutes: for each type of task, the SWOP is killed, the leader is killed, the host's link is cut; each comes to one
// verdict, of which all SNs have the same record, and leaves nothing on the host.
func TestFaultsDuringTasksForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("takes minutes: set SWARM_TEST_LONG=1, or run make test-long")
	}
	for _, k := range kinds {
		for _, f := range taskFaults {
			t.Run(k.name+"/"+f.name, func(t *testing.T) { f.during(t, k) })
		}
	}
}

func (f taskFault) during(t *testing.T, k kind) {
	h := newHosts(t, 3, 1)
	h.swops = []*e2etest.Proc{h.seesReady(1)}
	under, release := k.make(h)
	h.orders("assign", "task", "work", "to", task.DefaultTaskrunner, "with", k.peers, "peers")
	under()
	f.strike(h)
	if f.verdict == task.Failed {
		h.until("a verdict", func(a assignment) bool { return a.Verdict != "" })
		f.mend(h)
		h.until("an end", func(a assignment) bool { return a.Phase == string(task.Over) }) // what is done before the host hears of it stays
		release()
	} else {
		release()
		f.mend(h)
	}
	a := h.until("an end", func(a assignment) bool { return a.Phase == string(task.Over) })
	if a.Verdict != string(f.verdict) || a.Reason != f.reason {
		t.Errorf("it ended as %s, %q; want %s, %q", a.Verdict, a.Reason, f.verdict, f.reason)
	}
	h.recorded(a)
	images := 2
	if f.verdict == task.Succeeded {
		images += k.left
		h.empty(1, k.volume)
	} else {
		h.empty(1)
	}
	h.images(1, images)
	for _, p := range append(h.swops, h.sns...) {
		p.Stop()
	}
}

// eachSN does something to a host and each SN.
func (h *hosts) eachSN(do func(sn *netns.Host) error) {
	h.T.Helper()
	var errs []error
	for i := range h.sns {
		errs = append(errs, do(h.Host(i+1)))
	}
	if err := errors.Join(errs...); err != nil {
		h.T.Fatal(err)
	}
}

// assignment is the taskrunner's last one, as swarmctl shows it.
type assignment struct{ ID, Phase, Verdict, Reason, Wants string }

// until waits for what becomes of the assignment. SNs that choose a new leader answer later.
func (h *hosts) until(what string, is func(a assignment) bool) (a assignment) {
	h.T.Helper()
	h.Until(what, func() bool {
		code, out := h.swarmctl(1, "get", "taskrunner", "status", task.DefaultTaskrunner, "-o", "json")
		var got struct{ Assignment assignment }
		if code == 0 {
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				h.T.Fatalf("%v: %s", err, out)
			}
		}
		a = got.Assignment
		return code == 0 && is(a)
	})
	return a
}

// recorded wants that each SN's ledger has one verdict on an assignment, and the same.
func (h *hosts) recorded(a assignment) {
	h.T.Helper()
	for i := range h.sns {
		var verdicts []string
		h.Until("the record", func() bool {
			verdicts = nil
			raw, err := os.ReadFile(h.Path(fmt.Sprintf("sn%d", i+1), ledgerfile.Name))
			if err != nil {
				h.T.Fatal(err)
			}
			for line := range strings.Lines(string(raw)) {
				if _, body, err := ledger.Parse([]byte(line)); err == nil {
					if x, ok := body.(ledger.EndedAssignment); ok && x.Assignment == a.ID {
						verdicts = append(verdicts, x.Verdict)
					}
				}
			}
			return len(verdicts) > 0
		})
		if len(verdicts) != 1 || verdicts[0] != a.Verdict {
			h.T.Errorf("the ledger of sn-%d has the verdicts %v, want %s", i+1, verdicts, a.Verdict)
		}
	}
}

// images wants that host i's engine has so many.
func (h *hosts) images(i, want int) {
	h.T.Helper()
	all, err := h.engines[i-1].Engine().ImageList(h.T.Context(), image.ListOptions{})
	if err != nil || len(all) != want {
		h.T.Errorf("host %d has %d images, want %d; %v: %v", i, len(all), want, err, all)
	}
}
