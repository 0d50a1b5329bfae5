package swci_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// jobAPI is a swarm with hosts that keeps what was assigned. Each look at an assignment takes it to the next of its stages.
type jobAPI struct {
	taskAPI

	nodes       []*swarmv1.Node
	assigned    []*swarmv1.AssignTaskRequest
	assignments []*swarmv1.Assignment
	stages      []func(*swarmv1.Assignment)
	reasons     []string // of what was cancelled
	stuck       string   // ID of an assignment that can't be
	leftOut     uint32
}

func (j *jobAPI) ListNodes(context.Context) (*swarmv1.ListNodesResponse, error) {
	return &swarmv1.ListNodesResponse{Nodes: j.nodes}, nil
}

func (j *jobAPI) AssignTask(_ context.Context, q *connect.Request[swarmv1.AssignTaskRequest]) (*connect.Response[swarmv1.AssignTaskResponse], error) {
	m := proto.CloneOf(q.Msg)
	if err := ordered(m.GetOrder(), nil); err != nil {
		return nil, err
	}
	if t := j.board.Task(m.GetTask()); t == nil || !t.Final() || t.Digest != m.GetDigest() {
		return nil, travelling(exit.New(exit.Conflict, "", "task %s is not final, or of another digest", m.GetTask()))
	}
	j.assigned = append(j.assigned, m)
	a := &swarmv1.Assignment{
		Id: "7" + strings.Repeat("0", len(j.assigned)), Task: m.GetTask(), TaskType: task.RunJob, Digest: m.GetDigest(), Hosts: m.GetHosts(), Groups: m.GetGroups(), Retries: m.GetRetries(), Phase: "waiting", Wants: "hosts",
		By: "spiffe://a.example/swarm/swci", CreatedUnixMs: 3_000_000, ChangedUnixMs: 3_000_000,
	}
	j.assignments = append(j.assignments, a)
	return answer(&swarmv1.AssignTaskResponse{Assignment: a}, nil)
}

func (j *jobAPI) ListAssignments(context.Context, *connect.Request[swarmv1.ListAssignmentsRequest]) (*connect.Response[swarmv1.ListAssignmentsResponse], error) {
	res := &swarmv1.ListAssignmentsResponse{LeftOut: j.leftOut}
	for _, a := range j.assignments {
		a = proto.CloneOf(a)
		a.MemberCount, a.Members, a.Hosts = uint32(len(a.GetMembers())), nil, nil
		res.Assignments = append(res.Assignments, a)
	}
	return answer(res, nil)
}

func (j *jobAPI) GetAssignment(_ context.Context, q *connect.Request[swarmv1.GetAssignmentRequest]) (*connect.Response[swarmv1.GetAssignmentResponse], error) {
	i := slices.IndexFunc(j.assignments, func(a *swarmv1.Assignment) bool { return a.GetId() == q.Msg.GetId() })
	if i < 0 {
		return nil, travelling(exit.New(exit.NotFound, "", "no assignment %s", q.Msg.GetId()))
	}
	if len(j.stages) > 0 {
		j.stages[0](j.assignments[i])
		j.stages = j.stages[1:]
	}
	return answer(&swarmv1.GetAssignmentResponse{Assignment: proto.CloneOf(j.assignments[i])}, nil)
}

func (j *jobAPI) CancelAssignment(_ context.Context, q *connect.Request[swarmv1.CancelAssignmentRequest]) (*connect.Response[swarmv1.CancelAssignmentResponse], error) {
	i := slices.IndexFunc(j.assignments, func(a *swarmv1.Assignment) bool { return a.GetId() == q.Msg.GetId() })
	if err := ordered(q.Msg.GetOrder(), nil); err != nil || i < 0 {
		return nil, travelling(exit.New(exit.NotFound, "", "no order, or no assignment %s", q.Msg.GetId()))
	}
	a := j.assignments[i]
	if a.GetId() == j.stuck {
		return nil, travelling(exit.New(exit.Conflict, "", "it is stuck"))
	}
	a.Phase, a.Verdict, a.EndedUnixMs = "ending", "cancelled", 9_000
	j.reasons = append(j.reasons, q.Msg.GetReason())
	return answer(&swarmv1.CancelAssignmentResponse{Assignment: proto.CloneOf(a)}, nil)
}

