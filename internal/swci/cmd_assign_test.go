package swci_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// runnerAPI is a swarm with hosts and one taskrunner. Each look at the taskrunner shows the next of its assignments, and the last one for ever.
type runnerAPI struct {
	taskAPI

	nodes  []*swarmv1.Node
	shows  []*swarmv1.Assignment
	joined []*swarmv1.Assignment // those that join the assignment
	asked  []*swarmv1.AssignTaskRequest
	resets int
	downs  int // so many looks find no SN that leads
}

func (r *runnerAPI) ListNodes(context.Context) (*swarmv1.ListNodesResponse, error) {
	return &swarmv1.ListNodesResponse{Nodes: r.nodes}, nil
}

func (r *runnerAPI) AssignTask(_ context.Context, q *connect.Request[swarmv1.AssignTaskRequest]) (*connect.Response[swarmv1.AssignTaskResponse], error) {
	m := proto.CloneOf(q.Msg)
	if err := ordered(m.GetOrder(), nil); err != nil || m.GetId() == "" {
		return nil, travelling(exit.New(exit.Denied, "", "no order, or no ID"))
	}
	m.Order, m.Id = nil, ""
	r.asked = append(r.asked, m)
	return answer(&swarmv1.AssignTaskResponse{Assignment: &swarmv1.Assignment{Id: q.Msg.GetId(), Task: m.GetTask(), Taskrunner: m.GetTaskrunner(), Groups: m.GetGroups(), Phase: "waiting", Status: "ASSIGNED"}}, nil)
}

func (r *runnerAPI) GetTaskrunner(_ context.Context, q *connect.Request[swarmv1.GetTaskrunnerRequest]) (*connect.Response[swarmv1.GetTaskrunnerResponse], error) {
	if len(r.shows) == 1 && r.downs > 0 {
		r.downs--
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("no leader"))
	}
	if q.Msg.GetName() != "tr" {
		return nil, travelling(exit.New(exit.NotFound, "see: swarmctl list taskrunners", "no taskrunner %s", q.Msg.GetName()))
	}
	res := &swarmv1.GetTaskrunnerResponse{Taskrunner: &swarmv1.Taskrunner{Name: "tr", Status: "IDLE", CreatedUnixMs: 5_000}}
	if len(r.shows) > 0 {
		res.Assignment, res.Joined = r.shows[0], r.joined
		res.Taskrunner.Status = r.shows[0].GetStatus()
		if len(r.shows) > 1 {
			r.shows = r.shows[1:]
		}
	}
	return answer(res, nil)
}

func (r *runnerAPI) ResetTaskrunner(_ context.Context, q *connect.Request[swarmv1.ResetTaskrunnerRequest]) (*connect.Response[swarmv1.ResetTaskrunnerResponse], error) {
	r.resets++
	if n := len(r.shows); n == 1 && r.shows[0].GetPhase() == "over" {
		r.shows = nil
	}
	return connect.NewResponse(&swarmv1.ResetTaskrunnerResponse{Taskrunner: &swarmv1.Taskrunner{Name: "tr"}}), ordered(q.Msg.GetOrder(), nil)
}

func swop(name string, peers uint32, taskrunner string) *swarmv1.Node {
	return &swarmv1.Node{Name: name, Role: "swop", PeerId: "12D3" + name, Live: true, Offer: &swarmv1.Offer{Taskrunner: taskrunner, Peers: peers, Jobs: "process"}}
}

// at is an assignment of one host in a phase.
func at(phase, verdict, status string) *swarmv1.Assignment {
	a := &swarmv1.Assignment{
		Id: "77", Task: "run", TaskType: task.RunSwarm, Taskrunner: "tr", Phase: phase, Verdict: verdict, Status: status, CreatedUnixMs: 6_000, ChangedUnixMs: 7_000,
		Groups: []*swarmv1.TaskGroup{{Name: "peers", Peers: 2, Least: 2}}, ActivePeers: 2,
		Members: []*swarmv1.AssignmentMember{{Index: 0, Node: "h-0", PeerId: "12D3h-0", Group: "peers", Peers: 2, State: "started", Status: "RUNNING", ChangedUnixMs: 7_000}},
	}
	if verdict != "" {
		a.EndedUnixMs, a.ActivePeers = 8_000, 0
	}
	switch verdict {
	case "succeeded":
		a.CompletedPeers = 2
	case "failed":
		a.FailedPeers, a.Reason = 2, "h-0 exited with code 3: no CUDA, no fun"
		a.Members[0].State, a.Members[0].Status, a.Members[0].Code, a.Members[0].Text = "exited", "ERROR", 3, "no CUDA, no fun"
	}
	return a
}

