package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/local"
	"github.com/swarmd/swarmd/internal/swci/report"
)

// fakeAPI answers as a swarm that committed two rounds, and warns.
type fakeAPI struct{ warnings []*swarmv1.Warning }

func (fakeAPI) GetSwarm(context.Context) (*swarmv1.GetSwarmResponse, error) {
	return &swarmv1.GetSwarmResponse{SwarmId: "abcdef"}, nil
}

func (fakeAPI) ListContracts(context.Context) (*swarmv1.ListContractsResponse, error) {
	return &swarmv1.ListContractsResponse{Contracts: []*swarmv1.ContractSummary{{Name: "unused"}, {Name: "mine", OpenSessions: 2}}}, nil
}

func (f fakeAPI) GetContractStatus(_ context.Context, name string) (*swarmv1.GetContractStatusResponse, error) {
	last := &swarmv1.CommittedRound{Round: 2, Attempt: 1, Digest: "d2", Participants: []string{"sl-0", "sl-1"}, PlannedUnixMs: 1000, CommittedUnixMs: 1250, Final: true}
	return &swarmv1.GetContractStatusResponse{
		Contract: &swarmv1.ContractView{Name: name, Committed: last},
		Recent:   []*swarmv1.CommittedRound{{Round: 1, Attempt: 1, Participants: []string{"sl-0", "sl-1"}}, last}, TrainingWarnings: f.warnings,
	}, nil
}

func (fakeAPI) CreateContract(_ context.Context, name string, rules *swarmv1.Rules) (*swarmv1.ContractView, error) {
	return &swarmv1.ContractView{Name: name, Rules: rules}, nil
}

// GetHistory has the second round, whose first attempt failed.
func (fakeAPI) GetHistory(context.Context, *swarmv1.GetHistoryRequest) (*swarmv1.GetHistoryResponse, error) {
	training := uint64(1200)
	return &swarmv1.GetHistoryResponse{Rounds: []*swarmv1.HistoryRound{{Round: 2, TrainingMs: &training, Failed: []*swarmv1.HistoryFailure{{Attempt: 1, Blamed: "sl-1", Reason: "it sent\nnothing"}}}}}, nil
}

// ReadLedger has the two rounds, with other weights in the second.
func (fakeAPI) ReadLedger(_ context.Context, w io.Writer) (int64, error) {
	var n int
	head := ledger.Head{}
	for i, weights := range [][]uint32{{1, 1}, {1, 3}} {
		body := ledger.Round{Contract: "mine", Run: 1, Round: uint64(i + 1), Attempt: 1, Method: "mean", Model: strings.Repeat("d", 64)}
		for k, weight := range weights {
			body.Participants = append(body.Participants, ledger.Participant{Node: fmt.Sprintf("sl-%d", k), Weight: weight})
		}
		line, next, err := ledger.Append(head, 1000, body)
		if err != nil {
			return 0, err
		}
		head = next
		k, err := w.Write(line)
		if n += k; err != nil {
			return int64(n), err
		}
	}
	return int64(n), nil
}

// safeBuffer is written by many goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

type fixture struct {
	cfg            local.RunConfig
	host           local.Host
	stdout, stderr *safeBuffer
	tmp            string // TMPDIR of the run
}

