package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strings"
)

// pageHTML is what web/ builds: one file with its script and its style sheet, and with words in it that stand for what a report says.
//
//go:embed page/report.html
var pageHTML string

// What stands for the title, the headline and the data, each once.
const (
	titleMark    = "%REPORT_TITLE%"
	headlineMark = "%REPORT_HEADLINE%"
	dataMark     = "%REPORT_DATA%"
)

// Page is what report.html is made of.
type Page struct {
	Summary Summary
	Peers   []Events
	Rounds  []Round
}

// Report is what report.html shows, in it as JSON.
type Report struct {
	Title       string  `json:"title"`
	Headline    string  `json:"headline"`
	Summary     Summary `json:"summary"`
	MetricTitle string  `json:"metric_title"`
	Baseline    bool    `json:"baseline"` // peers were trained alone too
	FinalModels string  `json:"final_models"`
	Axis        string  `json:"axis"` // of the charts: epoch or round
	Charts      []Chart `json:"charts"`
	Rounds      []Round `json:"rounds"`
	Facts       []Fact  `json:"facts"`
}

// WriteHTML writes one page that needs nothing else: no file, no network.
func (p *Page) WriteHTML(w io.Writer) error {
	r := p.Report()
	data, err := json.Marshal(r) // escapes <, > and &, so that no name ends the element that it stands in
	if err != nil {
		return fmt.Errorf("encode report page: %w", err)
	}
	fill := strings.NewReplacer(titleMark, html.EscapeString(r.Title), headlineMark, html.EscapeString(r.Headline), dataMark, string(data))
	if _, err := fill.WriteString(w, pageHTML); err != nil {
		return fmt.Errorf("write report page: %w", err)
	}
	return nil
}

// Report is what the page shows.
func (p *Page) Report() Report {
	s := p.Summary
	s.Peers, s.Warnings = append([]Peer{}, s.Peers...), append([]Warning{}, s.Warnings...)
	r := Report{
		Title: s.Title(), Headline: s.headline(), Summary: s, MetricTitle: s.MetricTitle(), Baseline: p.baseline(), FinalModels: s.finalModels(),
		Axis: p.axis(), Charts: p.charts(), Rounds: append([]Round{}, p.Rounds...), Facts: append(s.facts(), p.lastModel()...),
	}
	for i, x := range r.Rounds {
		r.Rounds[i].Participants, r.Rounds[i].Weights = append([]string{}, x.Participants...), append([]int64{}, x.Weights...)
	}
	return r
}

// finalModels says whether all peers ended with one model: equal, different or unknown; nothing of a run that did not end.
func (s *Summary) finalModels() string {
	switch {
	case s.State != Finished:
		return ""
	case s.ModelsEqual:
		return "equal"
	case s.Differ():
		return "different"
	}
	return "unknown"
}
