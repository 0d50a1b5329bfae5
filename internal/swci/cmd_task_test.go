package swci_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// taskAPI is a swarm with the tasks of a board. At full it takes no more lines.
type taskAPI struct {
	fakeAPI
	swarmv1connect.UnimplementedTaskServiceHandler

	board *task.Board
	full  bool
	edits int
	lies  func(res *swarmv1.GetTaskResponse) // changes what is shown of a task; nil: nothing
}

func shownTask(t *task.Task) *swarmv1.Task {
	return &swarmv1.Task{
		Name: t.Name, Type: t.Type, Author: t.Author, Prereq: t.Prereq, Outcome: t.Outcome, Status: t.Status(), Digest: t.Digest, By: t.By,
		CreatedUnixMs: t.CreatedMS, FinalisedUnixMs: t.FinalisedMS, Bytes: uint32(len(t.Definition)), PrereqDigest: t.PrereqDigest,
	}
}

// takes makes b, which a change of the board has yielded, the board.
func (a *taskAPI) takes(o *swarmv1.Order, b *task.Board, err error) error {
	if err := ordered(o, err); err != nil {
		var bad *task.Refusal
		if errors.As(err, &bad) {
			return travelling(exit.New(exit.Conflict, bad.Remedy, "%s", bad.Message))
		}
		return err
	}
	a.board = b
	return nil
}

func (a *taskAPI) CreateTask(_ context.Context, r *connect.Request[swarmv1.CreateTaskRequest]) (*connect.Response[swarmv1.CreateTaskResponse], error) {
	t := task.Task{Name: r.Msg.GetName(), Type: r.Msg.GetType(), Author: r.Msg.GetAuthor(), Prereq: r.Msg.GetPrereq(), Outcome: r.Msg.GetOutcome(), By: "spiffe://a.example/swarm/swci", CreatedMS: 3_000}
	b, err := a.board.CreateTask(t)
	if err := a.takes(r.Msg.GetOrder(), b, err); err != nil {
		return nil, err
	}
	return answer(&swarmv1.CreateTaskResponse{Task: shownTask(a.board.Task(t.Name))}, nil)
}

func (a *taskAPI) EditTask(_ context.Context, r *connect.Request[swarmv1.EditTaskRequest]) (*connect.Response[swarmv1.EditTaskResponse], error) {
	if a.full {
		return nil, travelling(exit.New(exit.Conflict, "delete some", "there is no room"))
	}
	a.edits++
	b, err := a.board.EditTask(r.Msg.GetName(), r.Msg.GetLine(), []byte(r.Msg.GetText()))
	if err := a.takes(r.Msg.GetOrder(), b, err); err != nil {
		return nil, err
	}
	return answer(&swarmv1.EditTaskResponse{Task: shownTask(a.board.Task(r.Msg.GetName()))}, nil)
}

func (a *taskAPI) FinaliseTask(_ context.Context, r *connect.Request[swarmv1.FinaliseTaskRequest]) (*connect.Response[swarmv1.FinaliseTaskResponse], error) {
	b, err := a.board.FinaliseTask(r.Msg.GetName(), r.Msg.GetDigest(), 4_000)
	if err := a.takes(r.Msg.GetOrder(), b, err); err != nil {
		return nil, err
	}
	return answer(&swarmv1.FinaliseTaskResponse{Task: shownTask(a.board.Task(r.Msg.GetName()))}, nil)
}

func (a *taskAPI) DeleteTask(_ context.Context, r *connect.Request[swarmv1.DeleteTaskRequest]) (*connect.Response[swarmv1.DeleteTaskResponse], error) {
	b, err := a.board.DeleteTask(r.Msg.GetName(), r.Msg.GetForce())
	return connect.NewResponse(&swarmv1.DeleteTaskResponse{}), a.takes(r.Msg.GetOrder(), b, err)
}

func (a *taskAPI) GetTask(_ context.Context, r *connect.Request[swarmv1.GetTaskRequest]) (*connect.Response[swarmv1.GetTaskResponse], error) {
	t := a.board.Task(r.Msg.GetName())
	if t == nil {
		return nil, travelling(exit.New(exit.NotFound, "see: swarmctl list tasks", "no such task"))
	}
	res := &swarmv1.GetTaskResponse{Task: shownTask(t), Definition: t.Definition, Digest: task.SumOn(a.board, t)}
	if a.lies != nil {
		a.lies(res)
	}
	return answer(res, nil)
}

