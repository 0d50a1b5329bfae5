package swci_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci"
)

// leftAPI is a swarm whose SLs have left, one with words that a terminal would obey.
type leftAPI struct{ fakeAPI }

func (*leftAPI) ListNodes(context.Context) (*swarmv1.ListNodesResponse, error) {
	return &swarmv1.ListNodesResponse{Nodes: []*swarmv1.Node{
		{Name: "sl-0", Role: "sl", Host: "10.0.0.2", FsPort: 30305, LeftReason: "training is over", LiveSinceUnixMs: 10_000},
		{Name: "sl-1", Role: "sl", Host: "10.0.0.3", FsPort: 30305, LeftReason: "stopped\x1b[2J\nsn-9", Banned: true, LiveSinceUnixMs: 10_000},
		{Name: "sl-2", Role: "sl", Host: "10.0.0.4", FsPort: 30305, LeftReason: "stopped\x1b[2J\nsn-9", LiveSinceUnixMs: 10_000},
		{Name: "sl-3", Role: "sl", Host: "10.0.0.5", FsPort: 30305, LiveSinceUnixMs: 10_000, DialBack: &swarmv1.DialBack{Answer: "no", Cause: "timeout\x1b[2J", Address: "10.0.0.5:30305", Sn: "sn-0"}},
	}}, nil
}

func (*leftAPI) GetHealth(context.Context) ([]client.SNHealth, error) {
	sn := &swarmv1.NodeHealth{Name: "sn-0", Role: "sn", Healthy: true, UntilUnixMs: 71_000, LeaderSeenUnixMs: 11_000}
	left := &swarmv1.NodeHealth{Name: "sl-0", Role: "sl", LeftReason: "training is over", Reason: "left: training is over"}
	unheard := &swarmv1.NodeHealth{Name: "sl-0", Role: "sl", Reason: "nothing was heard of it"} // by an SN that lags behind
	return []client.SNHealth{
		{Name: "sn-1", Address: "10.0.0.7:30304", Nodes: []*swarmv1.NodeHealth{{Name: "sn-1", Role: "sn", Healthy: true, UntilUnixMs: 71_000, LeaderSeenUnixMs: 11_000}, unheard}},
		{Name: "sn-0", Address: "10.0.0.1:30304", Nodes: []*swarmv1.NodeHealth{sn, left}},
	}, nil
}

func askLeft(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return askAPI(t, &leftAPI{}, args...)
}

// askAPI runs a command with what answers for the SNs.
func askAPI(t *testing.T, api fake, args ...string) (string, error) {
	t.Helper()
	state := t.TempDir()
	var out bytes.Buffer
	env := swci.Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: io.Discard, Now: func() time.Time { return time.UnixMilli(11_000) },
		Getenv: func(k string) string {
			return map[string]string{"XDG_STATE_HOME": state, "SWARM_IDENTITY": "/run/agent.sock"}[k]
		},
		IsTerminal: func(io.Writer) bool { return false },
	}
	connect := func(context.Context, swci.Context) (client.Operator, func(), error) {
		return answering(t, api), func() {}, nil
	}
	err := swci.Execute(t.Context(), append(args, "--sn=10.0.0.1:30304"), &swci.Session{Env: env, Connect: connect})
	return out.String(), err
}

