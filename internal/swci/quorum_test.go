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
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// survivorAPI is what sn-0 shows when the other two SNs are gone.
type survivorAPI struct{ fakeAPI }

func survivor() *swarmv1.NoQuorum {
	return &swarmv1.NoQuorum{
		Message: "no quorum: 1 of 3 SNs answer", Remedy: "start one of sn-1 (10.0.0.2:30303), sn-2 (10.0.0.3:30303)", Sn: "sn-0", Answering: []string{"sn-0"},
		Missing:          []*swarmv1.MissingSN{{Name: "sn-1", Address: "10.0.0.2:30303"}, {Name: "sn-2", Address: "10.0.0.3:30303"}},
		LeaderSeenUnixMs: 36_000,
	}
}

func (*survivorAPI) ListNodes(context.Context) (*swarmv1.ListNodesResponse, error) {
	return &swarmv1.ListNodesResponse{NoQuorum: survivor(), Nodes: []*swarmv1.Node{
		{Name: "sl-0", Role: "sl", Host: "10.0.0.4", FsPort: 30305, Live: true, LiveSinceUnixMs: 10_000},
		{Name: "sl-1", Role: "sl", Host: "10.0.0.5", FsPort: 30305, LiveSinceUnixMs: 10_000},
		{Name: "sl-2", Role: "sl", Host: "10.0.0.6", FsPort: 30305, LeftReason: "training is over", LiveSinceUnixMs: 10_000},
		{Name: "sl-3", Role: "sl", Host: "10.0.0.7", FsPort: 30305, Live: true, Banned: true, LiveSinceUnixMs: 10_000},
		{Name: "sn-0", Role: "sn", Host: "10.0.0.1", ApiPort: 30304, Live: true, Sentinel: true, LiveSinceUnixMs: 1_000},
		{Name: "sn-1", Role: "sn", Host: "10.0.0.2", ApiPort: 30304, Live: true, LiveSinceUnixMs: 1_000},
		{Name: "sn-2", Role: "sn", Host: "10.0.0.3", ApiPort: 30304, Live: true, LiveSinceUnixMs: 1_000},
	}}, nil
}

func (*survivorAPI) ListContracts(context.Context) (*swarmv1.ListContractsResponse, error) {
	return &swarmv1.ListContractsResponse{NoQuorum: survivor()}, nil
}

func (*survivorAPI) GetContractStatus(context.Context, string) (*swarmv1.GetContractStatusResponse, error) {
	return &swarmv1.GetContractStatusResponse{
		NoQuorum: survivor(), Waiting: survivor().GetMessage(), Explanation: []string{"to do: start them"},
		Contract: &swarmv1.ContractView{Name: "c", Run: 1, Phase: "training", Sessions: []*swarmv1.Session{{Id: "1", Node: "sl-0", State: "open", Live: true}}},
	}, nil
}

func askSurvivor(t *testing.T, args ...string) (string, error) {
	t.Helper()
	state := t.TempDir()
	var out bytes.Buffer
	env := swci.Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: io.Discard, Now: func() time.Time { return time.UnixMilli(111_000) },
		Getenv: func(k string) string {
			return map[string]string{"XDG_STATE_HOME": state, "SWARM_IDENTITY": "/run/agent.sock"}[k]
		},
		IsTerminal: func(io.Writer) bool { return false },
	}
	connect := func(context.Context, swci.Context) (client.Operator, func(), error) {
		return answering(t, &survivorAPI{}), func() {}, nil
	}
	err := swci.Execute(t.Context(), append(args, "--sn=10.0.0.1:30304"), &swci.Session{Env: env, Connect: connect})
	return out.String(), err
}

// TestWithoutQuorumWhatIsKnownIsShown: nobody is alive of whom nobody has heard, the exit code is 7, and the one line says how old it is.
func TestWithoutQuorumWhatIsKnownIsShown(t *testing.T) {
	for _, c := range [][2]string{
		{"list nodes", "list nodes"},
		{"list contracts", "list contracts"},
		{"get contract status c", `get contract status of "c"`},
		{"explain contract c", `explain contract "c"`},
	} {
		for _, form := range []string{"table", "json"} {
			out, err := askSurvivor(t, append(strings.Fields(c[0]), "-o", form)...)
			want := c[1] + ": no quorum: 1 of 3 SNs answer; this is what SN sn-0 knew 1m15s ago"
			if form == "json" { // the same whenever it is asked for
				want = strings.Replace(want, "1m15s ago", "at 1970-01-01 00:00:36 UTC", 1)
			}
			if exit.Code(err) != exit.NoLeader || err.Error() != want || exit.Hint(err) != survivor().GetRemedy() || out == "" {
				t.Errorf("%s -o %s: exit code %d, %v (%s); output %q", c[0], form, exit.Code(err), err, exit.Hint(err), out)
			}
			if form == "table" {
				continue
			}
			var doc struct {
				NoQuorum *struct {
					Message string `json:"message"`
					Missing []struct{ Name, Address string }
				} `json:"no_quorum"`
			}
			if err := json.Unmarshal([]byte(out), &doc); err != nil || doc.NoQuorum == nil || doc.NoQuorum.Message != survivor().GetMessage() || len(doc.NoQuorum.Missing) != 2 {
				t.Errorf("%s: %v in %s", c[0], err, out)
			}
		}
	}
	out, _ := askSurvivor(t, "list", "nodes")
	want := `NAME  ROLE  ADDRESS         STATE      FOR    REACH  VERSION  NOTE
sl-0  sl    10.0.0.4:30305  unknown    1m15s  -      -        -
sl-1  sl    10.0.0.5:30305  unknown    1m15s  -      -        -
sl-2  sl    10.0.0.6:30305  left       1m41s  -      -        training is over
sl-3  sl    10.0.0.7:30305  banned     1m41s  -      -        -
sn-0  sn    10.0.0.1:30304  alive      1m50s  -      -        sentinel
sn-1  sn    10.0.0.2:30304  no answer  1m15s  -      -        -
sn-2  sn    10.0.0.3:30304  no answer  1m15s  -      -        -
`
	if d := cmp.Diff(want, out); d != "" {
		t.Errorf("nodes (-want +got):\n%s", d)
	}
	out, _ = askSurvivor(t, "list", "nodes", "-o", "json")
	var doc struct {
		Nodes []struct {
			Name, State string
			Live        bool
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	for _, n := range doc.Nodes {
		if n.Live != (n.Name == "sn-0") && n.Name != "sl-3" {
			t.Errorf("%s is %s, live %v", n.Name, n.State, n.Live)
		}
	}
	if out, _ := askSurvivor(t, "get", "contract", "status", "c"); !strings.Contains(out, "unknown") || !strings.Contains(out, survivor().GetMessage()) {
		t.Errorf("status:\n%s", out)
	}
	// Whom to admit can't be seen.
	if _, err := askSurvivor(t, "admit", "node", "sn-3"); exit.Code(err) != exit.NoLeader {
		t.Errorf("admit: %v", err)
	}
}

// TestWithoutQuorumNothingIsTracked: what an SN without a quorum knows may be an earlier run, and ends no other in a tracker.
func TestWithoutQuorumNothingIsTracked(t *testing.T) {
	_, err := askSurvivor(t, "track", "contract", "c", "--once", "--tensorboard", t.TempDir())
	if exit.Code(err) != exit.NoLeader || !strings.Contains(err.Error(), "no quorum: 1 of 3 SNs answer") {
		t.Errorf("exit code %d, %v", exit.Code(err), err)
	}
}