// trainedAPI is a swarm whose contract is completed, which some may not read.
type trainedAPI struct {
	runnerAPI

	denied bool
}

func (a *trainedAPI) ListContracts(context.Context) (*swarmv1.ListContractsResponse, error) {
	if a.denied {
		denied := connect.NewError(connect.CodePermissionDenied, errors.New("no"))
		if detail, err := connect.NewErrorDetail(&swarmv1.ErrorReason{Reason: "NO_RIGHT"}); err == nil {
			denied.AddDetail(detail)
		}
		return nil, denied
	}
	return &swarmv1.ListContractsResponse{Contracts: []*swarmv1.ContractSummary{{Name: "defaultbb.cqdb.sml.hpe", Phase: "completed"}}}, nil
}

// TestAssignWarnsOfACompletedContract, and assigns the task, as its program may have another one in mind.
func TestAssignWarnsOfACompletedContract(t *testing.T) {
	for taskType, want := range map[string]string{task.RunSwarm: "swarmctl reset contract defaultbb.cqdb.sml.hpe", task.PullImage: ""} {
		for _, denied := range []bool{false, true} {
			api := &trainedAPI{denied: denied}
			api.nodes, api.board = []*swarmv1.Node{swop("h-0", 1, "tr")}, board(t, taskType)
			_, beside, err := on(t, api, "", strings.Fields("--sn=h assign task run to tr with 1 peers")...)
			if err != nil || len(api.asked) != 1 || strings.Contains(beside, "is completed") != (want != "" && !denied) || !denied && !strings.Contains(beside, want) {
				t.Errorf("%s, denied %v: %v, beside %q", taskType, denied, err, beside)
			}
		}
	}
}

// board has a finalised task of a type.
func board(t *testing.T, taskType string) *task.Board {
	t.Helper()
	b, err := (*task.Board)(nil).CreateTask(task.Task{Name: "run", Type: taskType, Author: "a", Prereq: task.Root, Outcome: "o"})
	if err == nil {
		b, err = b.EditTask("run", 1, []byte("Tag : 1"))
	}
	if err == nil {
		b, err = b.FinaliseTask("run", "", 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAssignTask(t *testing.T) {
	dead, banned := swop("h-8", 1, "tr"), swop("h-9", 1, "tr")
	dead.Live, banned.Banned = false, true
	nodes := []*swarmv1.Node{swop("h-1", 2, "tr"), swop("h-0", 3, "tr"), swop("h-2", 1, "other"), dead, banned, {Name: "sl-0", Role: "sl", Live: true}}
	for _, tt := range []struct {
		words, taskType string
		hosts           []string
		peers           uint32
		beside          string
	}{
		{"with 4 peers", task.RunSwarm, nil, 4, ""},
		{"WITH 9 PEERS", task.RunSwarm, nil, 9, "swarmctl: only 5 of 9 peers take tasks from taskrunner tr: it waits for more\n"},
		{"with all peers", task.RunSwarm, []string{"h-0", "h-1"}, 5, ""},
		{"With All Peers", task.PullImage, []string{"h-0", "h-1"}, 2, ""},
		{"target h-1", task.RunSwarm, []string{"h-1"}, 2, ""},
		{"TARGET 12D3h-0", task.PullImage, []string{"h-0"}, 1, ""},
	} {
		api := &runnerAPI{nodes: nodes}
		api.board = board(t, tt.taskType)
		out, beside, err := on(t, api, "", append(strings.Fields("--sn=h --time-limit 1h --retries 2 assign task run TO tr"), strings.Fields(tt.words)...)...)
		if err != nil || beside != tt.beside || !strings.Contains(out, "task run is assigned to") || len(api.asked) != 1 {
			t.Errorf("%s: %v\n%s%s", tt.words, err, out, beside)
			continue
		}
		want := &swarmv1.AssignTaskRequest{
			Task: "run", Digest: api.board.Task("run").Digest, Taskrunner: "tr", Hosts: tt.hosts, Groups: []*swarmv1.TaskGroup{{Name: "peers", Peers: tt.peers, Least: tt.peers}},
			ExpiresUnixMs: 11_000 + 24*3600_000, TimeoutMs: 3600_000, Retries: 2,
		}
		if d := cmp.Diff(want, api.asked[0], protocmp.Transform()); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.words, d)
		}
	}
	api := &runnerAPI{nodes: nodes}
	var err error
	if api.board, err = board(t, task.RunSwarm).CreateTask(task.Task{Name: "open", Type: task.PullImage, Author: "a", Prereq: "run"}); err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]string{
		"run to tr with 1 peers --expires 169h": "--expires 169h0m0s is not valid: hosts take no other",
		"run to tr with 0 peers":                `"0" is no number of peers`,
		"run to tr":                             "who is to carry out the task is not said",
		"open to tr with 1 peers":               "assign task open: it is not finalised",
		"run to tr with 2":                      `"with 2" does not say who is to carry out the task`,
		"run to tr with -2 peers":               `"-2" is no number of peers`,
		"none to tr with 1 peers":               "assign task none: no such task",
		"run to idle with 1 peers":              "assign task run: look for taskrunner idle: no taskrunner idle",
		"run to tr target h-2":                  "assign task run: no SWOP h-2 takes tasks from taskrunner tr",
	} {
		if _, _, err := on(t, api, "", append(strings.Fields("--sn=h assign task"), strings.Fields(words)...)...); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", words, err, want)
		}
	}
	api.nodes = nil
	if _, _, err := on(t, api, "", strings.Fields("--sn=h assign task run to tr with 1 peers")...); err == nil || err.Error() != "assign task run: no SWOP takes tasks from taskrunner tr" {
		t.Errorf("without a SWOP: got %v", err)
	}
	if len(api.asked) != 0 {
		t.Error("a task was assigned that was refused")
	}
}