// jobDir is a folder with a job of three members and its source.
func jobDir(t *testing.T, file string) string {
	t.Helper()
	dir := t.TempDir()
	err := os.Mkdir(filepath.Join(dir, "source"), 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "source", "a.py"), []byte("print(1)\n"), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "job.yaml"), []byte(file), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "job.yaml")
}

const aJob = "name: grid\nsource: source\ncommand: a.py\nreplicas: 2\nnetwork: host\nrestarts: 1\ntimeout: 1h\n"

// TestRunJobSignsWhatMembersNeed of their hosts.
func TestRunJobSignsWhatMembersNeed(t *testing.T) {
	api := &jobAPI{nodes: []*swarmv1.Node{swop("h-1", 1, "tr")}}
	api.nodes[0].Offer.Cpus, api.nodes[0].Offer.MemoryBytes = 2, 4e9
	out, beside, err := on(t, api, "", "--sn=h", "run", "job", jobDir(t, aJob), "--resources", "cpu=1.5,memory=2GB")
	if err != nil {
		t.Fatal(err)
	}
	want := &swarmv1.TaskGroup{Name: "node", Peers: 2, Least: 2, Needs: &swarmv1.Needs{MilliCpu: 1500, MemoryBytes: 2e9}}
	if got := api.assigned[0].GetGroups(); len(got) != 1 || !proto.Equal(got[0], want) || !strings.Contains(out, "resources  node: cpu=1.5,memory=2GB\n") || beside != "" {
		t.Errorf("it asks for %v, and says\n%s%s", got, out, beside)
	}
	_, beside, err = on(t, api, "", "--sn=h", "run", "job", jobDir(t, aJob), "--resources", "gpu=1")
	if want := "no host that may have it offers what a member of group node needs, gpu=1: the job waits until one does"; err != nil || !strings.Contains(beside, want) {
		t.Errorf("what no host has: %q, %v", beside, err)
	}
}

// TestRunJob: the task has the job as it is started, and what is signed is what the job comes to. Started again unchanged it is the same task.
func TestRunJob(t *testing.T) {
	dead, banned := swop("h-8", 1, "tr"), swop("h-9", 1, "tr")
	dead.Live, banned.Banned = false, true
	inContainers, older := swop("h-6", 1, "tr"), swop("h-7", 1, "tr")
	inContainers.Offer.Jobs, older.Offer.Jobs = "docker", ""
	api := &jobAPI{nodes: []*swarmv1.Node{swop("h-1", 1, "tr"), swop("h-0", 1, "other"), dead, banned, inContainers, older, {Name: "sl", Role: "sl", Live: true}}}
	file := jobDir(t, aJob)
	run := func(more ...string) (string, string) {
		t.Helper()
		out, beside, err := on(t, api, "", append([]string{"--sn=h", "run", "job", file}, more...)...)
		if err != nil {
			t.Fatalf("%v: %v", more, err)
		}
		return out, beside
	}
	out, beside := run("--replicas", "3", "-e", "A=1")
	q := api.assigned[0]
	want := &swarmv1.AssignTaskRequest{
		Id: q.GetId(), Task: q.GetTask(), Digest: q.GetDigest(), Hosts: []string{"h-0", "h-1"}, Groups: []*swarmv1.TaskGroup{{Name: "node", Peers: 3, Least: 3}}, Retries: 1, TimeoutMs: 3_600_000, ReadyMs: 600_000, GraceMs: 30_000,
		ExpiresUnixMs: 11_000 + 24*3_600_000, Order: q.GetOrder(),
	}
	if !proto.Equal(q, want) || beside != "" {
		t.Errorf("asked for %v, beside %q", q, beside)
	}
	for _, line := range []string{
		"job       grid\n", "changed   env.A is 1; the file has nothing\nchanged   replicas is 3; the file has 2\n", "group     node: 3, of which all have to succeed; a process, a.py\n", "source    a.py\n",
		"hosts     h-0 h-1\n", "expires   1970-01-02 00:00:11\n", "job grid is assigned to h-0 h-1, as assignment 70; see: swarmctl get job status grid\n",
	} {
		if !strings.Contains(out, line) {
			t.Errorf("%q is missing:\n%s", line, out)
		}
	}
	body := string(api.board.Task(q.GetTask()).Definition)
	if !strings.HasPrefix(body, "# changed: env.A is 1; the file has nothing\n# changed: replicas is 3; the file has 2\nname: grid\n") || !strings.HasSuffix(body, "\n--- source\n644 text 9 a.py\nprint(1)\n") {
		t.Errorf("its task:\n%s", body)
	}
	if _, _, err := on(t, api, "", "--sn=h", "assign", "task", q.GetTask(), "to", "tr", "with", "3", "peers"); exit.Code(err) != exit.Usage || exit.Hint(err) != "start the job: swarmctl run job FILE" {
		t.Errorf("to a taskrunner: %v", err)
	}
	edits := api.edits
	run("--replicas", "3", "-e", "A=1")
	if again := api.assigned[1]; again.GetTask() != q.GetTask() || api.edits != edits || len(api.board.Tasks) != 1 {
		t.Errorf("again it is %s, with %d tasks", again.GetTask(), len(api.board.Tasks))
	}
	if run(); api.assigned[2].GetTask() == q.GetTask() || !strings.HasPrefix(api.assigned[2].GetTask(), "grid.") {
		t.Errorf("another job has task %s", api.assigned[2].GetTask())
	}
}