func TestListNodesShowsWhoLeft(t *testing.T) {
	out, err := askLeft(t, "list", "nodes")
	if err != nil {
		t.Fatal(err)
	}
	want := `NAME  ROLE  ADDRESS         STATE   FOR  REACH  VERSION  NOTE
sl-0  sl    10.0.0.2:30305  left    1s   -      -        training is over
sl-1  sl    10.0.0.3:30305  banned  1s   -      -        -
sl-2  sl    10.0.0.4:30305  left    1s   -      -        stopped sn-9
sl-3  sl    10.0.0.5:30305  dead    1s   -      -        not reached by sn-0: timeout
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

type rankedAPI struct{ fakeAPI }

func (*rankedAPI) ListNodes(context.Context) (*swarmv1.ListNodesResponse, error) {
	return &swarmv1.ListNodesResponse{Nodes: []*swarmv1.Node{
		{Name: "sl-1", Role: "sl", Host: "10.0.0.2", Live: true, Ranks: 3, DialBack: &swarmv1.DialBack{Answer: "yes", Sn: "sn-0"}}, {Name: "sl-2", Role: "sl", Host: "10.0.0.3", Live: true, Ranks: 2},
	}}, nil
}

func TestListNodesShowsRanks(t *testing.T) {
	out, err := askAPI(t, &rankedAPI{}, "list", "nodes")
	if err != nil || !strings.Contains(out, "  3 ranks, reached by sn-0\n") || !strings.Contains(out, "  2 ranks\n") {
		t.Errorf("printed %q: %v", out, err)
	}
	if out, err = askAPI(t, &rankedAPI{}, "list", "nodes", "-o", "json"); err != nil || !strings.Contains(out, `"ranks": 3`) {
		t.Errorf("as JSON: %s: %v", out, err)
	}
}

type hostAPI struct{ fakeAPI }

func (*hostAPI) ListNodes(context.Context) (*swarmv1.ListNodesResponse, error) {
	return &swarmv1.ListNodesResponse{Nodes: []*swarmv1.Node{
		{Name: "swop-0", Role: "swop", Host: "10.0.0.2", Live: true, LiveSinceUnixMs: 10_000, Offer: &swarmv1.Offer{Taskrunner: "tr\x1b[2J", Peers: 4, Cpus: 64, MemoryBytes: 64<<30 - 1, Gpus: 1, DiskBytes: 5e11, Labels: []string{"site=a\x1b[2J"}}},
	}}, nil
}

func TestListNodesShowsWhoTakesTasks(t *testing.T) {
	out, err := askAPI(t, &hostAPI{}, "list", "nodes")
	if err != nil || !strings.Contains(out, "takes tasks of tr") || !strings.Contains(out, "64 CPUs, 64 GiB, 1 GPU, site=a") || strings.Contains(out, "\x1b") {
		t.Errorf("printed %q: %v", out, err)
	}
	out, err = askAPI(t, &hostAPI{}, "list", "nodes", "-o", "json")
	var got struct {
		Nodes []struct {
			Taskrunner string `json:"taskrunner"`
			Peers      uint32 `json:"peers"`
			CPUs       uint32 `json:"cpus"`
			Memory     uint64 `json:"memory_bytes"`
			GPUs       uint32 `json:"gpus"`
			Disk       uint64 `json:"disk_bytes"`
			Labels     []string
		} `json:"nodes"`
	}
	if err != nil || json.Unmarshal([]byte(out), &got) != nil || len(got.Nodes) != 1 || got.Nodes[0].Taskrunner != "tr" || got.Nodes[0].Peers != 4 || got.Nodes[0].CPUs != 64 ||
		got.Nodes[0].Memory != 64<<30-1 || got.Nodes[0].GPUs != 1 || got.Nodes[0].Disk != 5e11 || len(got.Nodes[0].Labels) != 1 {
		t.Errorf("as JSON: %s: %v", out, err)
	}
}

// A node that left is no fault: the swarm is healthy without it.
func TestGetHealthDoesNotBlameWhoLeft(t *testing.T) {
	out, err := askLeft(t, "get", "health")
	if err != nil {
		t.Errorf("exit with %v", err)
	}
	want := `NAME  ROLE  HEALTHY  FOR         CERT  SEEN    WHY NOT
sl-0  sl    left     -           -     -       left: training is over
sn-0  sn    yes      60 seconds  -     0s ago  -
sn-1  sn    yes      60 seconds  -     0s ago  -
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	out, err = askLeft(t, "get", "health", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Healthy bool `json:"healthy"`
		Nodes   []struct {
			Healthy    bool   `json:"healthy"`
			LeftReason string `json:"left_reason"`
		} `json:"nodes"`
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	if !doc.Healthy || doc.Nodes[0].Healthy || doc.Nodes[0].LeftReason != "training is over" {
		t.Errorf("JSON: %+v", doc)
	}
}

// reachAPI is a swarm in which sl-2 and sl-0 have no connection, and sl-1 could not dial sl-0.
type reachAPI struct{ fakeAPI }

func reachLinks(links ...*swarmv1.NodeLink) *swarmv1.NodeLinks {
	return &swarmv1.NodeLinks{Contract: "c", Sn: "sn-0", Links: links}
}

func (*reachAPI) links() map[string]*swarmv1.NodeLinks {
	shut := &swarmv1.NodeLink{Node: "sl-0", Address: "10.0.0.2:30305", Cause: "timeout", SinceSeconds: 200, LastSeconds: 3}
	there := &swarmv1.NodeLink{Node: "sl-0", Linked: true, Address: "10.0.0.2:30305", Cause: "refused", SinceSeconds: 9000, LastSeconds: 7300}
	evil := &swarmv1.NodeLink{Node: "sl-0", Address: "10.0.0.4:30305", Cause: "it is\nevil\x1b[2J"}
	return map[string]*swarmv1.NodeLinks{"sl-0": reachLinks(), "sl-1": reachLinks(there), "sl-2": reachLinks(shut), "sl-3": reachLinks(evil), "sn-0": {}}
}

func (a *reachAPI) ListNodes(context.Context) (*swarmv1.ListNodesResponse, error) {
	out, links := &swarmv1.ListNodesResponse{}, a.links()
	for _, name := range []string{"sl-0", "sl-1", "sl-2", "sl-3", "sn-0"} {
		out.Nodes = append(out.Nodes, &swarmv1.Node{Name: name, Role: name[:2], Host: "10.0.0.1", FsPort: 30305, Live: true, LiveSinceUnixMs: 10_000, Links: links[name]})
	}
	out.Nodes = append(out.Nodes, &swarmv1.Node{Name: "sl-9", Role: "sl", Links: reachLinks()}) // dead
	return out, nil
}

func (a *reachAPI) GetHealth(context.Context) ([]client.SNHealth, error) {
	sn := client.SNHealth{Name: "sn-0", Address: "10.0.0.1:30304"}
	links := a.links()
	for _, name := range []string{"sn-0", "sl-0", "sl-1", "sl-2", "sl-3"} {
		sn.Nodes = append(sn.Nodes, &swarmv1.NodeHealth{Name: name, Role: name[:2], Healthy: true, UntilUnixMs: 71_000, LeaderSeenUnixMs: 11_000, Links: links[name]})
	}
	return []client.SNHealth{sn}, nil
}

func askReach(t *testing.T, args ...string) string {
	t.Helper()
	out, err := askAPI(t, &reachAPI{}, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestListNodesShowsWhoReachesWhom(t *testing.T) {
	want := `NAME  ROLE  ADDRESS         STATE  FOR  REACH                 VERSION  NOTE
sl-0  sl    10.0.0.1:30305  alive  1s   2/4 (not sl-2, sl-3)  -        -
sl-1  sl    10.0.0.1:30305  alive  1s   4/4                   -        -
sl-2  sl    10.0.0.1:30305  alive  1s   3/4 (not sl-0)        -        -
sl-3  sl    10.0.0.1:30305  alive  1s   3/4 (not sl-0)        -        -
sn-0  sn    10.0.0.1:30305  alive  1s   4/4                   -        -
sl-9  sl    -               dead   -    -                     -        -
`
	if diff := cmp.Diff(want, askReach(t, "list", "nodes")); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	var doc struct {
		Nodes []struct {
			Name           string
			Needs, Reaches int
		}
	}
	if err := json.Unmarshal([]byte(askReach(t, "list", "nodes", "-o", "json")), &doc); err != nil || doc.Nodes[0].Needs != 4 || doc.Nodes[0].Reaches != 2 || doc.Nodes[5].Needs != 0 {
		t.Errorf("JSON: %+v, %v", doc, err)
	}
}

func TestGetHealthShowsWhoReachesWhom(t *testing.T) {
	_, out, ok := strings.Cut(askReach(t, "get", "health"), "\n\n")
	want := `connections: 8 of 10 that nodes need stand
           1   2   3   4   5
 1  sl-0      ok  NO  NO  ok
 2  sl-1  in      ok  ok  ok
 3  sl-2  NO  ok      ok  ok
 4  sl-3  NO  ok  ok      ok
 5  sn-0  ok  ok  ok  ok
    from the row to the column: ok it stands; in it stands, but the row could not open another; NO none
none: sl-0 and sl-2
  sl-2 cannot open 10.0.0.2:30305 (TCP), which does not answer, for 3 minutes
  -> let TCP from the host of sl-2 to 10.0.0.2:30305 (sl-0) through every firewall; check on the host of sl-2: swarmctl identity check 10.0.0.2:30305
none: sl-0 and sl-3
  sl-3 cannot open 10.0.0.4:30305 (TCP): it is evil, for 0 seconds
  -> check on the host of sl-3: swarmctl identity check 10.0.0.4:30305
one way: sl-0 and sl-1
  sl-1 could not open 10.0.0.2:30305 (TCP), which refuses connections (its last try was 2 hours ago)
  a connection stands and carries both
  -> when the connection breaks, the pair needs one side that can dial, and whether sl-0 can is not known: open 10.0.0.2:30305 (TCP) inbound at sl-0; check on the host of sl-1: swarmctl identity check 10.0.0.2:30305
`
	if diff := cmp.Diff(want, out); !ok || diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	var doc struct {
		Nodes  []struct{ Needs, Reaches int }
		Pairs  []struct{ A, B, State, Dials, Detail, Remedy string }
		Linked []struct{ Nodes []string }
	}
	if err := json.Unmarshal([]byte(askReach(t, "get", "health", "-o", "json")), &doc); err != nil {
		t.Fatal(err)
	}
	if p := doc.Pairs; len(p) != 3 || p[0].State != "none" || p[0].A != "sl-0" || p[0].B != "sl-2" || p[2].State != "one way" || p[2].Dials != "sl-0" || !strings.Contains(p[2].Remedy, "identity check") ||
		doc.Nodes[0].Needs != 4 || doc.Nodes[0].Reaches != 2 {
		t.Errorf("JSON: %+v", doc)
	}
	if l := doc.Linked; len(l) != 5 || strings.Join(l[0].Nodes, " ") != "sl-0 sl-1 sl-2 sl-3" || strings.Join(l[4].Nodes, " ") != "sl-3 sn-0" {
		t.Errorf("JSON: %+v", l)
	}
}

// TestListNodesShowsServices: an SN behind a proxy is shown as others reach it, in the original's words.
func TestListNodesShowsServices(t *testing.T) {
	api := &runnerAPI{nodes: []*swarmv1.Node{{Name: "sn-0", Role: "sn", Host: "10.0.0.1", ApiPort: 30304, ApiService: "sn.example:8443", PeerId: "12D3S", LiveSinceUnixMs: 1_000}}}
	transcript, _, err := on(t, api, "LIST NODES\n", "run-swci", "--sn=h")
	if want := "    SN,sn.example,8443,sn-0,12D3S,,1970-01-01 00:00:01\n"; err != nil || !strings.Contains(transcript, want) {
		t.Errorf("%v, want %s in\n%s", err, want, transcript)
	}
}
