package swci_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/track/tensorboard"
)

// trackedAPI is a swarm whose training is over since long.
type trackedAPI struct{ fakeAPI }

// GetContractStatus returns a complete contract with one peer that failed.
func (*trackedAPI) GetContractStatus(_ context.Context, name string) (*swarmv1.GetContractStatusResponse, error) {
	if name == "gone" {
		return nil, exit.New(exit.NotFound, "", "no contract")
	}
	if name == "new" {
		return &swarmv1.GetContractStatusResponse{Contract: &swarmv1.ContractView{Name: name, Run: 1}}, nil
	}
	return &swarmv1.GetContractStatusResponse{Contract: &swarmv1.ContractView{
		Name: name, Run: 2, Over: true, Terms: &swarmv1.Terms{Method: "mean", MinPeers: 2}, Committed: &swarmv1.CommittedRound{Round: 3, CommittedUnixMs: 4000},
		Rules:    &swarmv1.Rules{Required: []string{"sl-0"}, WeightCap: 0.5, Export: true},
		Sessions: []*swarmv1.Session{{Node: "sl-0", State: "ended", EndReason: "finished", Weight: 3}, {Node: "sl-1", State: "ended", EndReason: "failed: it hangs"}},
	}}, nil
}

// GetHistory returns rounds of pastAPI's with one before them, which are asked for in order.
func (*trackedAPI) GetHistory(r *swarmv1.GetHistoryRequest) *swarmv1.GetHistoryResponse {
	out := (&pastAPI{}).GetHistory(&swarmv1.GetHistoryRequest{Contract: "c", Spread: !r.GetSpread()})
	for _, x := range out.GetRounds() {
		x.Record = 2 * x.GetRound()
	}
	out.Rounds = slices.Insert(out.GetRounds(), 0, &swarmv1.HistoryRound{Round: 1, Record: 1, CommittedUnixMs: 1000, Digest: "99"})
	out.Rounds = slices.DeleteFunc(out.Rounds, func(x *swarmv1.HistoryRound) bool { return x.GetRound() <= r.GetAfter() })
	return out
}