// halfAPI is a swarm in which somebody writes a task, who has gone on to the end of it at the third look.
type halfAPI struct {
	jobAPI

	name  string
	whole []byte
	looks int
}

func (h *halfAPI) ListTasks(ctx context.Context, q *connect.Request[swarmv1.ListTasksRequest]) (*connect.Response[swarmv1.ListTasksResponse], error) {
	if h.looks++; h.looks == 3 && h.whole != nil {
		b, err := h.board.EditTask(h.name, 1, h.whole)
		if err != nil {
			return nil, err
		}
		h.board = b
	}
	return h.jobAPI.ListTasks(ctx, q)
}

// TestRunJobMendsItsTask: what was left half written is written anew, what somebody writes is waited for, and a final one with another body is left
// alone.
func TestRunJobMendsItsTask(t *testing.T) {
	file := jobDir(t, aJob)
	first := &jobAPI{nodes: []*swarmv1.Node{swop("h", 1, "tr")}}
	if _, _, err := on(t, first, "", "--sn=h", "run", "job", file); err != nil {
		t.Fatal(err)
	}
	name := first.assigned[0].GetTask()
	for _, tt := range []struct {
		what         string
		final        bool
		whole        []byte
		writes, runs bool
	}{
		{what: "left half written", writes: true, runs: true},
		{what: "being written", whole: first.board.Task(name).Definition, runs: true},
		{what: "final", final: true},
	} {
		b, err := (*task.Board)(nil).CreateTask(task.Task{Name: name, Type: task.RunJob, Prereq: task.Root})
		if err == nil {
			b, err = b.EditTask(name, 1, []byte("name: gri"))
		}
		if err == nil && tt.final {
			b, err = b.FinaliseTask(name, "", 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			api := &halfAPI{name: name, whole: tt.whole}
			api.nodes, api.board = first.nodes, b
			_, _, err := on(t, api, "", "--sn=h", "run", "job", file)
			if !tt.runs && (exit.Code(err) != exit.Conflict || err.Error() != "run job grid: make task "+name+": it stands there already with another body" || len(api.assigned) > 0) {
				t.Errorf("%s: %v", tt.what, err)
			}
			if tt.runs && (err != nil || api.assigned[0].GetDigest() != first.assigned[0].GetDigest() || (api.edits > 0) != tt.writes) {
				t.Errorf("%s: %v, written %d times", tt.what, err, api.edits)
			}
		})
	}
}