// TestATargetJoinsWhatTheTaskrunnerCarriesOut: of the same task; of another, and of one that is over, it begins anew, or the SN refuses it.
func TestATargetJoinsWhatTheTaskrunnerCarriesOut(t *testing.T) {
	b := board(t, task.RunSwarm)
	for _, tt := range []struct {
		words, digest, phase, verdict, want string
	}{
		{"target h-1", b.Task("run").Digest, "running", "", "77"},
		{"target h-1", "00", "running", "", ""},
		{"target h-1", b.Task("run").Digest, "waiting", "", ""},
		{"target h-1", b.Task("run").Digest, "over", "failed", ""},
		{"with 1 peers", b.Task("run").Digest, "running", "", ""},
	} {
		a := at(tt.phase, tt.verdict, "")
		a.Digest = tt.digest
		api := &runnerAPI{nodes: []*swarmv1.Node{swop("h-0", 2, "tr"), swop("h-1", 2, "tr")}, shows: []*swarmv1.Assignment{a}}
		api.board = b
		_, _, err := on(t, api, "", append(strings.Fields("--sn=h assign task run to tr"), strings.Fields(tt.words)...)...)
		if err != nil || len(api.asked) != 1 || api.asked[0].GetJoins() != tt.want {
			t.Errorf("%s of a task that is %s: %v, asked for %v", tt.words, tt.phase, err, api.asked)
		}
	}
}

// TestATaskrunnerShowsWhoJoined: with those of its assignment, and it is not done before they are.
func TestATaskrunnerShowsWhoJoined(t *testing.T) {
	joined := at("running", "", "RUNNING")
	joined.Members[0].Node, joined.Members[0].PeerId = "h-1", "12D3h-1"
	api := &runnerAPI{shows: []*swarmv1.Assignment{at("over", "succeeded", "COMPLETE")}, joined: []*swarmv1.Assignment{joined}}
	script := []string{"LIST TASKRUNNER PEERS tr", "GET TASKRUNNER PEER STATUS tr 1", "GET TASKRUNNER STATUS tr"}
	transcript, _, err := on(t, api, strings.Join(script, "\n")+"\n", "run-swci", "--sn=h")
	for _, want := range []string{"1,12D3h-1,h-1,RUNNING", "SWOP_PEER_INDEX           : 1", "TASK_STATE                : RUNNING", "ACTIVE_PEERS              : 2"} {
		if err != nil || !strings.Contains(transcript, "    "+want+"\n") {
			t.Errorf("%v, want %s in\n%s", err, want, transcript)
		}
	}
}