func (a *taskAPI) ListTasks(context.Context, *connect.Request[swarmv1.ListTasksRequest]) (*connect.Response[swarmv1.ListTasksResponse], error) {
	out := []*swarmv1.Task{shownTask(a.board.Task(task.Root))}
	for _, name := range slices.Sorted(maps.Keys(a.board.Whole().Tasks)) {
		out = append(out, shownTask(a.board.Tasks[name]))
	}
	return answer(&swarmv1.ListTasksResponse{Tasks: out}, nil)
}

func (a *taskAPI) CreateTaskrunner(_ context.Context, r *connect.Request[swarmv1.CreateTaskrunnerRequest]) (*connect.Response[swarmv1.CreateTaskrunnerResponse], error) {
	b, err := a.board.CreateTaskrunner(r.Msg.GetName(), 5_000)
	made := &swarmv1.Taskrunner{Name: r.Msg.GetName(), Status: "IDLE", CreatedUnixMs: 5_000}
	return connect.NewResponse(&swarmv1.CreateTaskrunnerResponse{Taskrunner: made}), a.takes(r.Msg.GetOrder(), b, err)
}

func (a *taskAPI) DeleteTaskrunner(_ context.Context, r *connect.Request[swarmv1.DeleteTaskrunnerRequest]) (*connect.Response[swarmv1.DeleteTaskrunnerResponse], error) {
	b, err := a.board.DeleteTaskrunner(r.Msg.GetName())
	return connect.NewResponse(&swarmv1.DeleteTaskrunnerResponse{}), a.takes(r.Msg.GetOrder(), b, err)
}

func (a *taskAPI) ListTaskrunners(context.Context, *connect.Request[swarmv1.ListTaskrunnersRequest]) (*connect.Response[swarmv1.ListTaskrunnersResponse], error) {
	out := []*swarmv1.Taskrunner{{Name: task.DefaultTaskrunner, Status: "IDLE"}}
	for _, name := range slices.Sorted(maps.Keys(a.board.Whole().Taskrunners)) {
		out = append(out, &swarmv1.Taskrunner{Name: name, Status: "IDLE"})
	}
	return answer(&swarmv1.ListTaskrunnersResponse{Taskrunners: out}, nil)
}

// on runs one command on a swarm; stdin is what the prompt reads. What was said beside the answer is returned too.
func on(t *testing.T, swarm fake, stdin string, args ...string) (out, beside string, err error) {
	t.Helper()
	state := t.TempDir()
	var b, errs bytes.Buffer
	env := swci.Env{
		Stdin: strings.NewReader(stdin), Stdout: &b, Stderr: &errs,
		Getenv: func(k string) string {
			return map[string]string{"XDG_STATE_HOME": state, "SWARM_IDENTITY": "/run/agent.sock", "SWCI_TASK_MAX_WAIT_TIME": os.Getenv("SWCI_TASK_MAX_WAIT_TIME")}[k]
		},
		Now: func() time.Time { return time.UnixMilli(11_000) }, IsTerminal: func(io.Writer) bool { return false },
	}
	connect := func(context.Context, swci.Context) (client.Operator, func(), error) {
		return answering(t, swarm), func() {}, nil
	}
	err = swci.Execute(t.Context(), args, &swci.Session{Env: env, Connect: connect})
	return b.String(), errs.String(), err
}