// TestRunJobPrunes: one's own tasks of the job that no assignment names go, unless they are new or the answer has no room for all assignments.
func TestRunJobPrunes(t *testing.T) {
	file := jobDir(t, aJob)
	for _, leftOut := range []uint32{0, 1} {
		api := &jobAPI{nodes: []*swarmv1.Node{swop("h", 1, "tr")}, leftOut: leftOut}
		for _, x := range []task.Task{
			{Name: "grid.00000001"},
			{Name: "grid.00000002"},
			{Name: "grid.00000003", CreatedMS: 2_900_000},
			{Name: "other.00000001"},
			{Name: "grid.00000004", By: "spiffe://a.example/swarm/swci/b"},
			{Name: "grid.x"},
			{Name: "grid.00000005", Type: task.PullImage},
		} {
			if x.Prereq = task.Root; x.By == "" {
				x.By = "spiffe://a.example/swarm/swci"
			}
			if x.Type == "" {
				x.Type = task.RunJob
			}
			b, err := api.board.CreateTask(x)
			if err != nil {
				t.Fatal(err)
			}
			api.board = b
		}
		api.assignments = []*swarmv1.Assignment{{Id: "6", Task: "grid.00000002", TaskType: task.RunJob, Phase: "over"}}
		before := api.board
		if _, beside, err := on(t, api, "", "--sn=h", "run", "job", file); err != nil || (beside == "swarmctl: deleted 1 older task of the job, of which no run is known: grid.00000001\n") != (leftOut == 0) {
			t.Errorf("%v, %d left out: beside %q", err, leftOut, beside)
		}
		api.board = before
		out, _, err := on(t, api, "", "--sn=h", "run", "job", file, "-o", "json")
		var got struct {
			Deleted []string `json:"deleted_tasks"`
		}
		if err == nil {
			err = json.Unmarshal([]byte(out), &got)
		}
		want := []string{"grid.00000001"}
		if leftOut > 0 {
			want = []string{}
		}
		if err != nil || !slices.Equal(got.Deleted, want) || (api.board.Task("grid.00000001") == nil) != (leftOut == 0) || api.board.Task("grid.00000003") == nil {
			t.Errorf("%v, %d left out: deleted %v", err, leftOut, got.Deleted)
		}
	}
}

func TestRunJobRefuses(t *testing.T) {
	for _, tt := range []struct {
		file, options, want string
		code                int
		warns               string
	}{
		{file: "name: x\n", want: "group node has neither a command", code: exit.Failed},
		{file: "name: x\ncommand: a.py\nnetwork: host\ngroups: [{name: a, hosts: [h-0]}, {name: b, hosts: [h-1]}]\n", want: "no host may have members of all groups", code: exit.Failed},
		{file: "name: x\ncommand: python3 -m a\nhosts: [h-O]\n", want: "run job x: the job is for host h-O, and no SWOP of the swarm is called so", code: exit.NotFound},
		{file: "name: x\ncommand: python3 -m a\nhosts: [h-1]\n", warns: "swarmctl: host h-1 does not take tasks now: nothing is placed there before it is back\n"},
		{file: "name: x\nimage: i:1\nhosts: [h-0]\n", warns: "swarmctl: host h-0 takes no jobs in containers: its SWOP has another --ml-runtime than docker, or is of an older version\n"},
		{file: aJob, options: "--expires 200h", want: "--expires 200h0m0s is not valid", code: exit.Usage},
	} {
		api := &jobAPI{nodes: []*swarmv1.Node{swop("h-0", 1, "tr"), swop("h-1", 1, "tr")}}
		api.nodes[1].Live = false
		_, beside, err := on(t, api, "", append([]string{"--sn=h", "run", "job", jobDir(t, tt.file)}, strings.Fields(tt.options)...)...)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || exit.Code(err) != tt.code || beside != tt.warns || (len(api.assigned) > 0) != (tt.want == "") {
			t.Errorf("%s: code %d, %v, beside %q", tt.file, exit.Code(err), err, beside)
		}
	}
	if _, _, err := on(t, &jobAPI{}, "", "--sn=h", "run", "job", jobDir(t, aJob)); exit.Code(err) != exit.Conflict || exit.Hint(err) != "start one: swarmd run-swop --ml-runtime process" {
		t.Errorf("no host: %v", err)
	}
}

// onHosts places members of a job.
func onHosts(epoch uint32, hosts ...string) func(*swarmv1.Assignment) {
	return func(a *swarmv1.Assignment) {
		a.Phase, a.Wants, a.Epoch, a.Members = "preparing", "", epoch, nil
		for i, h := range hosts {
			a.Members = append(a.Members, &swarmv1.AssignmentMember{Index: uint32(i), Node: h, Group: "node", Peers: 1, State: "placed", ChangedUnixMs: 5_000})
		}
	}
}