func TestWaitForTaskrunner(t *testing.T) {
	running, ending := at("running", "", "RUNNING"), at("ending", "succeeded", "COMPLETE")
	for _, tt := range []struct {
		name    string
		shows   []*swarmv1.Assignment
		out     string
		said    string
		code    int
		inWords []string
		errs    []string
	}{
		{
			"done",
			[]*swarmv1.Assignment{running, running, ending, at("over", "succeeded", "COMPLETE")},
			"task run succeeded\n", "", exit.OK,
			[]string{"TASKRUNNER FINISHED", "  STATE : COMPLETE", "  TIME  : 1970-01-01 00:00:08"},
			nil,
		},
		{
			"failed",
			[]*swarmv1.Assignment{running, at("over", "failed", "ERROR")},
			"task run failed\n", "task run failed: h-0 exited with code 3: no CUDA, no fun", exit.Failed,
			[]string{"TASKRUNNER FINISHED", "  STATE : ERROR", "  TIME  : 1970-01-01 00:00:08", "hint: h-0 exited with code 3: no CUDA, no fun"},
			[]string{"Task has failed, check TASKRUNNER PEER STATUS for Error description"},
		},
		{"idle", nil, "taskrunner tr is idle\n", "", exit.OK, []string{"TASKRUNNER FINISHED", "  STATE : IDLE"}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			out, _, err := on(t, &runnerAPI{shows: tt.shows}, "", "wait", "for", "taskrunner", "tr", "--sn=h")
			said := ""
			if err != nil {
				said = err.Error()
			}
			if out != tt.out || said != tt.said || exit.Code(err) != tt.code {
				t.Errorf("%s: got %q, %v", tt.name, out, err)
			}
			transcript, _, _ := on(t, &runnerAPI{shows: tt.shows}, "WAIT FOR TASKRUNNER tr\n", "run-swci", "--sn=h")
			got := answers(t, transcript, []string{"WAIT FOR TASKRUNNER tr"})[0]
			want := append([]string{"WAITING FOR TASKRUNNER TO COMPLETE - Maximum wait time is : 120 mins"}, tt.inWords...)
			if d := cmp.Diff(want, got.lines) + cmp.Diff(tt.errs, got.errs); d != "" {
				t.Errorf("%s: %s\n%s", tt.name, d, transcript)
			}
		})
	}
}

// A taskrunner that is not done in time is an error in a shell, and a warning at the prompt; marks show that it is waited for.
func TestWaitForTaskrunnerEnds(t *testing.T) {
	t.Setenv("SWCI_TASK_MAX_WAIT_TIME", "1")
	synctest.Test(t, func(t *testing.T) {
		stuck := &runnerAPI{shows: []*swarmv1.Assignment{at("running", "", "RUNNING")}}
		out, beside, err := on(t, stuck, "", "wait", "for", "taskrunner", "tr", "--sn=h")
		if out != "" || exit.Code(err) != exit.TimedOut || beside != "######\n" {
			t.Errorf("got %q, %q, %v", out, beside, err)
		}
		transcript, _, _ := on(t, stuck, "WAIT FOR TASKRUNNER tr\n", "run-swci", "--sn=h")
		got := answers(t, transcript, []string{"WAIT FOR TASKRUNNER tr"})[0]
		want := []string{"WAITING FOR TASKRUNNER TO COMPLETE - Maximum wait time is : 1 mins", "######", "WARNING - Maximum configured SWCI wait time is over"}
		if d := cmp.Diff(want, got.lines); d != "" || got.errs != nil {
			t.Errorf("%s\n%s", d, transcript)
		}
	})
}

// SNs that do not answer for a while end no wait, those that do not come back do.
func TestWaitForTaskrunnerOutlivesOutages(t *testing.T) {
	for downs, code := range map[int]int{20: exit.OK, 1000: exit.Unreachable} {
		synctest.Test(t, func(t *testing.T) {
			api := &runnerAPI{shows: []*swarmv1.Assignment{at("running", "", "RUNNING"), at("over", "succeeded", "COMPLETE")}, downs: downs}
			if out, beside, err := on(t, api, "", "wait", "for", "taskrunner", "tr", "--sn=h"); exit.Code(err) != code || code == exit.OK && out != "task run succeeded\n" || beside == "" {
				t.Errorf("%d looks find nobody: got %q, %q, %v", downs, out, beside, err)
			}
		})
	}
}