// setup makes a project whose program is a shell script, with two peers.
func setup(t *testing.T, program string, environ ...string) *fixture {
	t.Helper()
	// t.TempDir's paths are too long for sockets; then the run would not use TMPDIR.
	dir, err := os.MkdirTemp("/tmp", "lt-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, d := range []string{"model/sub", "shards/0", "shards/1", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"model/train.sh": program, "model/sub/helper": "x", "shards/0/data": "a", "shards/1/data": "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{stdout: &safeBuffer{}, stderr: &safeBuffer{}, tmp: filepath.Join(dir, "tmp")}
	t.Setenv("TMPDIR", f.tmp)
	f.cfg = local.RunConfig{
		Peers: 2, SNs: 2, Platform: "PYT", ModelDir: filepath.Join(dir, "model"), Program: "train.sh",
		DataDir: filepath.Join(dir, "shards", "{peer}"), Out: filepath.Join(dir, "out"), Python: "/bin/sh", Swarmd: self,
	}
	f.host = local.Host{
		Stdout: f.stdout, Stderr: f.stderr, Getenv: func(string) string { return "" },
		Environ: append(append(os.Environ(), "FAKE_SWARMD=1"), environ...), Now: time.Now, Width: func() int { return 80 },
		Connect: func(context.Context, []string, string) (local.API, func(), error) { return fakeAPI{}, func() {}, nil },
	}
	return f
}

// nothingLeft fails when a process of this run or a temporary file is left.
func (f *fixture) nothingLeft(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file == fmt.Sprintf("/proc/%d/environ", os.Getpid()) {
			continue
		}
		data, err := os.ReadFile(file)
		if err == nil && bytes.Contains(data, []byte("TMPDIR="+f.tmp)) {
			t.Errorf("a process is left: %s", file)
		}
	}
	left, err := os.ReadDir(f.tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v %v", left, err)
	}
}

// summary reads summary.json, and holds that the page is there too.
func (f *fixture) summary(t *testing.T) (s report.Summary) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.cfg.Out, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	if html, err := os.ReadFile(filepath.Join(f.cfg.Out, "report.html")); err != nil || !bytes.Contains(html, []byte("</html>")) {
		t.Errorf("report.html: %v", err)
	}
	return s
}

const goodProgram = `
[ -f sub/helper ] && [ "$MIN_PEERS" = 2 ] || exit 9
acc=0.9; [ -n "$SWARM_LOOPBACK" ] && acc=0.4
sha=$(printf '%064d' ${SAME:-7})
echo "hello from $SWARM_PEER with $(cat $DATA_DIR/data)"
echo '{"event":"start","ts":1,"total_epochs":2}' >> $SWARM_METRICS_FILE
echo '{"event":"epoch","ts":1,"epoch":1,"loss":0.5,"metric":0.1}' >> $SWARM_METRICS_FILE
echo '{"event":"merge","ts":1,"epoch":1,"round":1,"loss":0.6,"metric":0.2,"participants":["sl-0","sl-1"],"seconds":0.1}' >> $SWARM_METRICS_FILE
echo '{"event":"end","ts":2,"round":2,"rounds":2,"loss":0.1,"metric":'$acc',"model_sha256":"'$sha'"}' >> $SWARM_METRICS_FILE
`