// TestTrackContract writes a history for TensorBoard once, however often it is called, and says what there is.
func TestTrackContract(t *testing.T) {
	api, dir := &trackedAPI{}, filepath.Join(t.TempDir(), "tb")
	out, beside, err := on(t, api, "", "track", "contract", "c", "--tensorboard", dir, "--sn=h")
	if err != nil || out != "contract c, run 2: the training is complete\nTensorBoard's directory "+dir+": wrote 3 rounds, up to round 3\n" || !strings.Contains(beside, "look at it with: tensorboard --logdir "+dir) {
		t.Errorf("%v, beside %q, got %q", err, beside, out)
	}
	out, beside, err = on(t, api, "", "track", "contract", "c", "--once", "--tensorboard", dir, "--sn=h", "-o", "json")
	var got struct {
		Run         int
		Complete    bool
		MLflow      *struct{}
		TensorBoard struct {
			Directory     string
			Written, Last int
		}
	}
	if json.Unmarshal([]byte(out), &got) != nil || err != nil || got.Run != 2 || got.TensorBoard.Written != 0 || got.TensorBoard.Last != 3 || !got.Complete || got.MLflow != nil || got.TensorBoard.Directory != dir || !strings.Contains(beside, "goes on behind round 3") {
		t.Errorf("%v, beside %q, got %s", err, beside, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "swarm", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	figures := map[string]float64{}
	if err := tensorboard.ReadFile(files[0], func(e *tensorboard.Event) {
		for _, s := range e.Scalars {
			if e.Step == 3 {
				figures[s.Tag] = s.Value
			}
		}
	}); err != nil {
		t.Error(err)
	}
	if len(figures) != 5 || figures["loss"] < 0.2999 || figures["loss"] > 0.3001 || figures["bytes/sent"] != 80 || figures["seconds/training"] != 1.5 || figures["attempts_failed"] != 1 || figures["peers"] != 2 {
		t.Errorf("round 3 has %v", figures)
	}
}

// TestTrackNamesTheRecord: the run of the swarm says which record of the ledger its model has, and what the contract's rules are.
func TestTrackNamesTheRecord(t *testing.T) {
	var logged, created strings.Builder
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := io.Discard
		switch path.Base(r.URL.Path) {
		case "log-batch":
			to = &logged
		case "create", "update":
			to = &created
		}
		if _, err := io.Copy(to, r.Body); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, `{"experiment":{"experiment_id":"7"},"run":{"info":{"run_id":"r"}}}`)
	}))
	defer server.Close()
	if _, _, err := on(t, &trackedAPI{}, "", "track", "contract", "c", "--once", "--mlflow", server.URL, "--sn=h"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"key":"swarmd.record","value":"6"}`, `{"key":"swarmd.digest","value":"bb"}`, `1 99 record 1\n2 aa record 4\n3 bb record 6`, `{"key":"rules.required","value":"sl-0"}`, `{"key":"rules.weight_cap","value":"0.5"}`, `{"key":"rules.export","value":"true"}`, `{"key":"method","value":"mean"}`, `{"key":"weight","value":"3"}`} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("%s was not logged:\n%s", want, &logged)
		}
	}
	for _, want := range []string{`{"key":"mlflow.parentRunId","value":"r"}`, `"run_name":"sl-1"`, `"status":"FINISHED"`, `"status":"FAILED"`} {
		if !strings.Contains(created.String(), want) {
			t.Errorf("%s was not said:\n%s", want, &created)
		}
	}
}

// TestTrackEndsRunsOfADeletedContract that nobody tracked when it was deleted.
func TestTrackEndsRunsOfADeletedContract(t *testing.T) {
	var updated strings.Builder
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path.Base(r.URL.Path) {
		case "get-by-name":
			_, _ = io.WriteString(w, `{"experiment":{"experiment_id":"7"}}`)
		case "search":
			_, _ = io.WriteString(w, `{"runs":[{"info":{"run_id":"r","status":"RUNNING"},"data":{"tags":[{"key":"swarmd.run","value":"1"}]}}]}`)
		case "update":
			if _, err := io.Copy(&updated, r.Body); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, `{}`)
		default:
			t.Errorf("asked for %s", r.URL.Path)
		}
	}))
	defer server.Close()
	if _, _, err := on(t, &trackedAPI{}, "", "track", "contract", "gone", "--mlflow", server.URL, "--sn=h"); exit.Code(err) != exit.NotFound || !strings.Contains(updated.String(), `"status":"KILLED"`) {
		t.Errorf("%v, told %q", err, &updated)
	}
}

// TestTrackRefuses what can't be followed, with what to do, and repeats no password.
func TestTrackRefuses(t *testing.T) {
	for line, want := range map[string]struct {
		code int
		says string
	}{
		"c":                                    {exit.Usage, "nothing to write to is given: give --mlflow"},
		"c --tensorboard=x --experiment=y":     {exit.Usage, "--experiment is for MLflow: give --mlflow too"},
		"c --mlflow=mlruns":                    {exit.Usage, `--mlflow "mlruns" is no address of a server: give`},
		"c --mlflow=http://a:hunter2@h":        {exit.Usage, "has a user or a password in its URI: set MLFLOW_TRACKING_USERNAME"},
		"c --mlflow=http://127.0.0.1:1 --once": {exit.Unreachable, "MLflow at http://127.0.0.1:1 does not answer: dial tcp 127.0.0.1:1: connect: connection refused: is it running?"},
		"c --tensorboard=/dev/null/x":          {exit.Failed, "--tensorboard: mkdir /dev/null: not a directory: give a directory"},
		"new --once --tensorboard=DIR":         {exit.NotFound, "contract new has not begun"},
	} {
		args := strings.Fields("track contract --sn=h " + strings.Replace(line, "DIR", t.TempDir(), 1))
		out, _, err := on(t, &trackedAPI{}, "", args...)
		if err == nil || out != "" {
			t.Errorf("%s: no error, or it prints %q", line, out)
			continue
		}
		said := err.Error() + ": " + exit.Hint(err)
		if exit.Code(err) != want.code || !strings.Contains(said, want.says) || strings.Contains(said, "hunter2") {
			t.Errorf("%s: exit code %d, %s; want %d, %s", line, exit.Code(err), said, want.code, want.says)
		}
	}
}
