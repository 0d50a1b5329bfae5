package swci_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/logs/direct"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
	"github.com/swarmd/swarmd/internal/rpc/logboard"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// logsAPI is a swarm whose hosts h-0 and h-1 hand out logs; h-2 lets nobody have any.
type logsAPI struct {
	fakeAPI
	swarmv1connect.UnimplementedTaskServiceHandler

	ctx   context.Context // of the test: its hosts end with it
	board *logboard.Board

	files map[string]bool // hosts with a file server: those of true listen
	dials map[string]*swarmv1.Node
	reads atomic.Int64 // of the board

	figures string // that hosts send
}

func (*logsAPI) names() []string { return []string{"h-0", "h-1", "h-2"} }

func (a *logsAPI) ListNodes(context.Context) (*swarmv1.ListNodesResponse, error) {
	res := &swarmv1.ListNodesResponse{}
	for _, name := range a.names() {
		n := &swarmv1.Node{Name: name, Role: "swop", Live: true, Host: "127.0.0.1"}
		if at := a.dials[name]; at != nil {
			n.PeerId, n.FsPort = at.GetPeerId(), at.GetFsPort()
		}
		res.Nodes = append(res.Nodes, n)
	}
	return res, nil
}

func (a *logsAPI) assigned() []*swarmv1.Assignment {
	on := func(id, name string, nodes ...string) *swarmv1.Assignment {
		x := &swarmv1.Assignment{Id: id, Task: name}
		for _, n := range nodes {
			x.Members = append(x.Members, &swarmv1.AssignmentMember{Node: n})
		}
		return x
	}
	joins := func(id string, a *swarmv1.Assignment) *swarmv1.Assignment {
		a.Joins = id
		return a
	}
	job := func(id, name string, nodes ...string) *swarmv1.Assignment {
		x := on(id, name, nodes...)
		x.TaskType, x.Groups = task.RunJob, []*swarmv1.TaskGroup{{Name: "a", Peers: 1}, {Name: "b", Peers: 1}}
		return x
	}
	return []*swarmv1.Assignment{
		on("6", "train", "h-1"), on("7", "train", "h-0", "h-1", "h-1"), on("8", "closed", "h-0", "h-2"), on("9", "placed"),
		job("13", "grid.0123abcd", "h-1"), job("14", "grid.0123abce", "h-0", "h-0"), job("15", "other.0123abcd", "h-1"),
		on("10", "grown", "h-0"), joins("10", on("11", "grown", "h-1")), joins("10", on("12", "grown", "h-1")),
	}
}

func (a *logsAPI) ListAssignments(context.Context, *connect.Request[swarmv1.ListAssignmentsRequest]) (*connect.Response[swarmv1.ListAssignmentsResponse], error) {
	return answer(&swarmv1.ListAssignmentsResponse{Assignments: a.assigned()}, nil)
}

func (a *logsAPI) GetAssignment(_ context.Context, r *connect.Request[swarmv1.GetAssignmentRequest]) (*connect.Response[swarmv1.GetAssignmentResponse], error) {
	all := a.assigned()
	i := slices.IndexFunc(all, func(x *swarmv1.Assignment) bool { return x.GetId() == r.Msg.GetId() })
	if i < 0 {
		return nil, travelling(exit.New(exit.NotFound, "", "no such assignment"))
	}
	return answer(&swarmv1.GetAssignmentResponse{Assignment: all[i]}, nil)
}

// Log implements logs.Source: what the programs of an assignment print, and a host's own log.
func (a *logsAPI) Log(_ context.Context, w logs.Wanted, emit func(logs.Line) error) error {
	if w.Figures {
		return emit(logs.Line{Text: a.figures})
	}
	all := []logs.Line{{Text: "began"}, {Text: "\x1b[2Jcleared\r"}, {Text: "ready"}}
	if w.Assignment != "" {
		all = []logs.Line{{From: "sl", Text: "of " + w.Assignment}, {From: "sl", Text: "\x1b]0;title\aloss 1"}}
	}
	if w.Assignment == "14" || w.Assignment == "70" { // a job
		all = []logs.Line{{From: "node-1", Text: "of " + w.Assignment}, {From: "node-0", Text: "loss 1"}, {From: "node-2", Text: "which there is none"}}
	}
	for _, l := range all[max(len(all)-w.Tail, 0):] {
		if err := emit(l); err != nil {
			return err
		}
	}
	return nil
}