func TestTaskrunnerShowsWhatItCarriesOut(t *testing.T) {
	never := at("over", "failed", "ERROR")
	never.Members[0].Code, never.Members[0].Text = -1, "no space left"
	for _, tt := range []struct {
		words string
		shows *swarmv1.Assignment
		want  []string
	}{
		{"GET TASKRUNNER INFO tr", nil, []string{"NAME                      : tr", "STATE                     : IDLE", "CREATED                   : 1970-01-01 00:00:05"}},
		{"GET TASKRUNNER STATUS tr", nil, []string{
			"NAME                      : tr", "TASK_NAME                 : Empty", "PEER_TYPE                 : SWOP", "TASK_STATE                : IDLE", "PEERS_NEEDED              : 0",
			"ACTIVE_PEERS              : 0", "COMPLETED_PEERS           : 0", "FAILED_PEERS              : 0",
		}},
		{"GET TASKRUNNER STATUS tr", at("over", "failed", "ERROR"), []string{
			"NAME                      : tr", "TASK_NAME                 : run", "PEER_TYPE                 : SL", "TASK_STATE                : ERROR", "PEERS_NEEDED              : 2",
			"ACTIVE_PEERS              : 0", "COMPLETED_PEERS           : 0", "FAILED_PEERS              : 2", "OPERATION_ID              : 77",
			"REASON                    : h-0 exited with code 3: no CUDA, no fun", "ASSIGNED_TS               : 1970-01-01 00:00:06", "UPDATE_TS                 : 1970-01-01 00:00:07",
			"FINISHED_TS               : 1970-01-01 00:00:08",
		}},
		{"GET TASKRUNNER PEER STATUS tr 0", at("over", "failed", "ERROR"), []string{
			"NAME                      : h-0", "SWOP_UID                  : 12D3h-0", "OPERATION_ID              : 77", "PEER_COUNT                : 2", "UPDATE_TS                 : 1970-01-01 00:00:07",
			"SWOP_PEER_INDEX           : 0", "SWOP_PEER_STATUS          : ERROR", "SWOP_PEER_STATUS_DESC     : exited with code 3: no CUDA, no fun",
		}},
		{"GET TASKRUNNER PEER STATUS tr 0", never, []string{
			"NAME                      : h-0", "SWOP_UID                  : 12D3h-0", "OPERATION_ID              : 77", "PEER_COUNT                : 2", "UPDATE_TS                 : 1970-01-01 00:00:07",
			"SWOP_PEER_INDEX           : 0", "SWOP_PEER_STATUS          : ERROR", "SWOP_PEER_STATUS_DESC     : failed: no space left",
		}},
		{"LIST TASKRUNNER PEERS tr", at("running", "", "RUNNING"), []string{"SWOP_PEER_INDEX,SWOP_UID,NAME,SWOP_PEER_STATUS", "0,12D3h-0,h-0,RUNNING"}},
	} {
		api := &runnerAPI{}
		if tt.shows != nil {
			api.shows = []*swarmv1.Assignment{tt.shows}
		}
		transcript, _, err := on(t, api, tt.words+"\n", "run-swci", "--sn=h")
		if d := cmp.Diff(tt.want, answers(t, transcript, []string{tt.words})[0].lines); err != nil || d != "" {
			t.Errorf("%s: %v\n%s", tt.words, err, d)
		}
	}
	api := &runnerAPI{shows: []*swarmv1.Assignment{at("over", "failed", "ERROR")}}
	out, _, err := on(t, api, "", "list", "taskrunner", "peers", "tr", "--sn=h")
	if want := "INDEX  NODE  STATE   CODE  PEERS  TEXT\n0      h-0   exited  3     2      no CUDA, no fun\n"; err != nil || out != want {
		t.Errorf("got %v\n%s", err, out)
	}
	out, _, err = on(t, api, "", "get", "taskrunner", "status", "tr", "--sn=h", "-o", "json")
	var status struct {
		Assignment struct {
			ID     string `json:"id"`
			Failed int    `json:"failed_peers"`
		} `json:"assignment"`
	}
	if json.Unmarshal([]byte(out), &status) != nil || status.Assignment.ID != "77" || status.Assignment.Failed != 2 {
		t.Errorf("got %v\n%s", err, out)
	}
	_, _, err = on(t, api, "", "get", "taskrunner", "peer", "status", "tr", "h-9", "--sn=h")
	if exit.Code(err) != exit.NotFound || exit.Hint(err) != "0 is h-0" {
		t.Errorf("got %v, %s", err, exit.Hint(err))
	}
}

