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
		return answering(t, &leftAPI{}), func() {}, nil
	}
	err := swci.Execute(t.Context(), append(args, "--sn=10.0.0.1:30304"), &swci.Session{Env: env, Connect: connect})
	return out.String(), err
}

func TestListNodesShowsWhoLeft(t *testing.T) {
	out, err := askLeft(t, "list", "nodes")
	if err != nil {
		t.Fatal(err)
	}
	want := `NAME  ROLE  ADDRESS         STATE   FOR  VERSION  NOTE
sl-0  sl    10.0.0.2:30305  left    1s   -        training is over
sl-1  sl    10.0.0.3:30305  banned  1s   -        -
sl-2  sl    10.0.0.4:30305  left    1s   -        stopped sn-9
sl-3  sl    10.0.0.5:30305  dead    1s   -        not reached by sn-0: timeout
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
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
