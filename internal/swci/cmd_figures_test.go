package swci_test

import (
	"context"
	"strings"
	"testing"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// figuresAPI is a swarm with a node that is dead, and perhaps hosts that do not answer.
type figuresAPI struct {
	logsAPI

	silent bool
}

func (a *figuresAPI) ListNodes(ctx context.Context) (*swarmv1.ListNodesResponse, error) {
	res, err := a.logsAPI.ListNodes(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range res.GetNodes() {
		n.Version = "v1.2.3\x1b[2J (abc)"
	}
	res.Nodes = append(res.Nodes, &swarmv1.Node{Name: "sl-9", Role: "sl"}, &swarmv1.Node{Name: "sl-8", Role: "sl", LeftReason: "training is over", LiveSinceUnixMs: 1})
	return res, nil
}

func (a *figuresAPI) Logs(t *testing.T, authority *rpctest.Authority) swarmv1connect.LogServiceHandler {
	t.Helper()
	if a.silent {
		return silentHosts{}
	}
	return a.logsAPI.Logs(t, authority)
}

// silentHosts do not answer.
type silentHosts struct {
	swarmv1connect.UnimplementedLogServiceHandler
}

func (silentHosts) ReadLogs(context.Context, *connect.Request[swarmv1.ReadLogsRequest]) (*connect.Response[swarmv1.ReadLogsResponse], error) {
	return connect.NewResponse(&swarmv1.ReadLogsResponse{Silent: true}), nil
}

const allFigures = `{"taken_at":"2026-11-28T12:01:30Z","up_seconds":3661,"cpus":8,"load_1":0.52,"load_5":1.4,"load_15":2.31,"daemon_cpu_seconds":12.34,` +
	`"memory_total_bytes":16694571008,"memory_available_bytes":9216000000,"daemon_memory_bytes":126418944,"gpus":[` +
	`{"name":"NVIDIA\u001b[2J H200","memory_total_bytes":150754820096,"memory_used_bytes":4194304,"busy_percent":97},{"name":"1"}],` +
	`"disk_total_bytes":409600000000,"disk_free_bytes":163840000000,"streams_opened_by_it":4,"streams_opened_by_others":3,"connected_peers":2,"later":{}}`

// TestGetNode: a node's figures are shown with their units, what it does not report is said, and what it makes up is not shown.
func TestGetNode(t *testing.T) {
	for _, tt := range []struct {
		words, sends, out, err, hint string
		silent                       bool
		code                         int
	}{
		{words: "get node h-0", sends: allFigures, out: "node      h-0, swop, v1.2.3 (abc)\nreported  2026-11-28T12:01:30Z, by its clock\nCPUs      8\nload      0.52, 1.40, 2.31 (means of 1, 5 and 15 min)\nmemory    8.6 GiB available of 15.5 GiB\n" +
			"disk      152.6 GiB free of 381.5 GiB (file system of its state)\nGPU 0     NVIDIA H200; memory: 4.0 MiB used of 140.4 GiB; busy: 97 %\nGPU 1     1; memory: not reported; busy: not reported\n" +
			"streams   opened by it: 4; by others: 3; peers with a connection: 2\ndaemon    memory: 120.6 MiB; processor time: 12.3 s; up: 1h1m1s\n"},
		{words: "get node h-1", sends: `{"taken_at":"2026-11-28T12:01:30Z","memory_total_bytes":1073741824}`, out: "node      h-1, swop, v1.2.3 (abc)\nreported  2026-11-28T12:01:30Z, by its clock\nCPUs      not reported\nload      not reported\nmemory    1.0 GiB\n" +
			"disk      not reported (file system of its state)\nGPUs      none that it sees\nstreams   opened by it: not reported; by others: not reported; peers with a connection: not reported\ndaemon    memory: not reported; processor time: not reported; up: not reported\n"},
		{words: "get node h-0", sends: `{"taken_at":"\u001b[2J"}`, err: "get node h-0: h-0 reports figures that can't be shown, as it runs v1.2.3 (abc) and swarmctl is |): they have another form than this version reads", hint: "to the same version", code: exit.Failed},
		{words: "get node h-0", sends: strings.Repeat("x", 40<<10), err: "get node h-0: h-0 reports figures that can't be shown, as it runs v1.2.3 (abc) and swarmctl is |): they have more than 32768 bytes", code: exit.Failed},
		{words: "get node h-0", silent: true, err: "get node h-0: h-0 has not answered, as it runs v1.2.3 (abc) and swarmctl is |)", hint: "swarmctl get health", code: exit.TimedOut},
		{words: "get node h-2", err: "get node h-2: h-2 hands out no figures, which go where its log goes: logs of this host do not go to spiffe://a.example/swarm/swci", code: exit.Denied},
		{words: "get node x", err: "get node x: no node is called x", hint: "swarmctl list nodes", code: exit.NotFound},
		{words: "get node sl-9", err: "get node sl-9: nothing answers there: the node is dead", hint: "swarmctl get health", code: exit.Unreachable},
		{words: "get node sl-8", err: "get node sl-8: nothing answers there: the node has left", hint: "swarmctl list nodes", code: exit.Unreachable},
	} {
		out, _, err := on(t, &figuresAPI{logsAPI{figures: tt.sends}, tt.silent}, "", append([]string{"--sn=10.0.0.1"}, strings.Fields(tt.words)...)...)
		said := ""
		if err != nil {
			said = err.Error()
		}
		begins, ends, _ := strings.Cut(tt.err, "|") // around the version of this test
		if out != tt.out || (tt.err == "") != (err == nil) || !strings.HasPrefix(said, begins) || !strings.HasSuffix(said, ends) || !strings.Contains(exit.Hint(err), tt.hint) || exit.Code(err) != tt.code {
			t.Errorf("%s: code %d, %v, hint %q\n%s", tt.words, exit.Code(err), err, exit.Hint(err), out)
		}
	}
}
