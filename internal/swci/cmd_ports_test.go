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

// portsAPI has nodes of its own.
type portsAPI struct {
	fakeAPI
	nodes []*swarmv1.Node
}

func (p *portsAPI) ListNodes(context.Context) (*swarmv1.ListNodesResponse, error) {
	return &swarmv1.ListNodesResponse{Nodes: p.nodes}, nil
}

func TestGetPorts(t *testing.T) {
	nodes := []*swarmv1.Node{
		{Name: "sl-a", Role: "sl", Host: "a.example", FsPort: 16000},
		{Name: "sl-b", Role: "sl", Host: "2001:db8::2", FsPort: 30305},
		{Name: "sl-c", Role: "sl", Host: "c.example", FsPort: 30305, Banned: true},
		{Name: "sl-d", Role: "sl", Host: "d.example", FsPort: 30305, LeftReason: "finished"},
		{Name: "h-0", Role: "swop", Host: "h.example", FsPort: 30308},
		{Name: "h-1", Role: "swop", Host: "h.example"},
		{Name: "sn-1", Role: "sn", Host: "a.example", P2PPort: 30303, ApiPort: 30304, FsPort: 30305},
	}
	get := func(extra ...string) string {
		var out bytes.Buffer
		env := swci.Env{
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: io.Discard, Now: time.Now, IsTerminal: func(io.Writer) bool { return false },
			Getenv: func(k string) string {
				return map[string]string{"XDG_STATE_HOME": t.TempDir(), "SWARM_IDENTITY": "/run/agent.sock"}[k]
			},
		}
		connect := func(context.Context, swci.Context) (client.Operator, func(), error) {
			return answering(t, &portsAPI{nodes: nodes}), func() {}, nil
		}
		if err := swci.Execute(t.Context(), append([]string{"get", "ports", "--sn=10.0.0.1:30304"}, extra...), &swci.Session{Env: env, Connect: connect}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	want := `NODE  ROLE  ADDRESS (TCP)        WHO DIALS                                          WHAT FOR
sl-a  sl    a.example:16000      other SLs, or it dials them; swarmctl get model    merges, models
sl-b  sl    [2001:db8::2]:30305  other SLs, or it dials them; swarmctl get model    merges, models
h-0   swop  h.example:30308      swarmctl get logs; without it they go through SNs  logs
sn-1  sn    a.example:30303      other SNs                                          raft, membership
sn-1  sn    a.example:30304      SNs, SLs, swarmctl                                 API
sn-1  sn    a.example:30305      SNs that join                                      the swarm ID and its SNs
`
	if d := cmp.Diff(want, get()); d != "" {
		t.Error(d)
	}
	var got struct {
		Ports []map[string]string `json:"ports"`
	}
	if err := json.Unmarshal([]byte(get("-o", "json")), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Ports) != 6 || got.Ports[3]["address"] != "a.example:30303" || got.Ports[3]["node"] != "sn-1" {
		t.Errorf("got %v", got.Ports)
	}
}
