package swci_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// approvalAPI is a swarm with assignments, some of which wait on hosts.
type approvalAPI struct {
	taskAPI

	other  string // digest of the task of assignment 8; empty: what it is
	beside string // beside which SL the SN says that assignment 8 is
	said   []string
}

// approvals is a swarm that has the tasks pull and run.
func approvals(t *testing.T) *approvalAPI {
	t.Helper()
	a := &approvalAPI{}
	a.board = signedTasks(t)
	return a
}

// digest is that of a task.
func (a *approvalAPI) digest(name string) string { return a.board.Task(name).Digest }

// signedTasks are an image, and a program that runs in it.
func signedTasks(t *testing.T) *task.Board {
	t.Helper()
	b, err := (*task.Board)(nil).CreateTask(task.Task{Name: "pull", Type: task.PullImage, Author: "ann", Prereq: task.Root, Outcome: "o/app:1"})
	for _, step := range []func() (*task.Board, error){
		func() (*task.Board, error) {
			return b.EditTask("pull", 1, []byte("Auth : null\nOrgAndReg : o\nRepoName : app\nTag : 1"))
		},
		func() (*task.Board, error) { return b.FinaliseTask("pull", "", 1) },
		func() (*task.Board, error) {
			return b.CreateTask(task.Task{Name: "run", Type: task.RunSwarm, Author: "bob", Prereq: "pull", Outcome: "none"})
		},
		func() (*task.Board, error) {
			return b.EditTask("run", 1, []byte("Command : train.py -v\nEntrypoint : python3\nEnvvars : [A: 1]\nPrivateContent : /data\nSharedContent : null\nWorkingDir : /w"))
		},
		func() (*task.Board, error) { return b.FinaliseTask("run", "", 2) },
	} {
		if err == nil {
			b, err = step()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// assignments are four of two tasks: 7 and 9 wait on h-0, 8 and 9 on h-1, and 6 has ended.
func (a *approvalAPI) assignments() []*swarmv1.Assignment {
	made := func(id, task, verdict string, members ...*swarmv1.AssignmentMember) *swarmv1.Assignment {
		digest := a.digest(task)
		if id == "8" && a.other != "" {
			digest = a.other
		}
		beside := ""
		if id == "8" {
			beside = a.beside
		}
		return &swarmv1.Assignment{
			Beside: beside, Id: id, Task: task, Digest: digest, Taskrunner: "tr-" + id, By: "spiffe://a.example/swarm/swci/ann\x1b[2J", ExpiresUnixMs: 86_400_000, Verdict: verdict, Members: members,
		}
	}
	on := func(node, state string) *swarmv1.AssignmentMember {
		m := &swarmv1.AssignmentMember{Node: node, State: state, ChangedUnixMs: 9_000}
		if state == "asked" {
			m.Text = "waits for approval; image sha256:1 (o/app:1)"
		}
		return m
	}
	return []*swarmv1.Assignment{
		made("6", "pull", "failed", on("h-0", "asked")), made("7", "pull", "", on("h-0", "asked"), on("h-1", "prepared")), made("8", "run", "", on("h-1", "asked")),
		made("9", "pull", "", on("h-0", "placed"), on("h-1", "asked")),
	}
}

func (a *approvalAPI) ListAssignments(context.Context, *connect.Request[swarmv1.ListAssignmentsRequest]) (*connect.Response[swarmv1.ListAssignmentsResponse], error) {
	all := a.assignments()
	for _, x := range all {
		x.Members = nil
	}
	return answer(&swarmv1.ListAssignmentsResponse{Assignments: all}, nil)
}

func (a *approvalAPI) GetAssignment(_ context.Context, r *connect.Request[swarmv1.GetAssignmentRequest]) (*connect.Response[swarmv1.GetAssignmentResponse], error) {
	all := a.assignments()
	i := slices.IndexFunc(all, func(x *swarmv1.Assignment) bool { return x.GetId() == r.Msg.GetId() })
	return answer(&swarmv1.GetAssignmentResponse{Assignment: all[i]}, nil)
}

// hear notes what was signed: of all but assignment 9 on h-1, where there is no room.
func (a *approvalAPI) hear(what string, p *swarmv1.PartOfHost, o *swarmv1.Order) error {
	if p.GetAssignment() == "9" && p.GetHost() == "h-1" {
		return travelling(exit.New(exit.Conflict, "cancel the assignment", "4 operators have said so already"))
	}
	if p.GetTaskrunner() != "tr-"+p.GetAssignment() || p.GetDigest() != a.digest(p.GetTask()) || p.GetExpiresUnixMs() != 86_400_000 {
		what += " otherwise"
	}
	if p.GetImage() != "" {
		what += " of " + p.GetImage()
	}
	a.said = append(a.said, what+" "+p.GetAssignment()+" "+p.GetTask()+" "+p.GetHost())
	return ordered(o, nil)
}

func (a *approvalAPI) ApproveTask(_ context.Context, r *connect.Request[swarmv1.ApproveTaskRequest]) (*connect.Response[swarmv1.ApproveTaskResponse], error) {
	return connect.NewResponse(&swarmv1.ApproveTaskResponse{}), a.hear("approve", r.Msg.GetPart(), r.Msg.GetOrder())
}

func (a *approvalAPI) RefuseTask(_ context.Context, r *connect.Request[swarmv1.RefuseTaskRequest]) (*connect.Response[swarmv1.RefuseTaskResponse], error) {
	return connect.NewResponse(&swarmv1.RefuseTaskResponse{}), a.hear("refuse ("+r.Msg.GetReason()+")", r.Msg.GetPart(), r.Msg.GetOrder())
}

// TestApproveAndRefuse: what waits is shown, and each of it signed by its ID.
func TestApproveAndRefuse(t *testing.T) {
	api := approvals(t)
	pull, digest := api.digest("pull"), api.digest("run")
	facts := map[string]string{
		"pull": "task    pull\ntype    PULL_IMAGE\nauthor  ann\ndigest  " + pull + "\nimage   o/app:1\n",
		"run": "task         run\ntype         RUN_SWARM\nauthor       bob\ndigest       " + digest + "\nimage        o/app:1, of task pull\ncommand      python3 train.py -v\n" +
			"working dir  /w\nenvvar       A=1\nmount        the node's private data at /data\nneeds        task pull, PULL_IMAGE, digest " + pull + "\n",
	}
	const waits = "waits for approval; image sha256:1 (o/app:1)\n"
	line := func(id, task, done string) string {
		return "assignment " + id + " of task " + task + ", digest " + api.digest(task) + ", asked for by spiffe://a.example/swarm/swci/ann, valid until 1970-01-02 00:00:00\n" +
			map[string]string{"7": "h-0 says: " + waits, "8": "h-1 says: " + waits}[id] + done + "\n"
	}
	for _, tt := range []struct {
		words, out, err string
		said            []string
	}{
		{"approve task pull on h-0", facts["pull"] + line("7", "pull", "approved on h-0") + line("9", "pull", "approved on h-0"), "", []string{"approve 7 pull h-0", "approve 9 pull h-0"}},
		{"APPROVE TASK run ON h-1", facts["run"] + line("8", "run", "approved on h-1"), "", []string{"approve 8 run h-1"}},
		{"refuse task run on h-1 because it is late", facts["run"] + line("8", "run", "refused on h-1"), "", []string{"refuse (it is late) 8 run h-1"}},
		{"refuse task run on h-1", facts["run"] + line("8", "run", "refused on h-1"), "", []string{"refuse () 8 run h-1"}},
		{"--digest " + digest + " approve task run on h-1", facts["run"] + line("8", "run", "approved on h-1"), "", []string{"approve 8 run h-1"}},
		{"approve task run on h-1 --image sha256:" + digest, facts["run"] + line("8", "run", "approved on h-1"), "", []string{"approve of sha256:" + digest + " 8 run h-1"}},
		{"approve task run on h-1 --image pull:1", "", "approve task: --image pull:1 is no digest of an image: give it as the host tells it: sha256: and 64 hex digits", nil},
		{"approve task run on h-1 --digest 00", "", "approve task run on h-1: assignment 8 is of a task with the digest " + digest + ", not 00: read the task again: swarmctl get task body run", nil},
		{"approve task run on h-0", "", "approve task run on h-0: nothing of task run waits on h-0: it waits on h-1", nil},
		{"approve task pull on h-9", "", "approve task pull on h-9: nothing of task pull waits on h-9: it waits on h-0, h-1", nil},
		{"refuse task x on h-0", "", "refuse task x on h-0: nothing of task x waits on any host: see what waits: swarmctl list approvals", nil},
		{"approve task pull on h-1", facts["pull"] + strings.TrimSuffix(line("9", "pull", ""), "\n") + "h-1 says: " + waits, "approve assignment 9 on h-1: 4 operators have said so already: cancel the assignment", nil},
	} {
		api := approvals(t)
		out, beside, err := on(t, api, "", append([]string{"--sn=10.0.0.1"}, strings.Fields(tt.words)...)...)
		said := ""
		if err != nil {
			said = strings.TrimSuffix(err.Error()+": "+exit.Hint(err), ": ")
		}
		if d := cmp.Diff(tt.said, api.said); out != tt.out || said != tt.err || beside != "" || d != "" {
			t.Errorf("%s: got %v %s\n%s\nwant %s\n%s\n%s", tt.words, said, beside, out, tt.err, tt.out, d)
		}
	}
	out, _, err := on(t, approvals(t), "", "-o", "json", "--sn=h", "refuse", "task", "run", "on", "h-1", "because", "x")
	want := `{
  "task": "run",
  "host": "h-1",
  "refused": true,
  "reason": "x",
  "assignments": [
    {
      "id": "8",
      "digest": "` + digest + `",
      "taskrunner": "tr-8",
      "beside": "",
      "by": "spiffe://a.example/swarm/swci/ann\u001b[2J",
      "expires": "1970-01-02T00:00:00.000Z"
    }
  ]
}
`
	if err != nil || out != want {
		t.Errorf("%v, got\n%s", err, out)
	}
}

// TestApproveBesideAnSL: beside which SL a job is stands in what was signed, and an SN that says otherwise has nothing signed.
func TestApproveBesideAnSL(t *testing.T) {
	for _, tt := range []struct{ body, says, err string }{
		{"beside: {sl: sl-1, address: 10.0.0.9, port: 29400}", "sl-1", ""},
		{"beside: {sl: sl-1, address: 10.0.0.9, port: 29400}", "sl-2", `beside SL "sl-2", and the task that was signed is beside "sl-1": nothing is signed`},
		{"beside: {sl: sl-1, address: 10.0.0.9, port: 29400}", "", `beside SL "", and the task that was signed is beside "sl-1": nothing is signed`},
		{"restarts: 0", "sl-1", `beside SL "sl-1", and the task that was signed is beside "": nothing is signed`},
	} {
		api := approvals(t)
		b, err := api.board.DeleteTask("run", true)
		for _, step := range []func() (*task.Board, error){
			func() (*task.Board, error) {
				return b.CreateTask(task.Task{Name: "run", Type: task.RunJob, Author: "bob", Prereq: task.Root})
			},
			func() (*task.Board, error) {
				return b.EditTask("run", 1, []byte("name: x\nframework: pytorch\nnetwork: host\ncommand: train.py\n"+tt.body))
			},
			func() (*task.Board, error) { return b.FinaliseTask("run", "", 2) },
		} {
			if err == nil {
				b, err = step()
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		api.board, api.beside = b, tt.says
		for _, verb := range []string{"approve", "refuse"} {
			api.said = nil
			out, _, err := on(t, api, "", "-o", "json", "--sn=h", verb, "task", "run", "on", "h-1")
			if tt.err == "" {
				if err != nil || len(api.said) != 1 || !strings.Contains(out, `"beside": "sl-1"`) {
					t.Errorf("%s: %v, signed %q, got\n%s", verb, err, api.said, out)
				}
			} else if err == nil || !strings.Contains(err.Error(), tt.err) || len(api.said) > 0 {
				t.Errorf("%s, the SN says %q: %v, signed %q; want %s", verb, tt.says, err, api.said, tt.err)
			}
		}
	}
}

// TestListApprovals: what waits for operators is what hosts have said so of.
func TestListApprovals(t *testing.T) {
	api := approvals(t)
	out, _, err := on(t, api, "", "--sn=h", "list", "approvals")
	row := func(task, host, digest string) string {
		return task + strings.Repeat(" ", 6-len(task)) + host + "   " + digest + "  spiffe://a.example/swarm/swci/ann  1970-01-01 00:00:09  1970-01-02 00:00:00\n"
	}
	want := "TASK  HOST  DIGEST" + strings.Repeat(" ", 60) + "ASKED BY                           SINCE                EXPIRES\n" +
		row("pull", "h-0", api.digest("pull")) + row("run", "h-1", api.digest("run")) + row("pull", "h-1", api.digest("pull"))
	if err != nil || out != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, out, want)
	}
	out, _, err = on(t, api, "", "--sn=h", "list", "approvals", "-o", "json")
	var got struct{ Approvals []map[string]string }
	if json.Unmarshal([]byte(out), &got) != nil || err != nil || len(got.Approvals) != 3 {
		t.Fatalf("%v, got\n%s", err, out)
	}
	one := map[string]string{
		"assignment": "8", "task": "run", "task_type": "", "digest": api.digest("run"), "taskrunner": "tr-8", "host": "h-1", "beside": "", "by": "spiffe://a.example/swarm/swci/ann\x1b[2J",
		"since": "1970-01-01T00:00:09.000Z", "expires": "1970-01-02T00:00:00.000Z", "text": "waits for approval; image sha256:1 (o/app:1)",
	}
	if d := cmp.Diff(one, got.Approvals[1]); d != "" {
		t.Error(d)
	}
}
