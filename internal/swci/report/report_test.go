package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/swci/metrics"
	"github.com/swarmd/swarmd/internal/swci/report"
)

var update = flag.Bool("update", false, "rewrite what the browser test reads")

func ptr[T any](v T) *T { return &v }

// events is a training of n epochs with a round at the end of each.
func events(n int, final float64, sha string) []metrics.Event {
	out := []metrics.Event{{Kind: metrics.Start, TS: 100, TotalEpochs: int64(n), SyncFrequency: 4, Versions: map[string]string{"torch": "1.13", "python": "3.11"}}}
	for i := range n {
		acc := final * float64(i+1) / float64(n+1)
		out = append(out,
			metrics.Event{Kind: metrics.Epoch, Epoch: int64(i + 1), Loss: ptr(1 - acc), Metric: ptr(acc)},
			metrics.Event{Kind: metrics.Merge, Epoch: int64(i + 1), Round: int64(i + 1), Loss: ptr(1 - acc), Metric: ptr(acc), Participants: []string{"sl-0", "sl-1"}, Seconds: 0.5})
	}
	return append(out, metrics.Event{Kind: metrics.End, TS: 105, DataSamples: 1200, Round: int64(n), Rounds: int64(n), Loss: ptr(1 - final), Metric: ptr(final), ModelSHA256: sha, Digest: strings.ReplaceAll(sha, "0a", "1b")})
}

func page() *report.Page {
	sha := strings.Repeat("0a", 32)
	peers := []report.Events{
		{Name: "sl-0", ModelDir: "/out/sl-0", Isolation: "container, no network", Checkin: "snapshot", Sent: 1_234_567, Received: 1000, Swarm: events(4, 0.95, sha), Local: events(4, 0.4, sha)},
		{Name: "sl-1", ModelDir: "/out/sl-1", Swarm: events(4, 0.95, sha), Local: events(4, 0.35, sha)},
	}
	p := &report.Page{Peers: peers, Summary: report.Summary{Project: "digits", State: report.Finished, Warnings: []report.Warning{{Text: "sl-1 is <idle>"}, {Text: "give more data", Advice: true}}, Program: "train.py", Platform: "PYT", Contract: "<b>c</b>", WallSeconds: 12.34, Started: "2026-01-01T00:00:00Z"}}
	p.Rounds = report.MergeRounds([]report.Round{{Round: 2, Attempt: 3, Participants: []string{"sl-0"}, Weights: []int64{2}, Seconds: 0.25, Digest: strings.Repeat("9f", 32), Final: true}}, peers)
	report.AddPast(p.Rounds, map[int64]report.Past{
		1: {Phases: report.Phases{Waiting: ptr(uint64(40)), Exchange: ptr(uint64(500)), Commit: ptr(uint64(3))}},
		2: {Phases: report.Phases{Waiting: ptr(uint64(9)), Training: ptr(uint64(1200)), Exchange: ptr(uint64(247)), Commit: ptr(uint64(3))}, Failed: []report.FailedAttempt{
			{Attempt: 1, Blamed: "sl-1", Reason: "sl-1 sent <nothing>"}, {Attempt: 2, Reason: "no peer answered"},
		}},
		9: {},
	})
	p.Summary.Summarise(peers, 4)
	p.Summary.Contribute(p.Rounds)
	return p
}

func TestSummary(t *testing.T) {
	var got bytes.Buffer
	s := page().Summary
	s.Peers[0].SwarmLoss = ptr(0.25)
	if err := s.WriteJSON(&got); err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(got.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	peer := m["peers"].([]any)[0].(map[string]any)
	want := map[string]any{
		"name": "sl-0", "local_accuracy": 0.4, "swarm_accuracy": 0.95, "model_sha256": strings.Repeat("0a", 32),
		"failed": false, "isolation": "container, no network", "local_loss": 0.6, "swarm_loss": 0.25, "rounds": 4.0, "model_dir": "/out/sl-0",
		"model_digest": strings.Repeat("1b", 32), "epochs": 4.0, "data_samples": 1200.0, "contributed": 1.0, "weight": 2.0, "train_seconds": 5.0, "merge_seconds": 2.0,
		"sent_bytes": 1234567.0, "received_bytes": 1000.0, "checkin_on_end": "snapshot",
	}
	if diff := cmp.Diff(want, peer); diff != "" {
		t.Errorf("peer (-want +got):\n%s", diff)
	}
	if m["rounds"] != 4.0 || m["wall_seconds"] != 12.34 || m["models_equal"] != true {
		t.Errorf("summary: %s", got.String())
	}
}

func TestSummaryWithoutMeasurements(t *testing.T) {
	var s report.Summary
	s.Summarise([]report.Events{{Name: "sl-0"}, {Name: "sl-1", Swarm: events(1, 0.5, "")}}, 0)
	var got bytes.Buffer
	if err := s.WriteJSON(&got); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got.String(), `"local_accuracy": null`) || s.ModelsEqual || s.Differ() || s.Rounds != 1 {
		t.Errorf("summary: %s", got.String())
	}
}

