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
	out := []metrics.Event{{Kind: metrics.Start, TotalEpochs: int64(n)}}
	for i := range n {
		acc := final * float64(i+1) / float64(n+1)
		out = append(out,
			metrics.Event{Kind: metrics.Epoch, Epoch: int64(i + 1), Loss: ptr(1 - acc), Metric: ptr(acc)},
			metrics.Event{Kind: metrics.Merge, Epoch: int64(i + 1), Round: int64(i + 1), Loss: ptr(1 - acc), Metric: ptr(acc), Participants: []string{"sl-0", "sl-1"}, Seconds: 0.5})
	}
	return append(out, metrics.Event{Kind: metrics.End, Round: int64(n), Rounds: int64(n), Loss: ptr(1 - final), Metric: ptr(final), ModelSHA256: sha})
}

func page() *report.Page {
	sha := strings.Repeat("0a", 32)
	peers := []report.Events{
		{Name: "sl-0", ModelDir: "/out/sl-0", Isolation: "container, no network", Swarm: events(4, 0.95, sha), Local: events(4, 0.4, sha)},
		{Name: "sl-1", ModelDir: "/out/sl-1", Swarm: events(4, 0.95, sha), Local: events(4, 0.35, sha)},
	}
	p := &report.Page{Peers: peers, Summary: report.Summary{Program: "train.py", Platform: "PYT", Contract: "<b>c</b>", WallSeconds: 12.34, Started: "2026-01-01T00:00:00Z"}}
	p.Rounds = report.MergeRounds([]report.Round{{Round: 2, Attempt: 3, Participants: []string{"sl-0"}, Seconds: 0.25, Digest: strings.Repeat("9f", 32), Final: true}}, peers)
	p.Summary.Summarise(peers, 4)
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
	if count["svg"] != 4 || count["path"] != 8 || count["script"] != 0 || count["link"] != 0 || count["img"] != 0 {
		t.Errorf("elements: %v", count)
	}
	for _, want := range []string{
		`<td>sl-0</td><td>0.4000<span class="bar local"><i style="width:40%"></i></span></td><td>0.9500<span class="bar swarm"><i style="width:95%">`,
		`<td>2 (final)</td><td class="wide">sl-0</td><td>0.25</td>`,
		`&lt;b&gt;c&lt;/b&gt;`, `<b>equal</b>`, `prefers-color-scheme: dark`, `width=device-width`, `<code title="0a0a`,
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
