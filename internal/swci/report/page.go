package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/swci/metrics"
)

//go:embed page.html
var pageHTML string

// Round is one committed round as the table of rounds shows it.
type Round struct {
	Round        int64
	Attempt      int64
	Participants []string
	Seconds      float64 // from plan to commit; 0 when unknown
	Digest       string
	Final        bool
	Loss, Metric *float64 // mean over the peers that measured the round's model
}

// Page is all that report.html shows.
type Page struct {
	Summary Summary
	Peers   []Events
	Rounds  []Round
}

// WriteHTML writes one page that needs nothing else: no script of others, no font, no image, no network.
func (p *Page) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"number": Number,
		"join":   func(s []string) string { return strings.Join(s, ", ") },
		"short":  func(s string) string { return s[:min(12, len(s))] },
		"secs":   func(f float64) string { return fmt.Sprintf("%.2f", f) },
		"deref": func(s *string) string {
			if s == nil {
				return ""
			}
			return *s
		},
		"bar": bar,
	}).Parse(pageHTML)
	if err != nil {
		return fmt.Errorf("parse report page: %w", err)
	}
	data := struct {
		*Page
		Charts   []peerCharts
		Baseline bool
	}{Page: p, Charts: p.charts(), Baseline: slices.ContainsFunc(p.Peers, func(e Events) bool { return len(e.Local) > 0 })}
	if err := t.Execute(w, data); err != nil {
		return fmt.Errorf("write report page: %w", err)
	}
	return nil
}

// bar is the width in percent of a value between 0 and 1.
func bar(f *float64) float64 {
	if f == nil || !(*f > 0) {
		return 0
	}
	return min(*f, 1) * 100
}

// MergeRounds joins what the swarm remembers of the rounds with what the programs measured. Rounds that only the programs
// know (the leader forgets old ones) are kept.
func MergeRounds(known []Round, peers []Events) []Round {
	rounds := map[int64]*Round{}
	for _, r := range known {
		rounds[r.Round] = &r
	}
	type sum struct{ loss, metric, losses, metrics float64 }
	sums := map[int64]*sum{}
	for _, p := range peers {
		for _, e := range p.Swarm {
			if e.Kind != metrics.Merge || e.Round == 0 {
				continue
			}
			r := rounds[e.Round]
			if r == nil {
				r = &Round{Round: e.Round}
				rounds[e.Round] = r
			}
			if len(r.Participants) == 0 {
				r.Participants = e.Participants
			}
			if known := r.Attempt > 0 && r.Seconds > 0; !known {
				r.Seconds = max(r.Seconds, e.Seconds)
			}
			s := sums[e.Round]
			if s == nil {
				s = &sum{}
				sums[e.Round] = s
			}
			if e.Loss != nil {
				s.loss += *e.Loss
				s.losses++
			}
			if e.Metric != nil {
				s.metric += *e.Metric
				s.metrics++
			}
		}
	}
	var out []Round
	for _, n := range slices.Sorted(maps.Keys(rounds)) {
		r := rounds[n]
		if s := sums[n]; s != nil {
			r.Loss, r.Metric = mean(s.loss, s.losses), mean(s.metric, s.metrics)
		}
		out = append(out, *r)
	}
	return out
}

func mean(sum, n float64) *float64 {
	if n == 0 {
		return nil
	}
	m := sum / n
	if math.IsInf(m, 0) || math.IsNaN(m) {
		return nil // absurd values may add up to no number
	}
	return &m
}