func TestTableNamesTheMetric(t *testing.T) {
	named := func(names ...string) (peers []report.Events) {
		for i, n := range names {
			peers = append(peers, report.Events{Name: fmt.Sprintf("sl-%d", i), Swarm: []metrics.Event{{Kind: metrics.End, Metric: ptr(0.5), MetricName: n}}})
		}
		return peers
	}
	for _, tt := range []struct {
		peers  []report.Events
		metric string
		want   string
	}{
		{named("AUROC", "AUROC"), "AUROC", "PEER  AUROC LOCAL ONLY  AUROC SWARM  MODEL"},
		{named("", "R2"), "R2", "PEER  R2 LOCAL ONLY  R2 SWARM  MODEL"},
		{named("AUROC", "R2"), "", "PEER  LOCAL ONLY  SWARM   MODEL"},
		{named("AUROC", "R2", "AUROC"), "", "PEER  LOCAL ONLY  SWARM   MODEL"},
		{named("", ""), "", "PEER  LOCAL ONLY  SWARM   MODEL"},
	} {
		var s report.Summary
		s.Summarise(tt.peers, 1)
		var got bytes.Buffer
		if err := s.WriteTable(&got); err != nil {
			t.Fatal(err)
		}
		if s.Metric != tt.metric || !strings.HasPrefix(got.String(), tt.want) {
			t.Errorf("metric %q, want %q; table:\n%s", s.Metric, tt.metric, got.String())
		}
	}
}

func TestDiffer(t *testing.T) {
	var s report.Summary
	s.Summarise([]report.Events{{Name: "a", Swarm: events(1, 1, strings.Repeat("aa", 32))}, {Name: "b", Swarm: events(1, 1, strings.Repeat("bb", 32))}}, 1)
	if !s.Differ() || s.ModelsEqual {
		t.Error("different models were not noticed")
	}
}

func TestMergeRounds(t *testing.T) {
	var got []string
	for _, r := range page().Rounds {
		got = append(got, fmt.Sprintf("%d a%d %v %.2f %.2f", r.Round, r.Attempt, r.Participants, r.Seconds, *r.Metric))
	}
	want := []string{"1 a0 [sl-0 sl-1] 0.50 0.19", "2 a3 [sl-0] 0.25 0.38", "3 a0 [sl-0 sl-1] 0.50 0.57", "4 a0 [sl-0 sl-1] 0.50 0.76"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rounds (-want +got):\n%s", diff)
	}
}