func becomes(member int, state string, code int32, said string) func(*swarmv1.Assignment) {
	return func(a *swarmv1.Assignment) {
		m := a.Members[member]
		a.Phase, m.State, m.Code, m.Text = "running", state, code, said
	}
}

func endsWith(verdict, reason string) func(*swarmv1.Assignment) {
	return func(a *swarmv1.Assignment) {
		a.Phase, a.Verdict, a.Reason, a.EndedUnixMs = "over", verdict, reason, 9_000
	}
}

// followedAPI is a swarm whose hosts hand out logs too.
type followedAPI struct {
	jobAPI

	logs logsAPI
}

// Logs implements fakeHosts.
func (f *followedAPI) Logs(t *testing.T, authority *rpctest.Authority) swarmv1connect.LogServiceHandler {
	t.Helper()
	return f.logs.Logs(t, authority)
}

// TestRunJobFollows says what becomes of a job, in the order in which it does, and ends as the job has.
func TestRunJobFollows(t *testing.T) {
	file := jobDir(t, aJob)
	const h0, h1 = "h-0/node/1: of 70\nh-0/node/0: loss 1\nh-0/node-2: which there is none\n", "h-1/node/1: of 70\nh-1/node/0: loss 1\nh-1/node-2: which there is none\n"
	for _, tt := range []struct {
		stages []func(*swarmv1.Assignment)
		want   []string
		out    string // the lines of members, sorted
		err    string
		code   int
	}{
		{
			stages: []func(*swarmv1.Assignment){
				func(*swarmv1.Assignment) {}, onHosts(1, "h-1", "h-0"), becomes(0, "ready", 0, ""), becomes(1, "ready", 0, ""), becomes(1, "exited", 0, ""), becomes(0, "exited", 0, ""),
				func(a *swarmv1.Assignment) { a.Phase, a.Verdict = "ending", "succeeded" }, endsWith("succeeded", "all members succeeded"),
			},
			want: []string{
				"waiting: hosts", "placed: h-0 has node/1; h-1 has node/0", "preparing", "1 of 2 members are ready", "running", "all members are ready", "node/1 h-0 exited with code 0", "node/0 h-1 exited with code 0",
				"ending: its members are ended", "job grid succeeded: all members succeeded",
			},
			out: h0 + h1,
		},
		{
			stages: []func(*swarmv1.Assignment){
				onHosts(1, "h-1", "h-0"), becomes(0, "exited", 3, "no CUDA"), onHosts(2, "h-0", "h-0"), becomes(1, "lost", 0, ""), endsWith("failed", "node/1 was lost"),
			},
			want: []string{
				"placed: h-0 has node/1; h-1 has node/0", "preparing", "node/0 h-1 exited with code 3: no CUDA", "running", "placed again, restart 1 of 1: h-0 has node/0 node/1", "preparing", "node/1 h-0 lost", "running",
			},
			out: h0 + h0 + h1, err: "job grid failed: node/1 was lost", code: exit.Failed,
		},
		{
			stages: []func(*swarmv1.Assignment){func(a *swarmv1.Assignment) { a.End = "no_capacity" }, endsWith("failed", "it found no hosts in 1h")},
			want:   []string{"waiting: hosts"}, err: "job grid failed: it found no hosts in 1h", code: exit.TimedOut,
		},
		{
			stages: []func(*swarmv1.Assignment){onHosts(1, "h-1", "h-2"), becomes(1, "refused", 0, "no jobs here"), endsWith("failed", "h-2 refused")}, // which has no log of it
			want:   []string{"placed: h-1 has node/0; h-2 has node/1", "preparing", "node/1 h-2 refused: no jobs here", "running"},
			out:    h1, err: "job grid failed: h-2 refused", code: exit.Failed,
		},
		{
			stages: []func(*swarmv1.Assignment){onHosts(1, "h-1", "h-2"), endsWith("cancelled", "")}, // over before anybody saw it run
			want:   []string{"placed: h-1 has node/0; h-2 has node/1", "preparing", "h-2 hands out no log: logs of this host do not go to spiffe://a.example/swarm/swci"},
			out:    h1, err: "job grid cancelled", code: exit.Failed,
		},
		{
			stages: []func(*swarmv1.Assignment){onHosts(1, "h-1", "h-1"), becomes(0, "ready", 0, ""), becomes(0, "stopped", -1, "no copy"), becomes(1, "stopped", -1, "none"), endsWith("succeeded", "it was there for 4h")},
			want: []string{
				"placed: h-1 has node/0 node/1", "preparing", "1 of 2 members are ready", "running", "node/0 h-1 was ended: no copy", "node/1 h-1 was ended: none",
			},
			out: h1, err: "job grid succeeded, and not all that it has left is where it was to be copied: node/0 h-1: no copy, and so of 1 other member", code: exit.Failed,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			api := &followedAPI{}
			api.nodes, api.stages = []*swarmv1.Node{swop("h-0", 1, "tr"), swop("h-1", 1, "tr")}, tt.stages
			out, beside, err := on(t, api, "", "--sn=h", "run", "job", file, "-f")
			want := "swarmctl: job grid began, as assignment 70\nswarmctl: " + strings.Join(tt.want, "\nswarmctl: ") + "\n"
			said := ""
			if err != nil {
				said = err.Error()
			}
			_, printed, _ := strings.Cut(out, "expires   1970-01-02 00:00:11\n")
			if beside != want || said != tt.err || exit.Code(err) != tt.code || sortedLines(printed) != sortedLines(tt.out) {
				t.Errorf("code %d, %v:\n%s\n%s", exit.Code(err), err, beside, printed)
			}
		})
	}
}