func TestRunTrainsAndReports(t *testing.T) {
	f := setup(t, goodProgram)
	f.cfg.Baseline = true
	if err := local.Run(t.Context(), f.cfg, f.host); err != nil {
		t.Fatalf("Run: %v\n%s", err, f.stderr)
	}
	f.nothingLeft(t)
	data, err := os.ReadFile(filepath.Join(f.cfg.Out, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s report.Summary
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	if s.Rounds != 2 || !s.ModelsEqual || s.Contract != "mine" || len(s.Peers) != 2 {
		t.Errorf("summary: %s", data)
	}
	for _, p := range s.Peers {
		got := fmt.Sprint(p.Name, *p.LocalAccuracy, *p.SwarmAccuracy, p.Rounds)
		if want := p.Name + fmt.Sprint(0.4, 0.9, 2); got != want {
			t.Errorf("peer: got %s, want %s", got, want)
		}
	}
	for _, want := range []string{"sl-1 | hello from sl-1 with b", "sl-0 alone | hello from sl-0 with a", "sl-0   round 2"} {
		if !strings.Contains(f.stderr.String(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, f.stderr)
		}
	}
	if out := f.stdout.String(); !strings.Contains(out, "sl-0  0.4000      0.9000  sha256:000000000000  2") || !strings.Contains(out, "the same bytes") {
		t.Errorf("stdout:\n%s", out)
	}
	html, err := os.ReadFile(filepath.Join(f.cfg.Out, "report.html"))
	if err != nil || !bytes.Contains(html, []byte(`"charts":[{"title":"`)) {
		t.Errorf("report.html: %v", err)
	}
	if want := `"durations_ms":{"waiting":null,"training":1200,"exchange":null,"commit":null},"failed":[{"attempt":1,"blamed":"sl-1","reason":"it sent nothing"}]`; bytes.Count(html, []byte(want)) != 1 {
		t.Errorf("report.html does not have %s once", want)
	}
	for _, want := range []string{"logs/sn-1.log", "logs/authority.log", "sl-1/program.log", "sl-1/local-only/train.sh"} {
		if _, err := os.Stat(filepath.Join(f.cfg.Out, want)); err != nil {
			t.Error(err)
		}
	}
	p := s.Peers[1]
	if p.Contributed == nil || *p.Contributed != 2 || p.Weight == nil || *p.Weight != 3 || p.TrainSeconds == nil || *p.TrainSeconds != 1 || *p.MergeSeconds != 0.1 {
		t.Errorf("peer: %+v", p)
	}
	if s.State != report.Finished || s.Project != "model" || len(s.ProgramSHA256) != 64 || s.Ended == "" || s.Reason != "" {
		t.Errorf("summary: %+v", s)
	}
	// A second run moves the first one's results aside.
	aside := f.cfg.Out + ".2"
	if err := os.Mkdir(f.cfg.Out+".1", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := local.Run(t.Context(), f.cfg, f.host); err != nil {
		t.Errorf("second run: %v", err)
	}
	if moved, err := os.ReadFile(filepath.Join(aside, "summary.json")); err != nil || !bytes.Equal(moved, data) {
		t.Errorf("%s has not the first run's summary: %v", aside, err)
	}
	if _, err := os.Stat(filepath.Join(aside, "sl-1/program.log")); err != nil || !strings.Contains(f.stderr.String(), "were moved to "+aside) {
		t.Errorf("%v\n%s", err, f.stderr)
	}
}

func TestRunNamesThePeerThatFails(t *testing.T) {
	f := setup(t, "sleep 30 & \nif [ $SWARM_PEER = sl-1 ]; then echo one; echo 'ValueError: boom' >&2; exit 3; fi\nsleep 30")
	// What an earlier run left that came to no round is not worth a folder.
	if err := os.MkdirAll(filepath.Join(f.cfg.Out, "sl-9"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{".swarm-run": "", "summary.json": `{"rounds": 0}`} {
		if err := os.WriteFile(filepath.Join(f.cfg.Out, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	err := local.Run(t.Context(), f.cfg, f.host)
	if exit.Code(err) != exit.Failed || !strings.Contains(err.Error(), "sl-1 ended with exit code 3, its last line: ValueError: boom") {
		t.Errorf("error: %v", err)
	}
	if !strings.Contains(exit.Hint(err), "sl-*/program.log") {
		t.Errorf("hint: %s", exit.Hint(err))
	}
	f.nothingLeft(t)
	for _, gone := range []string{f.cfg.Out + ".1", filepath.Join(f.cfg.Out, "sl-9")} {
		if _, err := os.Stat(gone); err == nil {
			t.Errorf("%s is there", gone)
		}
	}
	if s := f.summary(t); s.State != report.Failed || !strings.Contains(s.Reason, "ValueError: boom") {
		t.Errorf("summary: %+v", s)
	}
}

const traceback = `
echo 'Traceback (most recent call last):'
echo '  File "'$MODEL_DIR'/train.py", line 7, in <module>'
echo '    swarm.on_train_begin()'
echo '  File "/tmp/x/swarmlearning/base.py", line 151, in train_begin'
echo '    self._sync()'
echo "swarmlearning.errors.TermsDifferError: tensor 0 is float64 here: use the same model, or begin anew: swarmctl reset contract c"
exit 1
`

func TestRunNamesTheUsersOwnLineOnce(t *testing.T) {
	f := setup(t, traceback)
	err := local.Run(t.Context(), f.cfg, f.host)
	want := "sl-0 and sl-1 ended with exit code 1: TermsDifferError: tensor 0 is float64 here: use the same model\n    at train.py, line 7: swarm.on_train_begin()"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	f.nothingLeft(t)
}

func TestRunGoesOnWithEnoughPeers(t *testing.T) {
	f := setup(t, "[ $SWARM_PEER = sl-1 ] && exit 3\nMIN_PEERS=2\n"+goodProgram)
	f.cfg.MinPeers = 1
	err := local.Run(t.Context(), f.cfg, f.host)
	if exit.Code(err) != exit.Failed || !strings.Contains(err.Error(), "sl-1 ended with exit code 3") {
		t.Errorf("error: %v", err)
	}
	f.nothingLeft(t)
	data, err := os.ReadFile(filepath.Join(f.cfg.Out, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s report.Summary
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Peers) != 2 || s.Peers[0].Failed || !s.Peers[1].Failed || !s.ModelsEqual || s.State != report.Finished || !strings.HasPrefix(s.Reason, "sl-1 ended") {
		t.Errorf("summary: %s", data)
	}
	if !strings.Contains(f.stdout.String(), "same bytes, but for 1 that failed") {
		t.Errorf("stdout:\n%s", f.stdout)
	}
}

func TestRunStops(t *testing.T) {
	tests := []struct {
		name    string
		environ string
		timeout time.Duration
		want    int
	}{
		{name: "on Ctrl-C", want: exit.Interrupted},
		{name: "on timeout", timeout: time.Second, want: exit.TimedOut},
		{name: "though daemons ignore TERM", environ: "FAKE_STUBBORN=1", want: exit.Interrupted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.environ != "" && testing.Short() {
				t.Skip("waits for the grace time")
			}
			f := setup(t, strings.Split(goodProgram, "echo '{\"event\":\"end\"")[0]+"touch started; sleep 60 & sleep 60", tt.environ)
			f.cfg.Timeout = tt.timeout
			ctx, cancel := context.WithCancelCause(t.Context())
			if tt.timeout == 0 {
				go func() {
					// The file tells that both programs run.
					for _, peer := range []string{"sl-0", "sl-1"} {
						for _, err := os.Stat(filepath.Join(f.cfg.Out, peer, "started")); err != nil && ctx.Err() == nil; {
							<-time.After(10 * time.Millisecond)
							_, err = os.Stat(filepath.Join(f.cfg.Out, peer, "started"))
						}
					}
					cancel(exit.ErrInterrupted)
				}()
			}
			err := local.Run(ctx, f.cfg, f.host)
			cancel(nil)
			if got := exit.Code(err); got != tt.want {
				t.Errorf("exit code %d, want %d (%v)", got, tt.want, err)
			}
			if s := f.summary(t); s.State != report.Interrupted || s.Reason == "" || tt.timeout == 0 && (s.Rounds != 2 || s.Peers[0].SwarmAccuracy == nil) {
				t.Errorf("summary: %+v", s)
			}
			f.nothingLeft(t)
		})
	}
}

func TestRunReportsDifferentModels(t *testing.T) {
	f := setup(t, "[ $SWARM_PEER = sl-0 ] && SAME=1\n"+goodProgram)
	err := local.Run(t.Context(), f.cfg, f.host)
	if exit.Code(err) != exit.Failed || !strings.Contains(err.Error(), "DIFFER") {
		t.Errorf("error: %v", err)
	}
}

func TestRunNamesADaemonThatFails(t *testing.T) {
	f := setup(t, goodProgram, "FAKE_SN_FAILS=1")
	err := local.Run(t.Context(), f.cfg, f.host)
	if err == nil || !strings.Contains(err.Error(), "sn-0 ended with exit code 4, last lines:\n    no good") {
		t.Errorf("error: %v", err)
	}
	f.nothingLeft(t)
}

func TestRunReplacesPlaceholders(t *testing.T) {
	f := setup(t, goodProgram+`
echo "$WHO" > who
printf '<%s>' "$@" > args
`)
	f.cfg.Env = []string{`WHO={peer} {peer1} {name} {{peer}} {"a": {}}`}
	f.cfg.Args = []string{"--fold", "{peer}", "", "$HOME 'x'"}
	f.cfg.Baseline = true
	if err := local.Run(t.Context(), f.cfg, f.host); err != nil {
		t.Fatalf("Run: %v\n%s", err, f.stderr)
	}
	for file, want := range map[string]string{
		"sl-0/local-only/who": `0 1 sl-0 {peer} {"a": {}}`,
		"sl-1/who":            `1 2 sl-1 {peer} {"a": {}}`,

		"sl-0/local-only/args": "<--fold><0><><$HOME 'x'>",
		"sl-1/args":            "<--fold><1><><$HOME 'x'>",
	} {
		got, err := os.ReadFile(filepath.Join(f.cfg.Out, file))
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s: got %q, %v, want %q", file, got, err, want)
		}
	}
}

func TestRunNamesTheNearPlaceholder(t *testing.T) {
	for typed, want := range map[string]string{"{peers}": "did you mean {peer}?", "{Name}": "did you mean {name}?", "{epoch_count}": "{peer1} or {name}"} {
		f := setup(t, goodProgram)
		f.cfg.Env = []string{"A=" + typed}
		if hint := exit.Hint(local.Run(t.Context(), f.cfg, f.host)); !strings.Contains(hint, want) || !strings.Contains(hint, "{"+typed+"} keeps the braces") {
			t.Errorf("%s: got hint %q, want %q", typed, hint, want)
		}
	}
}

func TestRunRefusesBadInput(t *testing.T) {
	tests := []struct {
		name string
		edit func(c *local.RunConfig)
		want string
		code int
	}{
		{"no peers", func(c *local.RunConfig) { c.Peers = 0 }, "--peers must be 1 to 128", exit.Usage},
		{"too many peers", func(c *local.RunConfig) { c.Peers = 129 }, "--peers must be 1 to 128", exit.Usage},
		{"128 peers, but for the data", func(c *local.RunConfig) { c.Peers = 128 }, "data directory of sl-127", exit.Usage},
		{"too many SNs", func(c *local.RunConfig) { c.SNs = 51 }, "--sns must be 1 to 50", exit.Usage},
		{"more min peers than peers", func(c *local.RunConfig) { c.MinPeers = 3 }, "--min-peers 3 can't be met by --peers 2", exit.Usage},
		{"one data folder for all, strictly", func(c *local.RunConfig) {
			c.DataDir, c.Strict = filepath.Dir(c.DataDir), true
		}, "all 2 peers have the same data", exit.Usage},
		{"platform", func(c *local.RunConfig) { c.Platform = "JAX" }, `platform "JAX" is not supported`, exit.Usage},
		{"variable", func(c *local.RunConfig) { c.Env = []string{"A"} }, "must be NAME=VALUE", exit.Usage},
		{"placeholder in a variable", func(c *local.RunConfig) { c.Env = []string{"A={peeer}"} }, "-e A: placeholder {peeer} is not known", exit.Usage},
		{"placeholder in the data directory", func(c *local.RunConfig) { c.DataDir += "{nam}" }, "--data-dir: placeholder {nam} is not known", exit.Usage},
		{"placeholder in an argument", func(c *local.RunConfig) { c.Args = []string{"--fold", "{pear}"} }, "--model-program-args: placeholder {pear} is not known", exit.Usage},
		{"too many arguments", func(c *local.RunConfig) { c.Args = make([]string, 1025) }, "--model-program-args: 1025 arguments, at most 1024", exit.Usage},
		{"no out", func(c *local.RunConfig) { c.Out = "" }, "--out DIR is missing", exit.Usage},
		{"model directory", func(c *local.RunConfig) { c.ModelDir += "x" }, "model directory: stat", exit.Usage},
		{"program", func(c *local.RunConfig) { c.Program = "absent.py" }, "program: open", exit.Usage},
		{"program elsewhere", func(c *local.RunConfig) { c.Program = "../train.sh" }, "not inside the model directory", exit.Usage},
		{"data of one peer", func(c *local.RunConfig) { c.Peers = 3 }, "data directory of sl-2", exit.Usage},
		{"python", func(c *local.RunConfig) { c.Python = "/no/python" }, "python", exit.Failed},
		{"runtime", func(c *local.RunConfig) { c.Runtime = "podman" }, `runtime "podman" is not supported`, exit.Usage},
		{"python in containers", func(c *local.RunConfig) { c.Runtime = "docker" }, "--python is for --runtime process", exit.Usage},
		{"image without containers", func(c *local.RunConfig) { c.Image = "mine" }, "--ml-image is for --runtime docker", exit.Usage},
		{"nodes alone in containers", func(c *local.RunConfig) { c.Nodes = true }, "--containers is for --runtime docker", exit.Usage},
		{"SPIRE in containers", func(c *local.RunConfig) {
			c.Runtime, c.Nodes, c.Spire, c.Python = "docker", true, true, ""
		}, "embedded identities only", exit.Usage},
		{"no container engine", func(c *local.RunConfig) {
			t.Setenv("DOCKER_HOST", "unix:///no/such.sock")
			c.Runtime, c.Python = "Docker", ""
		}, "reach container engine", exit.Failed},
		{"swarmd", func(c *local.RunConfig) { c.Swarmd = "/no/swarmd" }, "find swarmd", exit.Usage},
		{"no SPIRE", func(c *local.RunConfig) {
			t.Setenv("PATH", "")
			c.Spire = true
		}, "run `make spire`", exit.Failed},
		{"two mistakes", func(c *local.RunConfig) { c.Platform, c.Out = "", "" }, "\n", exit.Usage},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := setup(t, goodProgram)
			out := f.cfg.Out
			tt.edit(&f.cfg)
			err := local.Run(t.Context(), f.cfg, f.host)
			if err == nil || !strings.Contains(err.Error(), tt.want) || exit.Code(err) != tt.code {
				t.Errorf("error: %v (code %d), want %q (code %d)", err, exit.Code(err), tt.want, tt.code)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("output folder was made")
			}
			f.nothingLeft(t)
		})
	}
}

func TestRunKeepsForeignFiles(t *testing.T) {
	f := setup(t, goodProgram)
	if err := os.MkdirAll(filepath.Join(f.cfg.Out, "logs"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := local.Run(t.Context(), f.cfg, f.host)
	if exit.Code(err) != exit.Conflict {
		t.Errorf("error: %v", err)
	}
}

func TestUpPrintsWhatProgramsNeed(t *testing.T) {
	f := setup(t, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	var events []string
	err := local.Up(ctx, local.UpConfig{
		Peers: 2, SNs: 1, Swarmd: f.cfg.Swarmd, Package: os.DirFS(f.cfg.ModelDir),
		Ready: func(sns []string, identity, swarmID string) error {
			if len(sns) != 1 || !strings.HasPrefix(identity, "embedded="+f.tmp) || swarmID != "abcdef" {
				t.Errorf("ready: %v %s %s", sns, identity, swarmID)
			}
			events = append(events, "ready")
			cancel(exit.ErrInterrupted)
			return nil
		},
		Gone: func() { events = append(events, "gone") },
	}, f.host)
	if err != nil && !errors.Is(err, exit.ErrInterrupted) {
		t.Fatal(err)
	}
	if err != nil {
		t.Errorf("end on request: %v", err)
	}
	if diff := cmp.Diff([]string{"ready", "gone"}, events); diff != "" {
		t.Error(diff)
	}
	lines := strings.Split(strings.TrimSpace(f.stdout.String()), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "API https://127.0.0.1:") || !strings.Contains(lines[2], "SWARM_PEER=sl-1 PYTHONPATH=") {
		t.Errorf("stdout:\n%s", f.stdout)
	}
	f.nothingLeft(t)
}

// TestUpChecksItsSWOPs holds that nothing is started of what can't be.
func TestUpChecksItsSWOPs(t *testing.T) {
	f := setup(t, "")
	for want, cfg := range map[string]local.UpConfig{
		"--swop must be 1 to 1":        {Peers: 1, SNs: 1, SWOPs: 2, Private: "."},
		"--private /none: there is no": {Peers: 1, SNs: 1, SWOPs: 1, Private: "/none"},
	} {
		cfg.Swarmd = f.cfg.Swarmd
		if err := local.Up(t.Context(), cfg, f.host); err == nil || !strings.Contains(err.Error(), want) || exit.Code(err) != exit.Usage {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f.nothingLeft(t)
}