// written is the report that a page has in it, as a browser reads it.
func written(t *testing.T, p *report.Page) (r report.Report, html string) {
	t.Helper()
	var got bytes.Buffer
	if err := p.WriteHTML(&got); err != nil {
		t.Fatal(err)
	}
	html = got.String()
	_, rest, ok := strings.Cut(html, `<script type="application/json" id="data">`)
	data, _, ended := strings.Cut(rest, "</script>")
	if !ok || !ended {
		t.Fatal("the page has no data")
	}
	d := json.NewDecoder(strings.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r, html
}

// curves are those of a chart as text.
func curves(c report.Chart) []string {
	out := []string{fmt.Sprint(c.Title, " over ", c.X)}
	for _, curve := range c.Curves {
		var values []string
		for _, v := range curve.Values {
			values = append(values, report.Number(v))
		}
		out = append(out, fmt.Sprintf("%q %s", curve.Name, strings.Join(values, " ")))
	}
	return out
}

func facts(r report.Report) string {
	var all []string
	for _, f := range r.Facts {
		all = append(all, f.Name+": "+f.Value)
	}
	return strings.Join(all, "\n")
}

func TestPage(t *testing.T) {
	r, html := written(t, page())
	if r.Title != "digits: train.py" || r.FinalModels != "equal" || r.Axis != "epoch" || !r.Baseline || r.MetricTitle != "accuracy" {
		t.Errorf("report: %+v", r)
	}
	if want := "2 peers trained one model together in 4 rounds. Accuracy of the merged model: 0.9500; of what each peer trained alone: 0.3500 to 0.4000."; r.Headline != want {
		t.Errorf("headline %q, want %q", r.Headline, want)
	}
	want := []string{
		"accuracy over [1 2 3 4]", `"sl-0" 0.0800 0.1600 0.2400 0.3200`, `"sl-1" 0.0700 0.1400 0.2100 0.2800`, `"" 0.1900 0.3800 0.5700 0.8550`,
	}
	if diff := cmp.Diff(want, curves(r.Charts[0])); len(r.Charts) != 2 || r.Charts[1].Title != "loss" || diff != "" {
		t.Errorf("curves (-want +got):\n%s", diff)
	}
	if got := r.Rounds[1]; !got.Final || got.Participants[0] != "sl-0" || got.Seconds != 0.25 || len(r.Rounds[0].Weights) != 0 || r.Rounds[0].Weights == nil {
		t.Errorf("rounds: %+v", r.Rounds)
	}
	if got := r.Rounds[1]; *got.Durations.Training != 1200 || len(got.Failed) != 2 || got.Failed[0].Reason != "sl-1 sent <nothing>" || r.Rounds[2].Durations != nil || len(r.Rounds) != 4 {
		t.Errorf("how rounds went: %+v", r.Rounds)
	}
	for _, want := range []string{"versions: python 3.11, torch 1.13", "batches between merges (syncFrequency): 4", "training contract: <b>c</b>", "ledger): 1b1b"} {
		if !strings.Contains(facts(r), want) {
			t.Errorf("facts lack %q:\n%s", want, facts(r))
		}
	}
	for _, want := range []string{"<title>digits: train.py</title>", "default-src 'none'; script-src 'sha256-", `Accuracy of the merged model: 0.9500`, "Permission is hereby granted"} {
		if !strings.Contains(html, want) {
			t.Errorf("page lacks %q", want)
		}
	}
	for _, bad := range []string{"%REPORT_", " src=", "<link", "<img", "@import"} {
		if strings.Contains(html, bad) {
			t.Errorf("page has %q in it", bad)
		}
	}
}

// What the browser test opens is what this package writes.
func TestPageOfTheBrowserTest(t *testing.T) {
	p := page()
	p.Peers = append(p.Peers, report.Events{Name: "sl-2", Failed: true, Swarm: events(2, 0.5, "")})
	p.Summary.Reason, p.Summary.State = "sl-2 ended with exit code 1\n    at train.py, line 7", report.Finished
	p.Summary.Summarise(p.Peers, 4)
	p.Summary.Contribute(p.Rounds)
	var got bytes.Buffer
	enc := json.NewEncoder(&got)
	enc.SetIndent("", "  ")
	if err := enc.Encode(p.Report()); err != nil {
		t.Fatal(err)
	}
	const path = "../../../web/test/fixtures/report.json"
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s is out of date, run go test ./internal/swci/report -update (-file +page):\n%s", path, diff)
	}
}

func TestPageOfAbsurdNumbers(t *testing.T) {
	_, plain := written(t, &report.Page{})
	var all []metrics.Event
	for i, v := range []float64{math.MaxFloat64, -math.MaxFloat64, 0, 1e-300, -5} {
		all = append(all, metrics.Event{Kind: metrics.Merge, Epoch: int64(i) << 28, Round: 1, Loss: &v, Metric: &v})
	}
	for _, name := range []string{"sl-0", `"><script>`, "</script><script>alert(1)</script>", "<!--<script>", "\u2028\u2029", "a\xff", "%REPORT_DATA%"} {
		peers := []report.Events{{Name: name, Swarm: all, Local: all}}
		p := report.Page{Peers: peers, Rounds: report.MergeRounds([]report.Round{{Round: 1, Participants: []string{name}, Digest: name}}, peers)}
		p.Summary.Project, p.Summary.Reason, p.Summary.Method = name, name, name
		p.Summary.Summarise(peers, 0)
		r, html := written(t, &p)
		for _, what := range []string{"<script", "</script", "<!--"} {
			if got, want := strings.Count(html, what), strings.Count(plain, what); got != want {
				t.Errorf("%q: the page has %q %d times, want %d", name, what, got, want)
			}
		}
		if _, data, _ := strings.Cut(html, `id="data">`); strings.ContainsAny(data, "\u2028\u2029") {
			t.Errorf("%q: the data have an end of line in them", name)
		}
		if want := strings.ToValidUTF8(name, "\ufffd"); r.Summary.Peers[0].Name != want {
			t.Errorf("got name %q, want %q", r.Summary.Peers[0].Name, want)
		}
	}
}