// crowdedAPI is a swarm whose hosts take a while to hand out their logs, or forever.
type crowdedAPI struct {
	jobAPI

	logs slowLogs
}

// Logs implements fakeHosts.
func (c *crowdedAPI) Logs(*testing.T, *rpctest.Authority) swarmv1connect.LogServiceHandler {
	return &c.logs
}

type slowLogs struct {
	swarmv1connect.UnimplementedLogServiceHandler

	forever bool

	mu        sync.Mutex
	now, most int // that are asked at a time
	asked     map[string]bool
}

func (s *slowLogs) ReadLogs(ctx context.Context, q *connect.Request[swarmv1.ReadLogsRequest]) (*connect.Response[swarmv1.ReadLogsResponse], error) {
	failed := travelling(exit.New(exit.Failed, "", "no log of it"))
	if q.Msg.GetDone() {
		return nil, failed
	}
	s.mu.Lock()
	if s.asked == nil {
		s.asked = map[string]bool{}
	}
	s.asked[q.Msg.GetPart().GetNode()] = true
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	if s.forever {
		<-ctx.Done()
	} else {
		time.Sleep(time.Second)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	return nil, failed
}

// TestRunJobReadsTheEndOfManyHosts: what members on more hosts than can be followed have printed is read in turns, as an SN keeps few requests of one
// operator, and not waited for longer than a while.
func TestRunJobReadsTheEndOfManyHosts(t *testing.T) {
	file := jobDir(t, aJob)
	for _, forever := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			api := &crowdedAPI{logs: slowLogs{forever: forever}}
			var hosts []string
			for i := range 20 {
				hosts = append(hosts, fmt.Sprintf("h-%d", i))
				api.nodes = append(api.nodes, swop(hosts[i], 1, "tr"))
			}
			api.stages = []func(*swarmv1.Assignment){onHosts(1, hosts...), becomes(0, "ready", 0, ""), endsWith("succeeded", "")}
			_, beside, err := on(t, api, "", "--sn=h", "run", "job", file, "-f")
			if err != nil || !strings.Contains(beside, "on too many hosts to follow all") || api.logs.most > 8 {
				t.Errorf("%d hosts asked at a time, %v: %s", api.logs.most, err, beside)
			}
			late := strings.Contains(beside, "swarmctl: not all that was printed last could be read: swarmctl get logs grid\n")
			if late != forever || !forever && len(api.logs.asked) != len(hosts) {
				t.Errorf("%d hosts were asked: %s", len(api.logs.asked), beside)
			}
		})
	}
}

func sortedLines(lines string) string {
	all := strings.SplitAfter(lines, "\n")
	slices.Sort(all)
	return strings.Join(all, "")
}