// TestPeerStatusHasTheSLsOfAHost: the host is called by its group, as in the original, and its SLs follow by their index.
func TestPeerStatusHasTheSLsOfAHost(t *testing.T) {
	host := swop("h-0", 2, "tr")
	host.Offer.Group = "demo"
	sl := func(name, left string, live bool, since int64) *swarmv1.Node {
		return &swarmv1.Node{Name: name, Role: "sl", PeerId: "12D3" + name, Live: live, LiveSinceUnixMs: since, LeftReason: left}
	}
	nodes := []*swarmv1.Node{
		host, sl("h-0-sl-10", "failed: no CUDA", false, 8_000), sl("h-0-sl-2", "", true, 7_000), sl("h-0-sl-3", "training is over", false, 8_000), sl("h-0-sl-4", "", false, 8_000),
		sl("h-0-sl-5", "stopped", false, 5_000), sl("h-0-sl-x", "", true, 8_000), sl("h-00-sl-1", "", true, 8_000), swop("h-0-sl-6", 1, "tr"),
	}
	const words = "GET TASKRUNNER PEER STATUS tr 12D3h-0"
	api := &runnerAPI{shows: []*swarmv1.Assignment{at("running", "", "RUNNING")}, nodes: nodes}
	transcript, _, err := on(t, api, words+"\n", "run-swci", "--sn=h")
	want := []string{
		"NAME                      : demo", "SWOP_NAME                 : h-0", "SWOP_UID                  : 12D3h-0", "OPERATION_ID              : 77", "PEER_COUNT                : 2",
		"UPDATE_TS                 : 1970-01-01 00:00:07", "SWOP_PEER_INDEX           : 0", "SWOP_PEER_STATUS          : RUNNING", "SWOP_PEER_STATUS_DESC     : started",
	}
	for i, x := range [][3]string{
		{"h-0-sl-2", "RUNNING", "it takes part in the swarm"},
		{"h-0-sl-3", "COMPLETE", "training is over"},
		{"h-0-sl-4", "ERROR", "it is not heard any more"},
		{"h-0-sl-5", "ASSIGNED", "it has not joined the swarm since the task was assigned"},
		{"h-0-sl-10", "ERROR", "failed: no CUDA"},
	} {
		want = append(want, fmt.Sprintf("SL_PEER_INDEX             : %d", i), "SL_NAME                   : "+x[0], "SL_UID                    : 12D3"+x[0],
			"SL_PEER_STATUS            : "+x[1], "SL_PEER_STATUS_DESC       : "+x[2])
	}
	if d := cmp.Diff(want, answers(t, transcript, []string{words})[0].lines); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	out, _, err := on(t, api, "", "get", "taskrunner", "peer", "status", "tr", "h-0", "--sn=h", "-o", "json")
	var got struct {
		Node, Group string
		SLs         []map[string]string
	}
	if json.Unmarshal([]byte(out), &got) != nil || err != nil || got.Node != "h-0" || got.Group != "demo" || len(got.SLs) != 5 || got.SLs[0]["uid"] != "12D3h-0-sl-2" {
		t.Errorf("%v, got\n%s", err, out)
	}
	api.shows[0].TaskType = task.PullImage
	if out, _, err = on(t, api, "", "get", "taskrunner", "peer", "status", "tr", "0", "--sn=h"); err != nil || strings.Contains(out, "sl name") {
		t.Errorf("%v, got\n%s", err, out)
	}
}

// A reset returns when the taskrunner is idle, whatever the assignment's verdict was.
func TestResetTaskrunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &runnerAPI{shows: []*swarmv1.Assignment{at("ending", "failed", "ERROR"), at("ending", "failed", "ERROR"), at("over", "failed", "ERROR")}}
		if out, _, err := on(t, api, "", "reset", "taskrunner", "tr", "--sn=h"); err != nil || out != "taskrunner tr is idle\n" || api.resets != 2 {
			t.Errorf("got %v, %s after %d resets", err, out, api.resets)
		}
		api = &runnerAPI{shows: []*swarmv1.Assignment{at("ending", "cancelled", "IDLE")}}
		if _, _, err := on(t, api, "", "reset", "taskrunner", "tr", "--sn=h"); exit.Code(err) != exit.TimedOut {
			t.Errorf("got %v from hosts that do not clean up", err)
		}
	})
}
