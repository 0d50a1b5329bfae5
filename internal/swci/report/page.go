package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
)

//go:embed page.html
var pageHTML string

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
		"time": func(f *float64) string {
			if f == nil {
				return "-"
			}
			return seconds(*f)
		},
		"took": seconds,
		"size": func(n *int64) string {
			if n == nil {
				return "-"
			}
			return inBytes(*n)
		},
		"count": func(n *int64) string {
			if n == nil {
				return "-"
			}
			return fmt.Sprint(*n)
		},
		"deref": func(s *string) string {
			if s == nil {
				return ""
			}
			return *s
		},
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

// openRounds is up to how many rounds their table is shown at once: a page is for reading, not for scrolling.
const openRounds = 12

// pageData is what the template gets.
type pageData struct {
	*Page
	Title, Headline string
	Bars            []bar
	Charts          []chart
	Contributions   *contributions
	Times           []timeBar
	Facts           []fact
	Fold            bool // the rounds' table
	LastRound       Round
	Whole           bool // the run came to its end
	Samples         bool // a program told how many it has
	Baseline        bool
	Own             string // what a peer's own curve is called
}

func (p *Page) data() pageData {
	d := pageData{
		Page: p, Title: p.Summary.Title(), Headline: p.Summary.headline(), Bars: p.bars(), Charts: p.charts(), Contributions: p.contributions(),
		Times: p.Summary.times(), Facts: append(p.Summary.facts(), p.lastModel()...), Fold: len(p.Rounds) > openRounds, Baseline: p.baseline(), Own: p.ownWords(), Whole: p.Summary.State == Finished,
		Samples: slices.ContainsFunc(p.Summary.Peers, func(p Peer) bool { return p.DataSamples != nil }),
	}
	if n := len(p.Rounds); n > 0 {
		d.LastRound = p.Rounds[n-1]
	}
	return d
}

// OwnCurves are those of peers, for the key.
func (d pageData) OwnCurves() []curve {
	if len(d.Charts) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(d.Charts[0].Curves), func(c curve) bool { return c.Class == "swarm" })
}