// TestJobStatus shows runs and members, and cancels.
func TestJobStatus(t *testing.T) {
	api := &jobAPI{}
	ran := func(id, name, kind, phase, verdict string) *swarmv1.Assignment {
		return &swarmv1.Assignment{Id: id, Task: name, TaskType: kind, Phase: phase, Verdict: verdict, By: "spiffe://a.example/swarm/swci", CreatedUnixMs: 6_000, ChangedUnixMs: 6_000}
	}
	api.assignments = []*swarmv1.Assignment{
		ran("5", "grid.0123abcd", "", "over", "failed"), ran("6", "train", task.RunSwarm, "running", ""), ran("7", "grid.0123abce", task.RunJob, "waiting", ""), ran("8", "other.0123abcd", task.RunJob, "over", "succeeded"),
	}
	api.assignments[0].Reason, api.assignments[0].End = "node/0 exited with code 3", "member_failed"
	onHosts(2, "h-1", "h-0", "h-0")(api.assignments[2])
	api.assignments[2].Retries = 4
	becomes(0, "ready", 0, "")(api.assignments[2])
	becomes(1, "exited", 3, "no CUDA\x1b[2J")(api.assignments[2])
	for _, tt := range []struct {
		words, out, err string
		code            int
	}{
		{words: "list jobs", out: "JOB    ASSIGNMENT  STATE    VERDICT    END            MEMBERS  WHO                            SINCE\n" +
			"grid   5           over     failed     member_failed  0        spiffe://a.example/swarm/swci  1970-01-01 00:00:06\n" +
			"grid   7           running  -          -              3        spiffe://a.example/swarm/swci  1970-01-01 00:00:06\n" +
			"other  8           over     succeeded  -              0        spiffe://a.example/swarm/swci  1970-01-01 00:00:06\n"},
		{words: "get job status grid", out: "job         grid\nassignment  7\ntask        grid.0123abce\nstate       running\nrestarts    1 of 4\nasked by    spiffe://a.example/swarm/swci\nbegan       1970-01-01 00:00:06\n\n" +
			"GROUP  RANK  HOST  STATE   READY  EXIT CODE  SINCE                SAYS\n" +
			"node   0     h-1   ready   yes    -          1970-01-01 00:00:05  -\n" +
			"node   1     h-0   exited  -      3          1970-01-01 00:00:05  no CUDA\n" +
			"node   2     h-0   placed  no     -          1970-01-01 00:00:05  -\n"},
		{words: "get job status grid --assignment 5", out: "job         grid\nassignment  5\ntask        grid.0123abcd\nstate       failed: node/0 exited with code 3\nend         member_failed\nasked by    spiffe://a.example/swarm/swci\nbegan       1970-01-01 00:00:06\n"},
		{words: "get job status grid --assignment 8", err: "get job status grid: assignment 8 is of task other.0123abcd, not of job grid", code: exit.NotFound},
		{words: "get job status train", err: "get job status train: no job of the name train was started, or it ended too long ago", code: exit.NotFound},
		{words: "cancel job other", err: "cancel job other: it has ended already: assignment 8 succeeded", code: exit.Conflict},
		{words: "cancel job train", err: "cancel job train: no job of the name train was started, or it ended too long ago", code: exit.NotFound},
		{words: "cancel job grid --assignment 8", err: "cancel job grid: no job of the name grid was started, or it ended too long ago", code: exit.NotFound},
		{words: "cancel job grid because wrong data", out: "job grid is cancelled, assignment 7 of spiffe://a.example/swarm/swci; its members are being ended\n"},
		{words: "cancel job grid", err: "cancel job grid: it has ended already: assignment 7 cancelled", code: exit.Conflict},
	} {
		out, beside, err := on(t, api, "", append([]string{"--sn=h"}, strings.Fields(tt.words)...)...)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if out != tt.out || beside != "" || said != tt.err || exit.Code(err) != tt.code {
			t.Errorf("%s: code %d, %v, %q\n%s", tt.words, exit.Code(err), err, beside, out)
		}
	}
	if !slices.Equal(api.reasons, []string{"wrong data"}) {
		t.Errorf("cancelled because %q", api.reasons)
	}
	api.assignments[0].Phase = "ending"
	if _, beside, err := on(t, api, "", "--sn=h", "get", "job", "status", "grid"); err != nil || beside != "swarmctl: of job grid 1 run before this one is not over: swarmctl list jobs\n" {
		t.Errorf("with two runs: %v, %q", err, beside)
	}
	out, _, err := on(t, api, "", "--sn=h", "-o", "json", "get", "job", "status", "grid")
	var got struct {
		Run     struct{ Verdict string }
		Members []struct {
			Rank     uint32
			Ready    bool
			ExitCode *int32 `json:"exit_code"`
		}
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &got)
	}
	if err != nil || got.Run.Verdict != "cancelled" || len(got.Members) != 3 || !got.Members[0].Ready || got.Members[0].ExitCode != nil || *got.Members[1].ExitCode != 3 {
		t.Errorf("%v, %+v", err, got)
	}
}