// TestTaskCommands gives each command once, as a user of a shell does.
func TestTaskCommands(t *testing.T) {
	dir, api := t.TempDir(), &taskAPI{}
	files := map[string]string{
		"pull.yaml": pullFile, "odd.yaml": strings.Replace(pullFile, "Name: pull", "Name: x\nName: odd", 1),
		"bad.yaml": strings.Replace(pullFile, "Tag:", "Tagg:", 1), "unfilled.yaml": strings.Replace(pullFile, "OrgAndReg: o", "OrgAndReg: <PROJECT>", 1),
		"needs.yaml": strings.Replace(pullFile, "ROOTTASK", "pul", 1), "lost.yaml": strings.Replace(pullFile, "ROOTTASK", "elsewhere", 1),
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	const digest = "DIGEST"
	for _, tt := range []struct{ words, out, err string }{
		{"create task from pull.yaml", "task pull is registered, with 4 lines; fix it with: swarmctl finalize task pull\n", ""},
		{"create task from pull.yaml", "", "create task pull: there is a task pull already"},
		{"create task from bad.yaml", "", "create task: bad.yaml:9: unknown field Tagg in Body: did you mean Tag?"},
		{"create task from unfilled.yaml", "", "create task: unfilled.yaml:7: Body.OrgAndReg holds the placeholder <PROJECT>: put its value in"},
		{"create task from needs.yaml", "", `create task pull: needs.yaml:4: Prereq "pul" is no task of the swarm: did you mean pull?`},
		{"create task from lost.yaml", "", `create task pull: lost.yaml:4: Prereq "elsewhere" is no task of the swarm: create it first, or use ROOTTASK`},
		{"create task from none.yaml", "", "create task: open none.yaml: no such file or directory"},
		{"create task run_swarm run me pull none", "task run is registered, without a body\n", ""},
		{"create task run_swarm run2 me pul none", "", `create task run2: prerequisite "pul" is no task of the swarm`},
		{"create task run_swarm run2 me elsewhere none", "", "create task run2: task run2 needs task elsewhere, which does not exist"},
		{"create task RUN_SWARN run2 me pull none", "", `create task: task type "RUN_SWARN" is not known`},
		{"append task body run 1 - a -p --force", "task run has a line 1\n", ""},
		{"append task body run 0 x", "", `"0" is no number of a line`},
		{"append task body run 3 x", "", "append task body run: task run has 1 lines, so line 3 can't be written"},
		{"finalize task run", "", "finalize task run: its body can't be carried out: line 1: the file is a list: write its fields, one a line: Entrypoint, Command, WorkingDir, Envvars, PrivateContent, SharedContent"},
		{"get task body pull", "Auth : null\nOrgAndReg : o\nRepoName : app\nTag : 1\n", ""},
		{"finalize task pull", "task pull is finalised, with digest " + digest + "\n", ""},
		{"append task body pull 1 x", "", "append task body pull: task pull is finalised and can't be changed"},
		{"get task info pull", "name        pull\ntype        PULL_IMAGE\nauthor      a\nprereq      ROOTTASK\noutcome     o:1\nstate       FINALIZED\ndigest      " + digest + "\ncreated by  spiffe://a.example/swarm/swci\ncreated     1970-01-01 00:00:03\nfinalized   1970-01-01 00:00:04\n", ""},
		{"get task info none", "", "get task none: no such task"},
		{"list tasks", "NAME      TYPE        STATE       PREREQ    OUTCOME  AUTHOR\nROOTTASK  ROOT_TASK   finalized   ROOTTASK  -        HPE\npull      PULL_IMAGE  finalized   ROOTTASK  o:1      a\nrun       RUN_SWARM   registered  pull      none     me\n", ""},
		{"delete task pull", "", "delete task pull: task pull is finalised"},
		{"delete task run", "task run is deleted\n", ""},
		{"delete task pull force", "task pull is deleted\n", ""},
		{"create taskrunner tr", "taskrunner tr is idle\n", ""},
		{"list taskrunners", "NAME                          STATE\ndefaulttaskbb.taskdb.sml.hpe  idle\ntr                            idle\n", ""},
		{"delete taskrunner tr", "taskrunner tr is deleted\n", ""},
	} {
		before := ""
		if p := api.board.Task("pull"); p != nil {
			before = p.Sum()
		}
		out, beside, err := on(t, api, "", append([]string{"--sn=10.0.0.1"}, strings.Fields(tt.words)...)...)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if want := strings.ReplaceAll(tt.out, digest, before); out != want || said != tt.err || beside != "" {
			t.Errorf("%s: got %v %s\n%s\nwant %s\n%s", tt.words, err, beside, out, tt.err, want)
		}
	}
	if _, beside, err := on(t, api, "", "create", "task", "from", "odd.yaml", "--sn=h"); err != nil || beside != "swarmctl: warning: odd.yaml:2: Name stands in line 1 too: this one holds\n" {
		t.Errorf("got %v, %q", err, beside)
	}
	api.full = true
	if _, _, err := on(t, api, "", "create", "task", "from", "pull.yaml", "--sn=h"); err == nil || err.Error() != "create task pull: write its body: there is no room" || api.board.Task("pull") != nil {
		t.Errorf("got %v; the task: %v", err, api.board.Task("pull"))
	}
}

// TestTasksInTheOriginalsWords as its scripts and its Python class read them.
func TestTasksInTheOriginalsWords(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.yaml"), []byte(pullFile), 0o600); err != nil {
		t.Fatal(err)
	}
	api := &taskAPI{}
	commands := []string{
		"create task from /platform/swarm/usr/x.yaml",
		"GET TASK BODY pull",
		"CREATE TASK RUN_SWARM x me pull none",
		"APPEND TASK BODY x 1 Command : a.py --lr 1 -p",
		`APPEND TASK BODY x 1 "  Command : 'a  b'"`,
		"get task body x",
		"FINALIZE TASK pull",
		"LIST TASKS",
		"DELETE TASK x",
		"CREATE TASKRUNNER tr",
		"LIST TASKRUNNERS",
		"EXIT",
	}
	transcript, _, err := on(t, api, strings.Join(commands, "\n")+"\n", "run-swci", "--sn=10.0.0.1", "--usr-dir", dir)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"Task definition is valid", "Task Registered : pull", "Appending Task Body", "batch start : 1 , len : 4 Successful"},
		{"0000: ---", "0001: Auth : null", "0002: OrgAndReg : o", "0003: RepoName : app", "0004: Tag : 1"},
		{"Task Registered : x"},
		{"Appending Task Body", "batch start : 1 , len : 1 Successful"},
		{"Appending Task Body", "batch start : 1 , len : 1 Successful"},
		{"0000: ---", "0001:   Command : 'a  b'"},
		{"Task Finalized : pull"},
		{"ROOTTASK", "pull", "x"},
		{"Task Deleted : x"},
		{"TASKRUNNER CREATED : tr"},
		{"defaulttaskbb.taskdb.sml.hpe", "tr"},
		nil,
	}
	var got [][]string
	for _, r := range answers(t, transcript, commands) {
		got = append(got, r.lines)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s\n%s", d, transcript)
	}
}

