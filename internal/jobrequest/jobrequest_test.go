package jobrequest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/jobrequest"
)

const day = 24 * 3600 * 1000

// ready are the terms of a job of processes that says nothing of them.
var ready = task.JobTerms{ReadyMS: 600_000, GraceMS: 30_000}

// sent is the world of a job file and the body of its task.
func sent(t *testing.T, file string) (*framework.World, []byte) {
	t.Helper()
	j, err := jobfile.Read("f", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	w, err := framework.WorldOf(j)
	if err != nil {
		t.Fatal(err)
	}
	body, err := w.Expanded().Encode()
	if err != nil {
		t.Fatal(err)
	}
	return w, body
}

func TestRequest(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		want       task.Request
	}{
		{"replicas", "name: x\ncommand: a\nreplicas: 3\n", task.Request{Groups: []task.Group{{Name: "node", Peers: 3, Least: 3}}, TimeoutMS: 30 * day, JobTerms: ready}},
		{"what leaders decide by", "name: x\ncommand: a\nrestarts: 2\ntimeout: 1h\nstart: in-order\ngroups: [{name: r}, {name: s, replicas: 3, min_success: 2}]\n", task.Request{
			Groups: []task.Group{{Name: "r", Peers: 1, Least: 1}, {Name: "s", Peers: 3, Least: 2}}, InOrder: true, Retries: 2, TimeoutMS: day / 24, JobTerms: ready,
		}},
		{"what members need", "name: x\nimage: i\nnetwork: host\nresources: {cpu: 0.5, memory: 1GiB, shm: 1MB}\ngroups: [{name: r}, {name: s, resources: {cpu: 2}}]\n", task.Request{
			Groups: []task.Group{
				{Name: "r", Peers: 1, Least: 1, Needs: ledger.Needs{MilliCPU: 500, Memory: 1 << 30}}, {Name: "s", Peers: 1, Least: 1, Needs: ledger.Needs{MilliCPU: 2000, Memory: 1 << 30}},
			}, TimeoutMS: 30 * day, JobTerms: ready,
		}},
		{"ports of a host", "name: x\nframework: pytorch\ncommand: a\ngroups: [{name: r, env: {MASTER_PORT: '29500'}}, {name: s, replicas: 2, ready: {port: 9000}}]\n", task.Request{
			Groups: []task.Group{{Name: "r", Peers: 1, Least: 1, FirstPorts: []uint32{29500}}, {Name: "s", Peers: 2, Least: 2, Ports: []uint32{9000}}}, TimeoutMS: 30 * day, JobTerms: ready,
		}},
		{"dask", "name: x\nframework: dask\ncommand: a\nreplicas: 2\n", task.Request{
			Groups: []task.Group{{Name: "scheduler", Peers: 1, Ports: []uint32{8786, 8787}}, {Name: "worker", Peers: 2}, {Name: "entry", Peers: 1, Least: 1}}, InOrder: true, TimeoutMS: 30 * day,
			JobTerms: task.JobTerms{Done: task.DoneMain, ReadyMS: 600_000, GraceMS: 30_000},
		}},
		{"when it ends", "name: x\nimage: i\ndone_when: any\nends: {ttl: 4h}\nready_timeout: 1m\ngrace: 10s\n", task.Request{
			Groups: []task.Group{{Name: "node", Peers: 1, Least: 1}}, TimeoutMS: 30 * day,
			JobTerms: task.JobTerms{Done: task.DoneAny, ReadyMS: 60_000, LivesMS: day / 6, Together: true, GraceMS: 10_000},
		}},
		{"dask for others", "name: x\nframework: dask\nreplicas: 2\nends: {ttl: 24h}\n", task.Request{
			Groups: []task.Group{{Name: "scheduler", Peers: 1, Ports: []uint32{8786, 8787}}, {Name: "worker", Peers: 2}}, InOrder: true, TimeoutMS: 30 * day,
			JobTerms: task.JobTerms{Done: task.DoneMain, ReadyMS: 600_000, LivesMS: day, GraceMS: 30_000},
		}},
		{"a folder of its runs", "name: x\ncommand: a\nwork_dir: w\n", task.Request{
			Groups: []task.Group{{Name: "node", Peers: 1, Least: 1}}, TimeoutMS: 30 * day, JobTerms: task.JobTerms{ReadyMS: 600_000, GraceMS: 30_000, Stops: true},
		}},
		{"hosts", "name: x\ncommand: a\nhosts: [h-2, h-1]\nnetwork: host\n", task.Request{Hosts: []string{"h-1", "h-2"}, Groups: []task.Group{{Name: "node", Peers: 1, Least: 1}}, TimeoutMS: 30 * day, JobTerms: ready}},
		{"hosts of groups", "name: x\ncommand: a\nnetwork: host\ngroups: [{name: r, hosts: [h-3, h-2, h-1]}, {name: s}, {name: t, hosts: [h-0, h-1, h-3]}]\n", task.Request{
			Hosts: []string{"h-1", "h-3"}, Groups: []task.Group{{Name: "r", Peers: 1, Least: 1}, {Name: "s", Peers: 1, Least: 1}, {Name: "t", Peers: 1, Least: 1}}, TimeoutMS: 30 * day, JobTerms: ready,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, body := sent(t, tt.file)
			got := jobrequest.Request(w)
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
			if len(got.Hosts) == 0 {
				got.Hosts = []string{"any"}
			}
			got.ID, got.Task, got.By, got.ExpiresMS = "7", "x.0123abcd", "spiffe://a.example/swarm/swci", 1
			if err := jobrequest.Hold(got, body); err != nil {
				t.Error(err)
			}
			if err := got.Check(); err != nil {
				t.Errorf("the swarm would not take it: %v", err)
			}
		})
	}
}

