package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/swci/metrics"
	"github.com/swarmd/swarmd/internal/swci/report"
)

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

// parse checks that html is well formed as far as a tokenizer for XML in HTML mode can tell, and counts elements.
func parse(t *testing.T, html string) map[string]int {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(strings.Replace(html, "<!doctype html>", "", 1)))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	count := map[string]int{}
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return count
		}
		if err != nil {
			t.Fatalf("parse page: %v", err)
		}
		el, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		count[el.Name.Local]++
		for _, a := range el.Attr {
			switch a.Name.Local {
			case "src", "href", "action", "onload", "onclick":
				t.Errorf("page refers to something outside: <%s %s=%q>", el.Name.Local, a.Name.Local, a.Value)
			}
			if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") || strings.Contains(a.Value, "ZgotmplZ") {
				t.Errorf("bad value: <%s %s=%q>", el.Name.Local, a.Name.Local, a.Value)
			}
		}
	}
}

func TestPage(t *testing.T) {
	var got bytes.Buffer
	if err := page().WriteHTML(&got); err != nil {
		t.Fatal(err)
	}
	html := got.String()
	count := parse(t, html)
	// Two charts with the merged model and each peer alone, the key's three lines, the picture of contributions.
	if count["svg"] != 6 || count["path"] != 9 || count["rect"] != 7 || count["script"] != 0 || count["link"] != 0 || count["img"] != 0 {
		t.Errorf("elements: %v", count)
	}
	for _, want := range []string{
		`<h1>digits: train.py</h1>`, `2 peers trained one model together in 4 rounds. Accuracy of the merged model: 0.9500; of what each peer trained alone: 0.3500 to 0.4000.`,
		`<dt class="strong">the swarm&#39;s model</dt><dd class="track" aria-hidden="true"><i class="swarm" style="width:95%"></i></dd><dd class="value strong">0.9500</dd>`,
		`<dt>sl-1 alone</dt><dd class="track" aria-hidden="true"><i class="local" style="width:35%">`,
		`<td>2 (final)</td><td class="wide">sl-0</td><td class="n">0.25</td>`, `<title>sl-1, round 1: 50.0 % of the merged model</title>`,
		`<dd class="value">40 % in merges, 1.23 MB sent</dd>`, `<dt>versions</dt><dd>python 3.11, torch 1.13</dd>`, `<dt>batches between merges (syncFrequency)</dt><dd>4</dd>`,
		`&lt;b&gt;c&lt;/b&gt;`, `<b>equal</b>`, `prefers-color-scheme: dark`, `width=device-width`, `<code title="1b1b`, `<code>1b1b1b`, `<b>1 warning</b><ul><li>sl-1 is &lt;idle&gt;</li>`, `<h2>What could be better</h2>`, `<td class="n">1200</td>`,
	} {
		if !strings.Contains(html, want) {
			t.Errorf("page lacks %q", want)
		}
	}
	if strings.Contains(html, "http://") || strings.Contains(html, "https://") {
		t.Error("page has an address in it")
	}
}

func TestPageOfAbsurdNumbers(t *testing.T) {
	var all []metrics.Event
	for i, v := range []float64{math.MaxFloat64, -math.MaxFloat64, 0, 1e-300, -5} {
		all = append(all, metrics.Event{Kind: metrics.Merge, Epoch: int64(i) << 28, Round: 1, Loss: &v, Metric: &v})
	}
	for _, peers := range [][]report.Events{nil, {{Name: "sl-0"}}, {{Name: `"><script>`, Swarm: all, Local: all}}} {
		p := report.Page{Peers: peers, Rounds: report.MergeRounds(nil, peers)}
		p.Summary.Summarise(peers, 0)
		var got bytes.Buffer
		if err := p.WriteHTML(&got); err != nil {
			t.Fatal(err)
		}
		if n := parse(t, got.String())["script"]; n != 0 {
			t.Error("a name became a script")
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
	var got bytes.Buffer
	if err := p.WriteHTML(&got); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`merged model, round 2: 0.4</title>`, `text-anchor="end">rounds</text>`, "their mean", ">sl-1 in the swarm<", `id="reason"><b>Interrupted</b>: interrupted`,
		"This run was interrupted after 0.0 s and 3 rounds", "Accuracy of the merged model: 0.4000 to 0.6000.",
	} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("page lacks %q", want)
		}
	}
}

// What a peer measured before it failed is no value of the final model.
func TestPageOfAPeerThatFailed(t *testing.T) {
	p := page()
	p.Peers[1].Failed, p.Peers[1].Swarm = true, events(2, 0.5, "")
	p.Summary.Reason = "sl-1 ended\n    at train.py"
	p.Summary.Summarise(p.Peers, 4)
	var got bytes.Buffer
	if err := p.WriteHTML(&got); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 of 2 peers trained", "Accuracy of the merged model: 0.9500; ", `<b>Not all programs ended well</b>: sl-1 ended`, ">sl-0 in the swarm<", `<b class="bad">failed</b>`} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("page lacks %q", want)
		}
	}
	if strings.Contains(got.String(), "sl-1 in the swarm") {
		t.Error("a failed peer has a bar")
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
	var got bytes.Buffer
	if err := p.WriteHTML(&got); err != nil {
		t.Fatal(err)
	}
	// Equal rounds in a row are one mark.
	if n := parse(t, got.String())["rect"]; n != 2 || !strings.Contains(got.String(), "sl-1, rounds 1 to 900: 75.0 % of the merged model") {
		t.Errorf("%d marks", n)
	}
	if !strings.Contains(got.String(), "sl-0 (1), sl-1 (3), sl-2 (0)") {
		t.Error("the table of rounds has no weights")
	}
}

func TestPageOfALongTraining(t *testing.T) {
	peers := []report.Events{{Name: "sl-0", Swarm: events(20_000, 0.9, "")}}
	p := report.Page{Peers: peers}
	p.Summary.Summarise(peers, 0)
	var got bytes.Buffer
	if err := p.WriteHTML(&got); err != nil {
		t.Fatal(err)
	}
	if got.Len() > 2<<20 {
		t.Errorf("page is %d bytes", got.Len())
	}
}