// A body that is too large for one request is written in several.
func TestLargeTasksAreWrittenInBatches(t *testing.T) {
	file := filepath.Join(t.TempDir(), "large.yaml")
	data := "Name: large\nTaskType: MAKE_USER_CONTAINER\nAuthor: a\nPrereq: ROOTTASK\nOutcome: o\nBody:\n  BuildContext: null\n  BuildType: INLINE\n  BuildSteps:\n" +
		strings.Repeat("  - RUN "+strings.Repeat("<x>", 50)+"\n", 900)
	if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	api := &taskAPI{}
	if _, _, err := on(t, api, "", "create", "task", "from", file, "--sn=h"); err != nil {
		t.Fatal(err)
	}
	if got := api.board.Task("large"); api.edits != 5 || strings.Count(string(got.Definition), "\n") != 903 {
		t.Errorf("%d requests, %d bytes", api.edits, len(got.Definition))
	}
}

// TestTaskInfoOfAJobBesideAnSL says which SL that is, also before the task is final.
func TestTaskInfoOfAJobBesideAnSL(t *testing.T) {
	const body = "name: x\nframework: pytorch\ncommand: [a.py]\nnetwork: host\nbeside: {sl: sl-1, address: 10.0.0.9, port: 29401, epoch: 1}\n"
	for taskType, sl := range map[string]string{task.RunJob: "sl-1", task.PullImage: ""} {
		b, err := (*task.Board)(nil).CreateTask(task.Task{Name: "x", Type: taskType, Prereq: task.Root})
		if err == nil {
			b, err = b.EditTask("x", 1, []byte(body))
		}
		if err != nil {
			t.Fatal(err)
		}
		api := &taskAPI{board: b}
		out, _, err := on(t, api, "", "--sn=h", "get", "task", "info", "x")
		if says := strings.Contains(out, "\nbeside  SL sl-1, which runs rank 0 itself and awaits the others at 10.0.0.9:29401\n"); err != nil || says != (sl != "") {
			t.Errorf("%s: %v\n%s", taskType, err, out)
		}
		out, _, err = on(t, api, "", "--sn=h", "-o", "json", "get", "task", "info", "x")
		if err != nil || !strings.Contains(out, fmt.Sprintf(`"beside": %q`, sl)) || !strings.Contains(out, `"name": "x"`) {
			t.Errorf("%s: %v\n%s", taskType, err, out)
		}
	}
}