// Logs implements fakeHosts.
func (a *logsAPI) Logs(t *testing.T, authority *rpctest.Authority) swarmv1connect.LogServiceHandler {
	t.Helper()
	a.ctx, a.board, a.dials = t.Context(), logboard.New(), map[string]*swarmv1.Node{}
	domains, err := authority.Domains()
	hosts := map[string]*logs.Host{}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range a.names() {
		source, err := authority.Issue("/swarm/swop/"+name, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		host := logs.NewHost(logs.Config{
			Verifier: logs.Verifier{Source: source, Domains: domains, Node: name, SwarmID: func() string { return "s" }}, Logs: a, Log: slog.New(slog.DiscardHandler),
			Allow: func(by string) error {
				if name == "h-2" {
					return errors.New("logs of this host do not go to " + by)
				}
				return nil
			},
			Rights: func(context.Context, string, *swarmv1.LogPart) (string, error) { return "", nil },
			Send: func(_ context.Context, req *swarmv1.SendLogsRequest) (*swarmv1.SendLogsResponse, error) {
				return a.board.Send(name, req)
			},
		})
		go func() { _ = host.Run(a.ctx) }()
		if listens, has := a.files[name]; has {
			a.dials[name] = fileServer(t, p2p.Config{Source: source, Domains: domains}, host, name, listens)
		}
		hosts[name] = host
	}
	return logsService{logboard.NewService(a, a.board, nil), hosts, &a.reads}
}

// fileServer hands out a host's logs, or has done so and is gone. It returns where.
func fileServer(t *testing.T, cfg p2p.Config, host *logs.Host, name string, listens bool) *swarmv1.Node {
	t.Helper()
	cfg.Key, cfg.ListenAddrs, cfg.SwarmID, cfg.Log = p2ptest.NewKey(t), []string{"127.0.0.1:0"}, func() string { return "s" }, slog.New(slog.DiscardHandler)
	server := p2ptest.Start(t, cfg)
	direct.HandOut(server.Network(), host, name, cfg.Log)
	at := p2ptest.AddrOf(t, server)
	if !listens {
		_ = server.Close()
	}
	return &swarmv1.Node{PeerId: server.ID().String(), FsPort: uint32(at.Port)}
}

// logsService shows hosts at once what they hear by their heartbeats else.
type logsService struct {
	*logboard.Service

	hosts map[string]*logs.Host
	reads *atomic.Int64
}

func (s logsService) ReadLogs(ctx context.Context, req *connect.Request[swarmv1.ReadLogsRequest]) (*connect.Response[swarmv1.ReadLogsResponse], error) {
	s.reads.Add(1)
	s.hosts[req.Msg.GetPart().GetNode()].Take([]*swarmv1.LogOrder{req.Msg.GetOrder()})
	return s.Service.ReadLogs(ctx, req)
}

// View implements logboard.SN, as do Speaker and Asker.
func (a *logsAPI) View() *state.State {
	s := state.New()
	s.SwarmID = "s"
	for _, name := range a.names() {
		s.Nodes[name] = &state.Node{Name: name, Role: "swop", Live: true}
	}
	return s
}

func (*logsAPI) Speaker(context.Context) string { return "" }

func (*logsAPI) Asker(context.Context) (identity.ID, error) {
	return identity.ParseIDString("spiffe://a.example/swarm/swci")
}

// TestGetLogs: a node's log, and those of a task, are shown without what a terminal would obey; a host that refuses is said.
func TestGetLogs(t *testing.T) {
	for _, tt := range []struct {
		words, out, beside, err string
		code                    int
	}{
		{words: "get logs h-0", out: "began\ncleared\nready\n"},
		{words: "get logs h-0 --tail 1", out: "ready\n"},
		{words: "get logs h-0 -f --tail 1", out: "ready\n"},
		{words: "get logs h-1 --assignment 7", out: "h-1/sl: loss 1\nh-1/sl: of 7\n"},
		{words: "GET LOGS train", out: "h-0/sl: loss 1\nh-0/sl: of 7\nh-1/sl: loss 1\nh-1/sl: of 7\n"},
		{words: "get logs train --assignment 6", out: "h-1/sl: loss 1\nh-1/sl: of 6\n"},
		{words: "get logs grown", out: "h-0/sl: loss 1\nh-0/sl: of 10\nh-1/sl: loss 1\nh-1/sl: loss 1\nh-1/sl: of 11\nh-1/sl: of 12\n"},
		{words: "get logs grown --assignment 12", out: "h-1/sl: loss 1\nh-1/sl: of 12\n"},
		{words: "get logs grid", out: "h-0/a/0: loss 1\nh-0/b/1: of 14\nh-0/node-2: which there is none\n"},
		{words: "get logs grid --assignment 13", out: "h-1/sl: loss 1\nh-1/sl: of 13\n"},
		{words: "get logs grid.0123abcd", out: "h-1/sl: loss 1\nh-1/sl: of 13\n"},
		{words: "get logs grid --assignment 15", err: "get logs grid: assignment 15 is of task other.0123abcd, not of grid", code: exit.NotFound},
		{words: "get logs h-2", err: "get logs h-2: h-2 hands out no log: logs of this host do not go to spiffe://a.example/swarm/swci", code: exit.Denied},
		{words: "get logs closed", out: "h-0/sl: loss 1\nh-0/sl: of 8\n", beside: "swarmctl: get logs closed: h-2 hands out no log: logs of this host do not go to spiffe://a.example/swarm/swci\n", err: "ended with an error", code: exit.Denied},
		{words: "get logs x", err: "get logs x: no node is called x, and no task or job of that name was assigned", code: exit.NotFound},
		{words: "get logs placed", err: "get logs placed: assignment 9 of task placed is on no host yet", code: exit.NotFound},
		{words: "get logs train --assignment 8", err: "get logs train: assignment 8 is of task closed, not of train", code: exit.NotFound},
		{words: "get logs train --assignment 5", err: "get logs train: no such assignment", code: exit.NotFound},
		{words: "get logs h-0 --tail 10001", err: "get logs h-0: 10001 lines are not to be had", code: exit.Usage},
		{words: "get logs h-0 --tail -1", err: "get logs h-0: -1 lines are not to be had", code: exit.Usage},
		{words: "-o json get logs h-0 -f", err: "get logs h-0: what is followed has no end, and so no JSON", code: exit.Usage},
		{words: "-o json get logs h-0 --tail 1", out: "{\n  \"assignment\": \"\",\n  \"lines\": [\n    {\n      \"host\": \"h-0\",\n      \"from\": \"\",\n      \"text\": \"ready\"\n    }\n  ]\n}\n"},
	} {
		out, beside, err := on(t, &logsAPI{}, "", append([]string{"--sn=10.0.0.1"}, strings.Fields(tt.words)...)...)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if lines := strings.SplitAfter(out, "\n"); strings.Contains(out, ": loss 1") { // several hosts hand out at a time
			slices.Sort(lines)
			out = strings.Join(lines, "")
		}
		if out != tt.out || beside != tt.beside || said != tt.err || exit.Code(err) != tt.code {
			t.Errorf("%s: code %d, %v\n%s\n%s", tt.words, exit.Code(err), err, beside, out)
		}
	}
}

// barredAPI is an SN by whose rights the caller may list neither nodes nor assignments.
type barredAPI struct{ logsAPI }

func noRight() error {
	err := connect.NewError(connect.CodePermissionDenied, errors.New("no right"))
	if detail, derr := connect.NewErrorDetail(&swarmv1.ErrorReason{Reason: "NO_RIGHT"}); derr == nil {
		err.AddDetail(detail)
	}
	return err
}

func (*barredAPI) ListNodes(context.Context) (*swarmv1.ListNodesResponse, error) {
	return nil, noRight()
}

func (*barredAPI) ListAssignments(context.Context, *connect.Request[swarmv1.ListAssignmentsRequest]) (*connect.Response[swarmv1.ListAssignmentsResponse], error) {
	return nil, noRight()
}

// TestGetLogsWithoutLists: who names an assignment needs the right to read it and its logs, and no other.
func TestGetLogsWithoutLists(t *testing.T) {
	out, beside, err := on(t, &barredAPI{}, "", "--sn=10.0.0.1", "get", "logs", "train", "--assignment", "6")
	if err != nil || out != "h-1/sl: of 6\nh-1/sl: loss 1\n" || beside != "swarmctl: whether hosts have joined assignment 6 since is not known: you have no right to list assignments\n" {
		t.Errorf("%v\n%s%s", err, beside, out)
	}
	if out, beside, err := on(t, &barredAPI{}, "", "--sn=10.0.0.1", "get", "logs", "h-1", "--assignment", "6"); err != nil || out != "h-1/sl: of 6\nh-1/sl: loss 1\n" || beside != "" {
		t.Errorf("a host's: %v\n%s%s", err, beside, out)
	}
	if _, _, err := on(t, &barredAPI{}, "", "--sn=10.0.0.1", "get", "logs", "h-9", "--assignment", "6"); exit.Code(err) != exit.NotFound || !strings.Contains(err.Error(), "assignment 6 is of task train, and h-9 is none of its hosts") {
		t.Errorf("of a host without it: %v", err)
	}
	if _, _, err := on(t, &barredAPI{}, "", "--sn=10.0.0.1", "get", "logs", "train"); exit.Code(err) != exit.Denied {
		t.Errorf("without an assignment: %v", err)
	}
}

// TestGetLogsDirectly: what a host with a file server hands out, or refuses, comes from there, and no SN is asked for it. If the server is gone
// SNs are, which is said in one line.
func TestGetLogsDirectly(t *testing.T) {
	const barred = "h-2 hands out no log: logs of this host do not go to spiffe://a.example/swarm/swci"
	for _, tt := range []struct {
		words  string
		files  map[string]bool
		out    string
		beside string // begins and ends with what is around the bar
		err    string
		reads  bool // of the board
	}{
		{words: "get logs h-0", files: map[string]bool{"h-0": true}, out: "began\ncleared\nready\n"},
		{words: "get logs h-0 -f --tail 1", files: map[string]bool{"h-0": true}, out: "ready\n"},
		{words: "get logs train", files: map[string]bool{"h-0": true, "h-1": true}, out: "h-0/sl: loss 1\nh-0/sl: of 7\nh-1/sl: loss 1\nh-1/sl: of 7\n"},
		{words: "get logs h-2", files: map[string]bool{"h-2": true}, err: "get logs h-2: " + barred},
		{
			words: "get logs h-0", files: map[string]bool{"h-0": false}, out: "began\ncleared\nready\n", reads: true,
			beside: "swarmctl: h-0 does not hand out its log directly, so logs come through SNs: 127.0.0.1:|(TCP) refuses connections\n",
		},
		{
			words: "get logs train", files: map[string]bool{"h-0": true, "h-1": false}, out: "h-0/sl: loss 1\nh-0/sl: of 7\nh-1/sl: loss 1\nh-1/sl: of 7\n", reads: true,
			beside: "swarmctl: h-1 does not|refuses connections\n",
		},
	} {
		swarm := &logsAPI{files: tt.files}
		out, beside, err := on(t, swarm, "", append([]string{"--sn=10.0.0.1"}, strings.Fields(tt.words)...)...)
		lines := strings.SplitAfter(out, "\n")
		if strings.Contains(out, ": loss 1") {
			slices.Sort(lines)
		}
		said, began, ended := "", "", ""
		if err != nil {
			said = err.Error()
		}
		began, ended, _ = strings.Cut(tt.beside, "|")
		if strings.Join(lines, "") != tt.out || !strings.HasPrefix(beside, began) || !strings.HasSuffix(beside, ended) || strings.Count(beside, "\n") != strings.Count(tt.beside, "\n") || said != tt.err {
			t.Errorf("%s: %v\n%s\n%s", tt.words, err, out, beside)
		}
		if n := swarm.reads.Load(); (n > 0) != tt.reads {
			t.Errorf("%s: SNs were asked %d times", tt.words, n)
		}
	}
}
