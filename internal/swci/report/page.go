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
	"time"

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
		"bar":    bar,
		"plural": plural,
		"when":   when,
	}).Parse(pageHTML)
	if err != nil {
		return fmt.Errorf("parse report page: %w", err)
	}
	if err := t.Execute(w, p.data()); err != nil {
		return fmt.Errorf("write report page: %w", err)
	}
	return nil
}

// What is folded away at first: a page is for reading, not for scrolling.
const (
	openPeers  = 6  // peers whose curves are shown at once
	openRounds = 20 // rounds up to which their table is
)

// pageData is what the template gets.
type pageData struct {
	*Page
	Charts, MoreCharts []peerCharts
	Fold               bool // the rounds' table
	LastRound          Round
	Baseline           bool
	Measured           bool // there is a curve at all
}

func (p *Page) data() pageData {
	d := pageData{
		Page: p, Charts: p.charts(), Fold: len(p.Rounds) > openRounds,
		Baseline: slices.ContainsFunc(p.Peers, func(e Events) bool { return len(e.Local) > 0 }),
	}
	d.Measured = slices.ContainsFunc(d.Charts, func(c peerCharts) bool { return len(c.Charts) > 0 })
	if len(d.Charts) > openPeers {
		d.Charts, d.MoreCharts = d.Charts[:openPeers], d.Charts[openPeers:]
	}
	if n := len(p.Rounds); n > 0 {
		d.LastRound = p.Rounds[n-1]
	}
	return d
}

// plural is "1 round" or "2 rounds" without the number.
func plural(n any, word string) string {
	if fmt.Sprint(n) == "1" {
		return word
	}
	return word + "s"
}

// when renders an RFC 3339 time for people; another text stays as it is.
func when(stamp string) string {
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return stamp
	}
	return t.UTC().Format("2 January 2006, 15:04 UTC")
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
