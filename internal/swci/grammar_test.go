package swci_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

var update = flag.Bool("update", false, "rewrite golden files")

func grammar(tb testing.TB) *swci.Grammar {
	tb.Helper()
	g, err := swci.NewGrammar()
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

func TestReferenceIsCurrent(t *testing.T) {
	for path, write := range map[string]func(io.Writer){
		"docs/reference/cli.md":    grammar(t).WriteReference,
		"web/src/documents.gen.ts": swci.WriteDocumentTypes,
		"web/src/report.gen.ts":    swci.WriteReportTypes,
	} {
		var got bytes.Buffer
		write(&got)
		if *update {
			if err := os.WriteFile("../../"+path, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile("../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s is out of date, run go test ./internal/swci -update (-file +table):\n%s", path, diff)
		}
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	takes := map[string]bool{}
	for _, c := range grammar(t).Commands() {
		if c.Summary == "" || c.Details == "" || c.Example == "" || c.Group == "" || c.Run == nil {
			t.Errorf("%q lacks summary, details, example, group or run", c.Pattern)
		}
		if strings.HasSuffix(c.Summary, ".") || strings.ToUpper(c.Summary[:1]) != c.Summary[:1] {
			t.Errorf("%q: summary must begin with a capital and end without period", c.Pattern)
		}
		for _, f := range c.Flags {
			type valued interface{ TakesValue() bool }
			for _, n := range f.Names() {
				v := f.(valued).TakesValue()
				if old, seen := takes[n]; seen && old != v {
					t.Errorf("option %s takes a value in one command and none in another: lines could not be split", n)
				}
				takes[n] = v
			}
		}
	}
}

// fakeAPI is a swarm of two nodes with one contract.
type fakeAPI struct{ reset, deleted []string }

func (*fakeAPI) GetSwarm(context.Context) (*swarmv1.GetSwarmResponse, error) {
	return &swarmv1.GetSwarmResponse{SwarmId: "s", Version: "v9"}, nil
}

func (*fakeAPI) ListNodes(context.Context) (*swarmv1.ListNodesResponse, error) {
	return &swarmv1.ListNodesResponse{Bans: fakeBans(), Candidates: fakeCandidates(), Invited: fakeInvited(), Nodes: []*swarmv1.Node{
		{Name: "sl-0", Role: "sl", Host: "10.0.0.2", FsPort: 30305, PeerId: "12D3KooB", Sn: "sn-0", Banned: true, LiveSinceUnixMs: 10_000},
		{Name: "sn-0", Role: "sn", Host: "10.0.0.1", PeerId: "12D3KooS", ApiPort: 30304, P2PPort: 30303, FsPort: 30305, Live: true, Sentinel: true, Leader: true, LiveSinceUnixMs: 1_000},
	}}, nil
}

func (*fakeAPI) ForgetNode(_ context.Context, name string) error {
	if name != "sl-0" {
		return exit.New(exit.Conflict, "stop it first", "node %q is alive", name)
	}
	return nil
}

func (*fakeAPI) BanNode(_ context.Context, name, reason string) (*swarmv1.Ban, error) {
	if name == "sn-0" {
		return nil, exit.New(exit.Conflict, "start another SN first", "node sn-0 is the only SN of the swarm")
	}
	return &swarmv1.Ban{PeerId: "12D3KooA", Name: name, Reason: reason, By: "spiffe://a.example/swarm/swci", AtUnixMs: 10_000}, nil
}

func (*fakeAPI) UnbanNode(_ context.Context, name string) error {
	if name != "sl-0" && name != "12D3KooB" {
		return exit.New(exit.NotFound, "see: swarmctl list nodes", "no node %q, and no such peer ID", name)
	}
	return nil
}

func fakeBans() []*swarmv1.Ban {
	return []*swarmv1.Ban{
		{PeerId: "12D3KooA", Name: "sl-9", Reason: "copied", By: "spiffe://a.example/swarm/swci", AtUnixMs: 9_000},
		{PeerId: "12D3KooB", Name: "sl-0", AtUnixMs: 10_000},
	}
}

func fakeInvited() []*swarmv1.Invited {
	return []*swarmv1.Invited{{Name: "sn-4", SpiffeId: "spiffe://a.example/swarm/sn/sn-4", Number: 2, By: "spiffe://a.example/swarm/swci", AtUnixMs: 9_000, ExpiresUnixMs: 86_400_000}}
}

// Two SNs wait under one name, and one has been admitted.
func fakeCandidates() []*swarmv1.Candidate {
	return []*swarmv1.Candidate{
		{Name: "sn-1", PeerId: "12D3KooC", SpiffeId: "spiffe://a.example/swarm/sn", Host: "10.0.0.3", SinceUnixMs: 9_000},
		{Name: "sn-2", PeerId: "12D3KooD", SinceUnixMs: 9_000},
		{Name: "sn-2", PeerId: "12D3KooE", SinceUnixMs: 9_000},
		{Name: "sn-3", PeerId: "12D3KooF", SinceUnixMs: 9_000, Admitted: true, AdmittedBy: "spiffe://a.example/swarm/swci"},
	}
}

func (*fakeAPI) AdmitNode(_ context.Context, name, _ string) error {
	if name == "sn-9" {
		return exit.New(exit.Conflict, "start it under another --name", "the name sn-9 belongs to another node key")
	}
	return nil
}

func (*fakeAPI) GetHealth(context.Context) ([]client.SNHealth, error) {
	sl := &swarmv1.NodeHealth{
		Name: "sl-0", Role: "sl", Healthy: true, UntilUnixMs: 2_411_000, SvidNotAfterUnixMs: 3_611_000, LeaderSeenUnixMs: 10_000, Source: "files",
	}
	sn := &swarmv1.NodeHealth{Name: "sn-0", Role: "sn", Healthy: true, UntilUnixMs: 2_411_000, SvidNotAfterUnixMs: 3_611_000, LeaderSeenUnixMs: 11_000}
	return []client.SNHealth{{Name: "sn-0", Address: "10.0.0.1:30304", Nodes: []*swarmv1.NodeHealth{sn, sl}}}, nil
}

func (*fakeAPI) ListContracts(context.Context) (*swarmv1.ListContractsResponse, error) {
	return &swarmv1.ListContractsResponse{Contracts: []*swarmv1.ContractSummary{{Name: "c", Phase: "training", Run: 1, Round: 4, MinPeers: 2, OpenSessions: 2, CreatedUnixMs: 3_000}}}, nil
}

func (*fakeAPI) GetContractStatus(_ context.Context, name string) (*swarmv1.GetContractStatusResponse, error) {
	if name == "lost" {
		return &swarmv1.GetContractStatusResponse{Contract: &swarmv1.ContractView{
			Name: "lost", Run: 1, Phase: "training", LostModel: &swarmv1.LostModel{Round: 4, Digest: "0123456789abcdef", ResumedRound: 3, AtUnixMs: 10_000},
		}}, nil
	}
	if name == "adopted" {
		return &swarmv1.GetContractStatusResponse{Contract: &swarmv1.ContractView{
			Name: name, Run: 1, Phase: "training", AdoptedRound: &swarmv1.AdoptedRound{Round: 9, ProvenRound: 7, LastRound: 3, Signed: 2, AtUnixMs: 10_000},
		}}, nil
	}
	if name != "c" {
		return nil, exit.New(exit.NotFound, "swarmctl list contracts shows what there is", "no contract %q", name)
	}
	return &swarmv1.GetContractStatusResponse{
		Contract: &swarmv1.ContractView{
			Name: "c", Run: 1, Phase: "training", Terms: &swarmv1.Terms{Method: "mean", MinPeers: 2},
			Committed: &swarmv1.CommittedRound{Round: 4, Digest: "0123456789abcdef", Participants: []string{"sl-0", "sl-1"}},
			Sessions: []*swarmv1.Session{{
				Node: "sl-0", Live: true, State: "open", LastRound: 4,
				Progress:  &swarmv1.Progress{Phase: "ready", Loss: 0.5, HasLoss: true, EpochsDone: 1, TotalEpochs: 3},
				Isolation: "container, no network", Ranks: 3,
			}, {Node: "sl-1\x1b[2J", State: "open", Isolation: "container, open: network lan\x1b[2J"}},
		},
		Waiting: "waiting for 1 more peer", WaitingSinceUnixMs: 5_000,
		Explanation: []string{"contract c, run 1, is training: round 5 is due", "waiting for 1 more peer\x1b[2J"},
	}, nil
}

func (*fakeAPI) CreateContract(_ context.Context, name string, rules *swarmv1.Rules) (*swarmv1.ContractView, error) {
	if name == "busy" {
		return nil, exit.New(exit.Conflict, "wait until they end", "contract busy has 2 open sessions: its rules can't be changed while sessions are open")
	}
	return &swarmv1.ContractView{Name: name, Run: 1, Rules: rules}, nil
}

func (f *fakeAPI) ResetContract(_ context.Context, name string, force bool) (uint64, error) {
	if !force && name == "c" {
		return 0, exit.New(exit.Conflict, "use force", "2 sessions are open")
	}
	f.reset = append(f.reset, name)
	return 2, nil
}

func (f *fakeAPI) DeleteContract(_ context.Context, name string, force bool) (uint64, error) {
	if !force {
		return 0, exit.New(exit.Conflict, "wait until they end", "2 sessions are open")
	}
	f.deleted = append(f.deleted, name)
	return 3, nil
}

func (f *fakeAPI) HaltContract(_ context.Context, verb, name string, run uint64) (*swarmv1.ContractView, error) {
	if run != 1 {
		return nil, exit.New(exit.NotFound, "list contracts", "no contract %q in run %d", name, run)
	}
	c := &swarmv1.ContractView{Name: name, Run: 1, Phase: "training", Committed: &swarmv1.CommittedRound{Round: 4}}
	halt := &swarmv1.Halt{By: "spiffe://a.example/swarm/swci/dr-who", AtUnixMs: 10_000}
	switch verb {
	case "pause":
		c.Phase, c.Halt, c.Plan = "paused", halt, &swarmv1.Plan{Round: 5}
	case "end":
		halt.Ends = true
		c.Phase, c.Halt = "finalising", halt
	}
	return c, nil
}

func run(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	state := t.TempDir()
	var out, errs bytes.Buffer
	env := swci.Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Getenv: func(k string) string {
			return map[string]string{"XDG_STATE_HOME": state, "SWARM_IDENTITY": "/run/agent.sock"}[k]
		},
		Now: func() time.Time { return time.UnixMilli(11_000) }, IsTerminal: func(io.Writer) bool { return false },
	}
	connect := func(_ context.Context, target swci.Context) (client.Operator, func(), error) {
		if len(target.SNs) == 0 || target.Identity == "" {
			t.Errorf("target %+v is incomplete", target)
		}
		return answering(t, &fakeAPI{}), func() {}, nil
	}
	err = swci.Execute(t.Context(), args, &swci.Session{Env: env, Connect: connect})
	return out.String(), err
}

func TestCommands(t *testing.T) {
	sn := "--sn=10.0.0.1:30304"
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"nodes", []string{sn, "list", "nodes"}, `NAME  ROLE  ADDRESS         STATE     FOR  REACH  VERSION  NOTE
sl-0  sl    10.0.0.2:30305  banned    1s   -      -        -
sn-0  sn    10.0.0.1:30304  alive     10s  -      -        sentinel, leader
sl-9  -     -               banned    2s   -      -        no node is registered with this key
sn-1  sn    10.0.0.3        waiting   2s   -      -        swarmctl admit node sn-1 --peer-id 12D3KooC
sn-2  sn    -               waiting   2s   -      -        swarmctl admit node sn-2 --peer-id 12D3KooD
sn-2  sn    -               waiting   2s   -      -        swarmctl admit node sn-2 --peer-id 12D3KooE
sn-3  sn    -               admitted  2s   -      -        it has not joined
sn-4  sn    -               invited   2s   -      -        until 1970-01-02 00:00 UTC; to take it back: swarmctl forget node sn-4
`},
		{"health", []string{"get", "health", sn}, `NAME  ROLE  HEALTHY  FOR         CERT        SEEN    WHY NOT
sl-0  sl    yes      40 minutes  60 minutes  1s ago  -
sn-0  sn    yes      40 minutes  60 minutes  0s ago  -
`},
		{"contracts, keywords in any case", []string{"LIST", sn, "Contracts"}, `NAME  PHASE     RUN  ROUND  MIN PEERS  OPEN  ENDED
c     training  1    4      2          2     0
`},
		{"status", []string{"get", "contract", "status", "c", "--sn", "10.0.0.1:30304"}, `contract   c, run 1
phase      training
terms      method mean, min peers 2
committed  round 4, model 0123456789ab, from sl-0, sl-1
waiting    for 1 more peer (6s)

NODE  STATE  PHASE  ROUND  EPOCH  LOSS    METRIC  WEIGHT  ISOLATION                     NOTE
sl-0  open   ready  4      1/3    0.5000  -       0       container, no network         3 ranks
sl-1  open   -      0      0      -       -       0       container, open: network lan  node is dead
`},
		{"version", []string{"--version"}, "swarmctl devel unknown " + runtime.Version() + "\n"},
		{"explain", []string{"explain", "contract", "c", sn}, "contract c, run 1, is training: round 5 is due\nwaiting for 1 more peer\n"},
		{"explain as JSON", []string{"explain", "contract", "c", "-o", "json", sn}, `{
  "name": "c",
  "run": 1,
  "phase": "training",
  "round": 4,
  "waiting": "waiting for 1 more peer",
  "stuck": true,
  "explanation": [
    "contract c, run 1, is training: round 5 is due",
    "waiting for 1 more peer\u001b[2J"
  ],
  "training_warnings": [],
  "no_quorum": null
}
`},
		{"create", []string{"create", "contract", "study", sn}, "contract study has no rules\n"},
		{"create with rules", []string{
			"CREATE", "CONTRACT", "study", "--method", "Krum(F=1)", "--min-peers=5", "--expected-peers", "6", "--require", "a", "--require", "b",
			"--min-weight-share", "0.8", "--weight-cap", "0.4", "--export", "--non-finite", "fail", "--quorum-wait", "1m", "--stall-grace", "90s",
			"--min-peers-timeout", "1h", "--witnesses", "3", "--checkin-default", "Once", sn,
		}, "contract study: method krum(f=1), min peers 5, expected peers 6, required a, b, each part merged by 3, weight share at least 0.8, weight cap 0.4, models may be fetched, not finite: fail, check-in once unless programs choose, quorum wait 1m0s, stall grace 1m30s, min-peers timeout 1h0m0s\n"},
		{"reset", []string{"reset", "contract", "c", "FORCE", sn}, "contract c begins run 2\n"},
		{"reset as JSON", []string{"-o", "json", "reset", "contract", "c", "force", sn}, "{\n  \"name\": \"c\",\n  \"run\": 2\n}\n"},
		{"pause", []string{"pause", "contract", "c", sn}, "contract c is paused, by spiffe://a.example/swarm/swci/dr-who since 1970-01-01 00:00:10 UTC: no round is planned until \"swarmctl resume contract c\"; round 5 is being merged, which still ends\n"},
		{"resume", []string{"RESUME", "CONTRACT", "c", sn}, "contract c is not paused: rounds are planned again\n"},
		{"end", []string{"end", "contract", "c", sn}, "contract c is being ended: the next round is the final one\n"},
		{"pause as JSON", []string{"pause", "contract", "c", "-o=json", sn}, `{
  "name": "c",
  "run": 1,
  "phase": "paused",
  "halt": {
    "ends": false,
    "by": "spiffe://a.example/swarm/swci/dr-who",
    "at": "1970-01-01T00:00:10.000Z"
  }
}
`},
		{"ban", []string{"ban", "node", "sl-0", "--reason", "key copied", sn}, "node sl-0 is banned; its node key is 12D3KooA\n"},
		{"ban as JSON", []string{"ban", "node", "sl-0", "--reason=key copied", "-o", "json", sn}, `{
  "peer_id": "12D3KooA",
  "name": "sl-0",
  "reason": "key copied",
  "by": "spiffe://a.example/swarm/swci",
  "at": "1970-01-01T00:00:10.000Z"
}
`},
		{"unban", []string{"unban", "node", "12D3KooB", sn}, "node 12D3KooB is no longer banned\n"},
		{"admit who waits", []string{"admit", "node", "sn-1", sn}, "SN sn-1 may join; its node key is 12D3KooC\n"},
		{"admit a key", []string{"ADMIT", "NODE", "sn-2", "--peer-id", "12D3KooE", sn}, "SN sn-2 may join; its node key is 12D3KooE\n"},
		{"admit as JSON", []string{"admit", "node", "sn-4", "--peer-id=12D3KooG", "-o", "json", sn}, "{\n  \"name\": \"sn-4\",\n  \"peer_id\": \"12D3KooG\"\n}\n"},
		{"forget", []string{"forget", "node", "sl-0", sn}, "node sl-0 is forgotten, its name is free\n"},
		{"contracts as JSON", []string{"list", "contracts", "-o=json", sn}, `{
  "contracts": [
    {
      "name": "c",
      "run": 1,
      "phase": "training",
      "round": 4,
      "min_peers": 2,
      "open_sessions": 2,
      "ended_sessions": 0,
      "created": "1970-01-01T00:00:03.000Z"
    }
  ],
  "no_quorum": null
}
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := run(t, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorsHaveCodeAndHint(t *testing.T) {
	sn := "--sn=10.0.0.1:30304"
	tests := []struct {
		name, args, want, hint string
		code                   int
	}{
		{"unknown command", "lst nodes", `unknown command "lst nodes"`, `did you mean "swarmctl list nodes"?`, exit.Usage},
		{"a word of other tools", "up", `unknown command "up"`, `did you mean "swarmctl local up"?`, exit.Usage},
		{"one with several meanings", "status", `unknown command "status"`, `did you mean "swarmctl get contract status", "swarmctl list nodes" or "swarmctl get health"?`, exit.Usage},
		{"one that other launchers of jobs have", "submit job.yaml", `unknown command "submit job.yaml"`, `did you mean "swarmctl run job"?`, exit.Usage},
		{"run without its second word", "run job.yaml", `unknown command "run job.yaml"`, `did you mean "swarmctl local run" or "swarmctl run job"?`, exit.Usage},
		{"one with no near spelling", "init", `unknown command "init"`, `"swarmctl local run"`, exit.Usage},
		{"a list in the singular", "list task", `unknown command "list task"`, `did you mean "swarmctl list tasks"?`, exit.Usage},
		{"another command goes on", "list context", `unknown command "list context"`, `did you mean "swarmctl list contexts"?`, exit.Usage},
		{"metrics of a prompt", "run-swci --metrics 127.0.0.1:9464", "--metrics is for web mode", "give --web too", exit.Failed},
		{"half a command", "get contract", "unknown command", "it goes on: swarmctl get contract status NAME", exit.Usage},
		{"missing name", "get contract status", "NAME is missing", "swarmctl help get contract status", exit.Usage},
		{"word too many", "list nodes now", `"now" is one word too many`, "help list nodes", exit.Usage},
		{"unknown option", "list nodes --contxt x", "unknown option --contxt", "did you mean --context?", exit.Usage},
		{"option of another command", "list nodes --peers 3", "unknown option --peers", "", exit.Usage},
		{"option without value", "list nodes --sn", "needs a value", "", exit.Usage},
		{"bad number", "local run --peers x", `--peers "x" is not valid`, "give a whole number", exit.Usage},
		{"time without unit", "create contract c --quorum-wait 5", `--quorum-wait "5" is not valid`, "such as 90s or 5m", exit.Usage},
		{"misspelt method", "create contract c --method Krumm", `there is no "krumm"`, "did you mean krum?", exit.Usage},
		{"method's parameter", "create contract c --method krum(f=-1)", "want a whole number from 0", "docs/reference/methods.md", exit.Usage},
		{"share in words", "create contract c --weight-cap half", `--weight-cap "half" is not valid`, "such as 0.4", exit.Usage},
		{"output form", "list nodes -o yaml " + sn, `output form "yaml"`, "json", exit.Usage},
		{"no SN", "list nodes", "no SN is known", "--sn", exit.Usage},
		{"no such context", "list nodes --context x", `context "x" does not exist`, "list contexts", exit.NotFound},
		{"bad context name", "switch context ../x", "is not valid", "", exit.Usage},
		{"pause of none", "pause contract none " + sn, `pause contract "none": no contract "none" in run 0`, "list contracts", exit.NotFound},
		{"not found", "get contract status d " + sn, `get contract status of "d": no contract "d"`, "list contracts", exit.NotFound},
		{"a command's first word", "bench", "unknown command", "swarmctl bench merge", exit.Usage},
		{"live node", "forget node sn-0 " + sn, `forget node "sn-0": node "sn-0" is alive`, "stop it", exit.Conflict},
		{"ban of the only SN", "ban node sn-0 " + sn, `ban node "sn-0": node sn-0 is the only SN`, "start another", exit.Conflict},
		{"unban of nobody", "unban node x " + sn, `unban node "x": no node "x"`, "list nodes", exit.NotFound},
		{"nobody waits", "admit node sn-4 " + sn, `admit node "sn-4": no SN waits under that name`, "--peer-id", exit.NotFound},
		{"admitted already", "admit node sn-3 " + sn, "no SN waits under that name", "list nodes", exit.NotFound},
		{"two wait", "admit node sn-2 " + sn, `admit node "sn-2": 2 SNs wait under that name`, "--peer-id 12D3KooD --peer-id 12D3KooE", exit.Conflict},
		{"admission refused", "admit node sn-9 --peer-id 12D3KooG " + sn, `admit node "sn-9": the name sn-9 belongs`, "another --name", exit.Conflict},
		{"conflict", "reset contract c " + sn, "2 sessions are open", "use force", exit.Conflict},
		{"sessions are open", "delete contract c " + sn, "2 sessions are open", "wait until they end", exit.Conflict},
		{"rules under sessions", "create contract busy " + sn, `create contract "busy": contract busy has 2 open sessions`, "wait until", exit.Conflict},
		{"unknown method", "create contract c --method guess " + sn, "--method", "mean", exit.Usage},
		{"parameter of a method", "create contract c --method krum(f=-1) " + sn, "--method", "", exit.Usage},
		{"share", "create contract c --weight-cap 40 " + sn, "--weight-cap 40", "0.4", exit.Usage},
		{"check-in mode", "create contract c --checkin-default never " + sn, `--checkin-default "never" is not known`, "use snapshot, active, inactive or once", exit.Usage},
		{"arguments of a local swarm's program", "local run --model-program-args --lr='1", "--model-program-args: a quote is not closed", "as at a shell's prompt", exit.Usage},
		{"check-in mode of a local swarm", "local run --checkin-default never", `--checkin-default "never" is not known`, "use snapshot, active, inactive or once", exit.Usage},
		{"policy", "create contract c --non-finite ignore " + sn, "--non-finite", "drop", exit.Usage},
		{"negative wait", "create contract c --quorum-wait=-1s " + sn, "--quorum-wait", "", exit.Usage},
		{"negative pause", "bench merge --pause=-1s", "--pause -1s is negative", "write it like 2s", exit.Usage},
		{"nobody to explain", "explain contract d " + sn, `explain contract "d": no contract "d"`, "list contracts", exit.NotFound},
		{"size", "bench merge --size 3x", `size "3x"`, "100MiB", exit.Usage},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := run(t, strings.Fields(tt.args)...)
			if err == nil || exit.Code(err) != tt.code || !strings.Contains(err.Error(), tt.want) || !strings.Contains(exit.Hint(err), tt.hint) {
				t.Errorf("error %v, code %d, hint %q; want %q, %d, %q", err, exit.Code(err), exit.Hint(err), tt.want, tt.code, tt.hint)
			}
		})
	}
}

func TestExitCodeOfPlainErrors(t *testing.T) {
	for err, want := range map[error]int{
		nil: exit.OK, errors.New("x"): exit.Failed, context.DeadlineExceeded: exit.TimedOut, context.Canceled: exit.Interrupted, exit.ErrInterrupted: exit.Interrupted,
	} {
		if got := exit.Code(err); got != want {
			t.Errorf("Code(%v) = %d, want %d", err, got, want)
		}
	}
}

func FuzzExecute(f *testing.F) {
	for _, s := range []string{"list nodes", "help get contract", "wait for ip service 1 2", "set context env a b c", "create context x with service y:1", "reset contract a force --sn=b", "-o json -- list", "--=x", "-"} {
		f.Add(s)
	}
	g := grammar(f)
	f.Fuzz(func(t *testing.T, s string) {
		if err := g.Check(strings.Fields(s)); err != nil && exit.Code(err) != exit.Usage {
			t.Errorf("%q: %v has code %d", s, err, exit.Code(err))
		}
	})
}

func (*fakeAPI) ReadLedger(_ context.Context, w io.Writer) (int64, error) {
	n, err := io.WriteString(w, "one\ntwo\n")
	return int64(n), err
}
