package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/swci/track/tensorboard"
)

// mlflow is a real server, with a database that outlives it.
type mlflow struct {
	w      *swarm
	binary string
	url    string

	experiment string // ID
}

// start runs the server, by a program if one is given, until it serves.
func (m *mlflow) start(by ...string) *e2etest.Proc {
	m.w.T.Helper()
	p := e2etest.Start(m.w.T, "mlflow", m.w.Dir, []string{"MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false"}, append(by, m.binary, "server", "--workers", "1", "--host", strings.TrimPrefix(strings.TrimSuffix(m.url, ":5000"), "http://"), "--port", "5000",
		"--allowed-hosts", "*", "--backend-store-uri", "sqlite:///"+m.w.Path("mlflow.db"), "--artifacts-destination", m.w.Path("artifacts"))...)
	m.w.UntilWithin(2*time.Minute, "MLflow to serve", func() bool {
		res, err := http.Get(m.url + "/health")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return p
}

// ask asks its API.
func (m *mlflow) ask(path, body string, out any) {
	m.w.T.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	ctx, cancel := context.WithTimeout(m.w.T.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, m.url+"/api/2.0/mlflow/"+path, strings.NewReader(body))
	if err != nil {
		m.w.T.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		m.w.T.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(out); err != nil || res.StatusCode != http.StatusOK {
		m.w.T.Fatalf("%s: %s %v %+v", path, res.Status, err, out)
	}
}

// curves are figures by node, name and round; the swarm's are under "".
type curves map[string]map[string]map[uint64]float64

func (c curves) add(t *testing.T, node, name string, round uint64, value float64) {
	t.Helper()
	if c[node] == nil {
		c[node] = map[string]map[uint64]float64{}
	}
	if c[node][name] == nil {
		c[node][name] = map[uint64]float64{}
	}
	if _, twice := c[node][name][round]; twice {
		t.Errorf("round %d of %s of %q is there twice", round, name, node)
	}
	c[node][name][round] = value
}

// only has figures with these names alone.
func (c curves) only(names ...string) curves {
	out := curves{}
	for node, of := range c {
		out[node] = map[string]map[uint64]float64{}
		for _, name := range names {
			if of[name] != nil {
				out[node][name] = of[name]
			}
		}
	}
	return out
}

// curves reads the whole history of every metric of every run.
func (m *mlflow) curves() curves {
	m.w.T.Helper()
	var experiment struct {
		Experiment struct {
			ID string `json:"experiment_id"`
		}
	}
	m.ask("experiments/get-by-name?experiment_name=swarmd", "", &experiment)
	m.experiment = experiment.Experiment.ID
	var found struct {
		Runs []struct {
			Info struct {
				ID     string `json:"run_id"`
				Status string
			}
			Data struct{ Metrics, Tags []struct{ Key, Value any } }
		}
	}
	m.ask("runs/search", fmt.Sprintf(`{"experiment_ids":[%q]}`, experiment.Experiment.ID), &found)
	if len(found.Runs) != 3 {
		m.w.T.Errorf("%d runs, want one of the swarm and two of peers", len(found.Runs))
	}
	out := curves{}
	for _, r := range found.Runs {
		if r.Info.Status != "FINISHED" {
			m.w.T.Errorf("run %s is %s", r.Info.ID, r.Info.Status)
		}
		node := ""
		for _, tag := range r.Data.Tags {
			if tag.Key == "swarmd.node" {
				node = fmt.Sprint(tag.Value)
			}
		}
		for _, x := range r.Data.Metrics {
			var history struct {
				Metrics []struct {
					Value float64
					Step  uint64
				}
			}
			m.ask("metrics/get-history?"+url.Values{"run_id": {r.Info.ID}, "metric_key": {fmt.Sprint(x.Key)}}.Encode(), "", &history)
			for _, point := range history.Metrics {
				out.add(m.w.T, node, fmt.Sprint(x.Key), point.Step, point.Value)
			}
		}
	}
	return out
}

// run is the swarm's.
func (m *mlflow) run() (status string, tags map[string]string) {
	m.w.T.Helper()
	var found struct {
		Runs []struct {
			Info struct{ Status string }
			Data struct{ Tags []struct{ Key, Value string } }
		}
	}
	m.ask("runs/search", fmt.Sprintf(`{"experiment_ids":[%q]}`, m.experiment), &found)
	for _, r := range found.Runs {
		tags = map[string]string{}
		for _, t := range r.Data.Tags {
			tags[t.Key] = t.Value
		}
		if tags["swarmd.node"] == "" {
			return r.Info.Status, tags
		}
	}
	m.w.T.Fatalf("no run of the swarm among %d", len(found.Runs))
	return "", nil
}

// deleted deletes the contract with a run that goes on, which the tracker ends although it comes later.
func (m *mlflow) deleted(at []string) {
	m.w.T.Helper()
	status, tags := m.run()
	if status != "FINISHED" || tags["swarmd.record"] == "unknown" || tags["swarmd.record"] == "" || !strings.Contains(tags["swarmd.digests"], tags["swarmd.round"]+" "+tags["swarmd.digest"]+" record "+tags["swarmd.record"]) {
		m.w.T.Errorf("the swarm's run is %s, %v", status, tags)
	}
	var own struct {
		Run struct {
			Info struct {
				ID string `json:"run_id"`
			}
		}
	}
	m.ask("runs/create", fmt.Sprintf(`{"experiment_id":%q,"tags":[{"key":"swarmd.swarm","value":%q},{"key":"swarmd.contract","value":"e2e"},{"key":"swarmd.run","value":"99"}]}`, m.experiment, tags["swarmd.swarm"]), &own)
	if code, said := m.w.tool(append([]string{"swarmctl", "delete", "contract", "e2e"}, at...)...); code != 0 {
		m.w.T.Fatalf("delete contract: %d %s", code, said)
	}
	if code, said := m.w.tool(append([]string{"swarmctl", "track", "contract", "e2e", "--mlflow", m.url}, at...)...); code != 5 {
		m.w.T.Errorf("after it was deleted: exit code %d, %s", code, said)
	}
	var after struct {
		Run struct{ Info struct{ Status string } }
	}
	m.ask("runs/get?run_id="+own.Run.Info.ID, "", &after)
	if after.Run.Info.Status != "KILLED" {
		m.w.T.Errorf("the run of the deleted contract is %s", after.Run.Info.Status)
	}
}

// eventCurves reads the event files of a directory.
func eventCurves(t *testing.T, dir string) curves {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "events.out.tfevents.*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: no event files", err)
	}
	out := curves{}
	for _, f := range files {
		node := strings.TrimPrefix(filepath.Base(filepath.Dir(f)), "swarm")
		if err := tensorboard.ReadFile(f, func(e *tensorboard.Event) {
			for _, s := range e.Scalars {
				out.add(t, node, s.Tag, e.Step, s.Value)
			}
		}); err != nil {
			t.Error(err)
		}
	}
	return out
}

// pastRounds is what `get contract history -o json` has.
type pastRounds struct {
	Rounds []struct {
		Round        uint64
		Loss, Metric *float64
		BytesSent    *float64            `json:"bytes_sent"`
		Durations    map[string]*float64 `json:"durations_ms"`
		Peers        []struct {
			Node         string
			Loss, Metric *float64
			Sent         *float64
		}
	}
}

// curves are those that trackers must have.
func (p *pastRounds) curves(t *testing.T) curves {
	t.Helper()
	out := curves{}
	add := func(node, name string, round uint64, value *float64, unit float64) {
		if value != nil {
			out.add(t, node, name, round, *value/unit)
		}
	}
	for _, r := range p.Rounds {
		add("", "loss", r.Round, r.Loss, 1)
		add("", "metric", r.Round, r.Metric, 1)
		add("", "bytes/sent", r.Round, r.BytesSent, 1)
		for phase, ms := range r.Durations {
			add("", "seconds/"+phase, r.Round, ms, 1000)
		}
		for _, x := range r.Peers {
			add(x.Node, "loss", r.Round, x.Loss, 1)
			add(x.Node, "metric", r.Round, x.Metric, 1)
			add(x.Node, "bytes/sent", r.Round, x.Sent, 1)
		}
	}
	return out
}

// compared are figures that history, MLflow and TensorBoard must have alike.
func compared() []string {
	return []string{"loss", "metric", "bytes/sent", "seconds/training", "seconds/waiting", "seconds/exchange", "seconds/commit"}
}

// TestTrackingByMLflowForMinutes: a training is followed into a real MLflow, which starts late and is killed, by a tracker that is killed too.
// Afterwards MLflow and the event files have each round once, for each peer and the swarm, as the swarm's history has it.
func TestTrackingByMLflowForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("takes minutes: SWARM_TEST_LONG=1 or make test-long")
	}
	e2etest.NeedPython(t)
	python := e2etest.Environment(t, "mlflow")
	w := newSwarm(t)
	w.up()
	server := &mlflow{w: w, binary: filepath.Join(filepath.Dir(python), "mlflow"), url: "http://" + w.Addr(200) + ":5000"}
	for i := 1; i <= 2; i++ {
		w.SL(i, "MIN_PEERS=2", "BATCHES=300", "BATCH_SECONDS=0.3", "LOSS=1")
	}
	at := []string{"--sn", w.Addr(1) + ":30304", "--identity", "embedded=" + w.Path("ca")}
	past := func() (out pastRounds) {
		code, said := w.tool(append([]string{"swarmctl", "get", "contract", "history", "e2e", "--points", "10000", "-o", "json"}, at...)...)
		if code == 0 {
			if err := json.Unmarshal([]byte(said), &out); err != nil {
				t.Fatalf("%v: %s", err, said)
			}
		}
		return out
	}
	rounds := func(n int) {
		t.Helper()
		w.UntilWithin(3*time.Minute, fmt.Sprintf("%d rounds", n), func() bool { return len(past().Rounds) >= n })
	}
	tracker := func() *e2etest.Proc {
		return w.Start(201, "tracker", append([]string{"swarmctl", "track", "contract", "e2e", "--mlflow", server.url, "--tensorboard", w.Path("tb")}, at...)...)
	}
	rounds(1)
	first := tracker()
	first.Sees("does not answer", "TensorBoard: ")
	rounds(10)
	running := server.start()
	first.Sees("MLflow at "+server.url+": experiment swarmd, run ", "answers again")
	rounds(30)
	running.Signal(9) // with the processes that serve for it
	<-running.Done
	w.Until("the tracker to see it", func() bool { return strings.Count(first.Output(), "does not answer") >= 2 })
	rounds(50)
	server.start()
	w.UntilWithin(2*time.Minute, "the tracker to go on", func() bool { return strings.Count(first.Output(), "answers again") >= 2 })
	first.Kill()
	rounds(70)
	second := tracker()
	second.Sees("goes on behind round ")
	second.Ends(5 * time.Minute)
	want := past()
	if n := len(want.Rounds); n < 100 {
		t.Errorf("%d rounds in the history", n)
	}
	if diff := cmp.Diff(server.curves().only(compared()...), want.curves(t)); diff != "" {
		t.Errorf("MLflow (-got +want): %s", diff)
	}
	near := cmp.Comparer(func(a, b float64) bool { return float32(a) == float32(b) })
	if diff := cmp.Diff(eventCurves(t, w.Path("tb")).only(compared()...), want.curves(t), near); diff != "" {
		t.Errorf("TensorBoard (-got +want): %s", diff)
	}
	if code, said := w.tool(append([]string{"swarmctl", "track", "contract", "e2e", "--once", "--mlflow", server.url, "--tensorboard", w.Path("tb"), "-o", "json"}, at...)...); code != 0 || strings.Count(said, `"written": 0`) != 2 || strings.Count(said, `"left_out": 0`) != 2 {
		t.Errorf("again: exit code %d, %s", code, said)
	}
	server.deleted(at)
}
