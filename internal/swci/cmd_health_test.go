package swci_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// healthAPI answers with what a test gives it.
type healthAPI struct {
	fakeAPI
	answers []client.SNHealth
}

func (h *healthAPI) GetHealth(context.Context) ([]client.SNHealth, error) { return h.answers, nil }

func getHealth(t *testing.T, answers []client.SNHealth, args ...string) (string, error) {
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
		return answering(t, &healthAPI{answers: answers}), func() {}, nil
	}
	err := swci.Execute(t.Context(), append([]string{"get", "health", "--sn=10.0.0.1:30304"}, args...), &swci.Session{Env: env, Connect: connect})
	return out.String(), err
}

func TestGetHealthJoinsWhatTheSNsSay(t *testing.T) {
	sn := func(name string) *swarmv1.NodeHealth {
		return &swarmv1.NodeHealth{Name: name, Role: "sn", Healthy: true, UntilUnixMs: 71_000, LeaderSeenUnixMs: 11_000}
	}
	sl := &swarmv1.NodeHealth{Name: "sl-0", Role: "sl", Healthy: true, UntilUnixMs: 191_000, SvidNotAfterUnixMs: 311_000, LeaderSeenUnixMs: 11_000}
	cut := &swarmv1.NodeHealth{Name: "sl-0", Role: "sl", Reason: "the SNs have no leader"}
	evil := &swarmv1.NodeHealth{
		Name: "sl-1\x1b[2J", Role: "sl", Reason: "bad\nnews\x1b[31m", SvidNotAfterUnixMs: 1, Warnings: []string{"certificate\texpires\r\nsoon"},
	}
	answers := []client.SNHealth{
		{Name: "sn-1", Address: "10.0.0.2:30304", Nodes: []*swarmv1.NodeHealth{{Name: "sn-1", Role: "sn", Reason: "cut off"}, cut}},
		{Name: "sn-0", Address: "10.0.0.1:30304", Nodes: []*swarmv1.NodeHealth{sn("sn-0"), sl, evil}},
		{Address: "localhost:30304", Nodes: []*swarmv1.NodeHealth{sn("sn-0"), sl, evil}}, // sn-0 by another name
		{Name: "sn-2", Address: "10.0.0.3:30304", Err: context.DeadlineExceeded},
		{Address: "10.0.0.9:30304", Err: syscall.ECONNREFUSED},
	}
	out, err := getHealth(t, answers)
	if exit.Code(err) != exit.Failed || err.Error() != "4 of 6 nodes not healthy" {
		t.Errorf("got error %v", err)
	}
	want := `NAME            ROLE  HEALTHY  FOR         CERT       SEEN    WHY NOT
sl-0            sl    yes      3 minutes   5 minutes  0s ago  -
sl-1            sl    no       -           over       -       bad news
10.0.0.9:30304  sn    no       -           -          -       cannot reach SN 10.0.0.9:30304: connection refused
sn-0            sn    yes      60 seconds  -          0s ago  -
sn-1            sn    no       -           -          -       cut off
sn-2            sn    no       -           -          -       cannot reach SN 10.0.0.3:30304: timed out
warning: node sl-1: certificate expires soon
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	out, err = getHealth(t, answers, "-o", "json")
	var doc struct {
		Healthy bool
		Nodes   []map[string]any
	}
	if jsonErr := json.Unmarshal([]byte(out), &doc); jsonErr != nil || exit.Code(err) != exit.Failed || doc.Healthy || len(doc.Nodes) != 6 {
		t.Fatalf("as JSON: %v %v\n%s", err, jsonErr, out)
	}
	if n := doc.Nodes[0]; n["healthy"] != true || n["until"] != "1970-01-01T00:03:11.000Z" || n["svid_not_after"] != "1970-01-01T00:05:11.000Z" || n["leader_seen"] != "1970-01-01T00:00:11.000Z" {
		t.Errorf("as JSON: %v", n)
	}
	out, err = getHealth(t, answers[1:3])
	if err == nil || !strings.HasPrefix(err.Error(), "1 of 3") {
		t.Errorf("got %v\n%s", err, out)
	}
}