// One curve stands for the merged model also where peers measure it on data of their own; without epochs it is drawn over rounds.
func TestPageOfOneModelOnDifferentData(t *testing.T) {
	peers := []report.Events{{Name: "sl-0"}, {Name: "sl-1"}}
	for i := range peers {
		for n := range 3 {
			peers[i].Swarm = append(peers[i].Swarm, metrics.Event{Kind: metrics.Merge, Round: int64(n + 1), Metric: ptr(0.2 + 0.2*float64(i) + 0.1*float64(n))})
		}
	}
	p := report.Page{Peers: peers, Summary: report.Summary{State: report.Interrupted, Reason: "interrupted"}}
	p.Summary.Summarise(peers, 3)
	r, _ := written(t, &p)
	if diff := cmp.Diff([]string{"accuracy over [1 2 3]", `"" 0.3000 0.4000 0.5000`}, curves(r.Charts[0])); diff != "" || !r.Charts[0].Spread || r.Axis != "round" {
		t.Errorf("axis %s, curves (-want +got):\n%s", r.Axis, diff)
	}
	if want := "This run was interrupted after 0.0 s and 3 rounds: it shows what there was by then. Accuracy of the merged model: 0.4000 to 0.6000."; r.Headline != want || r.FinalModels != "" {
		t.Errorf("headline %q, want %q", r.Headline, want)
	}
}

// What a peer measured before it failed is no value of the final model.
func TestPageOfAPeerThatFailed(t *testing.T) {
	p := page()
	p.Peers[1].Failed, p.Peers[1].Swarm = true, events(2, 0.5, "")
	p.Summary.Reason = "sl-1 ended\n    at train.py"
	p.Summary.Summarise(p.Peers, 4)
	r, _ := written(t, p)
	if !strings.Contains(r.Headline, "1 of 2 peers trained") || !strings.Contains(r.Headline, "Accuracy of the merged model: 0.9500; ") || r.Summary.Reason != p.Summary.Reason || !r.Summary.Peers[1].Failed {
		t.Errorf("headline %q, reason %q", r.Headline, r.Summary.Reason)
	}
}

func TestContributions(t *testing.T) {
	p := report.Page{Summary: report.Summary{Peers: []report.Peer{{Name: "sl-0"}, {Name: "sl-1"}, {Name: "sl-2"}}}}
	for n := range int64(900) {
		r := report.Round{Round: n + 1, Participants: []string{"sl-0", "sl-1"}, Weights: []int64{1, 3}}
		if n >= 450 {
			r.Participants = append(r.Participants, "sl-2")
			r.Weights = append(r.Weights, 0)
		}
		p.Rounds = append(p.Rounds, r)
	}
	p.Summary.Contribute(p.Rounds)
	for i, want := range []string{"900 1", "900 3", "0"} {
		got := fmt.Sprint(*p.Summary.Peers[i].Contributed)
		if w := p.Summary.Peers[i].Weight; w != nil {
			got += fmt.Sprint(" ", *w)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", p.Summary.Peers[i].Name, got, want)
		}
	}
	if r, _ := written(t, &p); len(r.Rounds) != 900 || !cmp.Equal(r.Rounds[899].Weights, []int64{1, 3, 0}) {
		t.Errorf("%d rounds", len(r.Rounds))
	}
}

func TestPageOfALongTraining(t *testing.T) {
	peers := []report.Events{{Name: "sl-0", Swarm: events(20_000, 0.9, "")}}
	p := report.Page{Peers: peers}
	p.Summary.Summarise(peers, 0)
	r, html := written(t, &p)
	if len(html) > 1<<20 || len(r.Charts[0].X) > 3000 {
		t.Errorf("page is %d bytes with %d points", len(html), len(r.Charts[0].X))
	}
}

// How 500 of many rounds went is a small part of the page.
func TestPageOfManyRoundsThatFailed(t *testing.T) {
	var p report.Page
	past := map[int64]report.Past{}
	for n := range int64(10_000) {
		p.Rounds = append(p.Rounds, report.Round{Round: n + 1, Participants: []string{"sl-0"}, Digest: strings.Repeat("9f", 32)})
		if n%20 == 0 {
			past[n+1] = report.Past{Phases: report.Phases{Waiting: ptr(uint64(n)), Training: ptr(uint64(n)), Exchange: ptr(uint64(n)), Commit: ptr(uint64(n))}, Failed: []report.FailedAttempt{{Attempt: 1, Reason: strings.Repeat("r", 300)}}}
		}
	}
	_, without := written(t, &p)
	report.AddPast(p.Rounds, past)
	r, html := written(t, &p)
	if more := len(html) - len(without); more < 500*300 || more > 256<<10 || r.Rounds[20].Durations == nil || r.Rounds[21].Durations != nil {
		t.Errorf("%d bytes more than %d", more, len(without))
	}
}