// TestJobStatusBesideAnSL: its members are the ranks from 1 on.
func TestJobStatusBesideAnSL(t *testing.T) {
	a := &swarmv1.Assignment{Id: "7", Task: "sl-1-ranks.0123abce", TaskType: task.RunJob, Beside: "sl-1", By: "spiffe://a.example/swarm/sl/sl-1"}
	onHosts(1, "h-1", "h-0")(a)
	api := &jobAPI{assignments: []*swarmv1.Assignment{a}}
	out, _, err := on(t, api, "", "--sn=h", "get", "job", "status", "sl-1-ranks")
	words := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{"beside SL sl-1, which runs rank 0 itself ", " node 1 h-1 ", " node 2 h-0 "} {
		if err != nil || !strings.Contains(words, want) {
			t.Errorf("%v, without %q:\n%s", err, want, out)
		}
	}
	out, _, err = on(t, api, "", "--sn=h", "-o", "json", "get", "job", "status", "sl-1-ranks")
	if err != nil || !strings.Contains(out, `"beside": "sl-1"`) || !strings.Contains(out, `"rank": 2`) || strings.Contains(out, `"rank": 0`) {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestRunJobPrintsPlainText: names of hosts are whatever an SN says.
func TestRunJobPrintsPlainText(t *testing.T) {
	api := &jobAPI{nodes: []*swarmv1.Node{swop("h\x1b[2J-0", 1, "tr")}}
	out, _, err := on(t, api, "", "--sn=h", "run", "job", jobDir(t, aJob))
	if err != nil || strings.Contains(out, "\x1b") || !strings.Contains(out, "job grid is assigned to h-0, as assignment 70;") {
		t.Errorf("%v, %q", err, out)
	}
}

// TestCancelJobEndsWhatItCan: one run that can't be ended is no reason to leave the others, or to say nothing of them; and whose runs are meant is said
// where several operators have started some.
func TestCancelJobEndsWhatItCan(t *testing.T) {
	api := &jobAPI{stuck: "1"}
	for _, id := range []string{"1", "2", "3"} {
		api.assignments = append(api.assignments, &swarmv1.Assignment{Id: id, Task: "grid.0123abcd", TaskType: task.RunJob, Phase: "running", By: "spiffe://a.example/swarm/swci"})
	}
	out, _, err := on(t, api, "", "--sn=h", "cancel", "job", "grid")
	if err == nil || err.Error() != "cancel job grid: assignment 1: it is stuck" || exit.Code(err) != exit.Conflict || strings.Count(out, "is cancelled") != 2 {
		t.Errorf("%v, %q", err, out)
	}
	for i, a := range api.assignments {
		a.Phase, a.Verdict, a.By = "running", "", fmt.Sprintf("spiffe://a.example/swarm/swci/%d", i)
	}
	out, _, err = on(t, api, "", "--sn=h", "cancel", "job", "grid")
	if exit.Code(err) != exit.Conflict || !strings.Contains(err.Error(), "1 of spiffe://a.example/swarm/swci/0, 2 of ") || exit.Hint(err) != "name one: swarmctl cancel job grid --assignment ID" || out != "" || len(api.reasons) != 2 {
		t.Errorf("of several operators: %v, %q", err, out)
	}
	if out, _, err = on(t, api, "", "--sn=h", "cancel", "job", "grid", "--assignment", "3"); err != nil || !strings.HasPrefix(out, "job grid is cancelled, assignment 3 of spiffe://a.example/swarm/swci/2;") {
		t.Errorf("one of them: %v, %q", err, out)
	}
}