func TestHoldRefuses(t *testing.T) {
	const file = "name: x\ncommand: a\nreplicas: 2\nhosts: [a, b]\nnetwork: host\n"
	for _, tt := range []struct {
		name   string
		body   string // empty: that of the file
		change func(*task.Request)
		want   string
	}{
		{"no job", "nam: x\n", nil, "the task's job can't be read: line 1: unknown field nam: did you mean name?"},
		{"nothing to run", "name: x\n", nil, "the task's job can't be run: group node has neither a command nor an image whose own it runs: write command"},
		{"no common host", "name: x\ncommand: a\nnetwork: host\ngroups: [{name: r, hosts: [a]}, {name: s, hosts: [b]}]\n", nil, "no host may have members of all groups"},
		{"a secret and a variable", "name: x\ncommand: a\nenv: {K: 1}\ngroups: [{name: r}, {name: s, secrets: [K]}]\n", nil, "group s has K under env and under secrets: leave one out"},
		{"some without an image", "name: x\ncommand: a\ngroups: [{name: r, image: i:1}, {name: s}]\n", nil, "some of its groups have an image and others none"},
		{"a taskrunner", "", func(q *task.Request) { q.Taskrunner = "tr" }, "it names a taskrunner"},
		{"joined", "", func(q *task.Request) { q.Joins = "6" }, "it names a taskrunner or joins"},
		{"no hosts", "", func(q *task.Request) { q.Hosts = nil }, "it names no hosts"},
		{"another host", "", func(q *task.Request) { q.Hosts = []string{"a", "c"} }, "it names 2 hosts, and the job 2, or others"},
		{"more members", "", func(q *task.Request) { q.Groups[0].Peers = 3 }, "group 1 is node, 2 of 3, and the job's node, 2 of 2: start jobs with"},
		{"fewer that succeed", "", func(q *task.Request) { q.Groups[0].Least = 1 }, "group 1 is node, 1 of 2"},
		{"less than it needs", "", func(q *task.Request) { q.Groups[0].Needs.MilliCPU = 500 }, "group 1 is node, 2 of 2 with 0.5 CPUs, and the job's node, 2 of 2: start"},
		{"another port", "", func(q *task.Request) { q.Groups[0].Ports = []uint32{80} }, "group 1 is node, 2 of 2 on ports [80], and the job's node, 2 of 2: start"},
		{"another group", "", func(q *task.Request) { q.Groups = append(q.Groups, task.Group{Name: "more", Peers: 1}) }, "it has 2 groups, and the job 1"},
		{"in order", "", func(q *task.Request) { q.InOrder = true }, "groups start in order: it says true, and the job false"},
		{"restarts", "", func(q *task.Request) { q.Retries = 4 }, "restarts: it says 4, and the job 0"},
		{"no timeout", "", func(q *task.Request) { q.TimeoutMS = 0 }, "timeout in ms: it says 0, and the job 2592000000"},
		{"done", "", func(q *task.Request) { q.Done = task.DoneAny }, "done: it says any, and the job "},
		{"ready", "", func(q *task.Request) { q.ReadyMS = 0 }, "ready_timeout in ms: it says 0, and the job 600000"},
		{"lives", "", func(q *task.Request) { q.LivesMS = 1 }, "ttl in ms: it says 1, and the job 0"},
		{"grace", "", func(q *task.Request) { q.GraceMS = 0 }, "grace in ms: it says 0, and the job 30000"},
		{"a stop file", "", func(q *task.Request) { q.Stops = true }, "ended by a stop file: it says true, and the job false"},
		{"together", "", func(q *task.Request) { q.Together = true }, "all on one host: it says true, and the job false"},
	} {
		w, body := sent(t, file)
		q := jobrequest.Request(w)
		q.Task = "x.0123abcd"
		if tt.body != "" {
			body = []byte(tt.body)
		}
		if tt.change != nil {
			tt.change(&q)
		}
		err := jobrequest.Hold(q, body)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}

// Long names are told in a line that is kept whole: a host's words have 256 bytes.
func TestHoldIsShort(t *testing.T) {
	var file strings.Builder
	file.WriteString("name: x\ncommand: a\ngroups:\n")
	for _, c := range "abcdefghijklmnop" {
		file.WriteString("- {name: " + strings.Repeat(string(c), 31) + ", replicas: 64}\n")
	}
	w, body := sent(t, file.String())
	q := jobrequest.Request(w)
	q.Task, q.Hosts, q.Groups[0].Name = strings.Repeat("x", 63)+".0123abcd", []string{"a"}, strings.Repeat("z", 64)
	if err := jobrequest.Hold(q, body); err == nil || len(err.Error()) > task.MaxText {
		t.Errorf("%d bytes: %v", len(err.Error()), err)
	}
}

// Whatever body a task has: it is refused, or the request that its job comes to is held, and none that differs from that.
func FuzzHold(f *testing.F) {
	f.Add([]byte("name: x\ncommand: a\nreplicas: 3\n"), uint8(0))
	f.Add([]byte("name: x\nframework: dask\ncommand: a\nreplicas: 2\nrestarts: 3\n"), uint8(3))
	f.Add([]byte("name: x\ncommand: a\nnetwork: host\nstart: in-order\ngroups: [{name: r, hosts: [a, b]}, {name: s, hosts: [b]}]\n--- source\n644 text 2 a\nb\n"), uint8(5))
	f.Fuzz(func(t *testing.T, body []byte, which uint8) {
		j, err := jobfile.Decode(body)
		if err != nil {
			if jobrequest.Hold(task.Request{Hosts: []string{"a"}}, body) == nil {
				t.Fatal("it holds what is no job")
			}
			return
		}
		w, err := framework.WorldOf(j)
		if err != nil {
			return
		}
		q := jobrequest.Request(w)
		if len(q.Hosts) == 0 {
			q.Hosts = []string{"any"}
		}
		_, common := w.Common()
		served := jobrequest.Served(w)
		if err := jobrequest.Hold(q, body); (err == nil) != (common && served == nil) {
			t.Fatalf("its own request, with common hosts %v, which give what it asks for but %v: %v", common, served, err)
		}
		q.ID, q.Task, q.By = "1", "x.0123abcd", "spiffe://a.example/swarm/swci"
		if err := q.Check(); err != nil && common {
			t.Fatalf("the swarm does not take what it asks for: %v", err)
		}
		changes := []func(){
			func() { q.Groups[0].Peers++ },
			func() { q.Groups[0].Least++ },
			func() { q.Groups[0].Needs.MilliCPU++ },
			func() { q.Groups[0].Needs.Memory++ },
			func() { q.Groups[0].Ports = append(q.Groups[0].Ports, 65535) },
			func() { q.Groups[0].FirstPorts = append(q.Groups[0].FirstPorts, 65535) },
			func() { q.Groups[0].Name += "x" },
			func() { q.Groups = q.Groups[1:] },
			func() { q.InOrder = !q.InOrder },
			func() { q.Retries++ },
			func() { q.TimeoutMS++ },
			func() { q.Done += "x" },
			func() { q.ReadyMS++ },
			func() { q.LivesMS++ },
			func() { q.Together = !q.Together },
			func() { q.GraceMS++ },
			func() { q.Stops = !q.Stops },
			func() { q.Hosts = nil },
			func() { q.Taskrunner = "t" },
			func() { q.Joins = "2" },
		}
		changes[int(which)%len(changes)]()
		if jobrequest.Hold(q, body) == nil {
			t.Fatalf("it holds another request (change %d): %+v", int(which)%len(changes), q)
		}
	})
}

// TestImages: each of a job's images counts once, whichever of its groups have it.
func TestImages(t *testing.T) {
	w, body := sent(t, "name: x\ngroups: [{name: r, image: i:2}, {name: s, image: i:1}, {name: u, image: i:2}]\n")
	all, err := jobrequest.Images(w)
	if err != nil || !slices.Equal(all, []string{"i:1", "i:2"}) {
		t.Errorf("%q, %v", all, err)
	}
	q := jobrequest.Request(w)
	q.Hosts = []string{"a"}
	if err := jobrequest.Hold(q, body); err != nil {
		t.Error(err)
	}
	w, _ = sent(t, "name: x\ncommand: a\n")
	if all, err := jobrequest.Images(w); err != nil || len(all) > 0 {
		t.Errorf("a job of processes: %q, %v", all, err)
	}
}
