// Package report turns what a local run left behind into summary.json, the closing table and report.html.
package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/swarmd/swarmd/internal/swci/metrics"
)

// Summary is summary.json. Its fields are described in docs/reference/local.md and only ever grow.
type Summary struct {
	Rounds      int64     `json:"rounds"`       // committed rounds, first and final included
	WallSeconds float64   `json:"wall_seconds"` // from the command's start to the last program's end
	Peers       []Peer    `json:"peers"`
	Program     string    `json:"program"`
	Metric      string    `json:"metric"` // the metric's own name; empty when no program told it
	Platform    string    `json:"platform"`
	Runtime     string    `json:"runtime"`  // of the programs: process or docker
	Contract    string    `json:"contract"` // empty when the programs used none
	SNs         int       `json:"sns"`
	MinPeers    int       `json:"min_peers"`
	ModelsEqual bool      `json:"models_equal"` // all peers that did not fail ended with the same bytes, known of all
	Started     string    `json:"started"`      // RFC 3339, UTC
	Warnings    []Warning `json:"warnings"`     // what is probably wrong with the training; never nil once it is written
}

// Warning is one thing that is probably wrong with a training that went on without an error.
type Warning struct {
	Reason string `json:"reason"` // UPPER_SNAKE, listed in docs/reference/warnings.md
	Peer   string `json:"peer"`   // whom it is about; empty: all of them
	Text   string `json:"text"`   // one line, with what to do
	Advice bool   `json:"advice"` // nothing is wrong, but something could be better
}

// Wrong returns the warnings that are more than advice.
func (s *Summary) Wrong() []Warning {
	return slices.DeleteFunc(slices.Clone(s.Warnings), func(w Warning) bool { return w.Advice })
}

// DefaultMetric is what a metric is called whose program does not tell its name.
const DefaultMetric = "accuracy"

// Peer is one peer's result. What was not measured is nil.
type Peer struct {
	Name          string   `json:"name"`
	LocalAccuracy *float64 `json:"local_accuracy"`
	SwarmAccuracy *float64 `json:"swarm_accuracy"`
	ModelSHA256   *string  `json:"model_sha256"`
	LocalLoss     *float64 `json:"local_loss"`
	SwarmLoss     *float64 `json:"swarm_loss"`
	Rounds        int64    `json:"rounds"` // that this peer loaded a model of
	ModelDir      string   `json:"model_dir"`
	Failed        bool     `json:"failed"`    // its program failed, the others went on
	Isolation     string   `json:"isolation"` // what keeps its program in, in the SL's words; empty when not known
}

// Events is what one peer's programs wrote.
type Events struct {
	Name      string
	ModelDir  string
	Failed    bool
	Isolation string
	Swarm     []metrics.Event
	Local     []metrics.Event // the baseline's; nil without one
}

// Summarise fills the peers' part of a summary, and ModelsEqual. rounds is what the swarm says was committed; 0 takes the
// programs' word.
func (s *Summary) Summarise(peers []Events, rounds int64) {
	s.Peers, s.Rounds, s.Metric = nil, rounds, metricName(peers)
	for _, e := range peers {
		p := Peer{Name: e.Name, ModelDir: e.ModelDir, Failed: e.Failed, Isolation: e.Isolation}
		p.LocalLoss, p.LocalAccuracy = final(e.Local)
		p.SwarmLoss, p.SwarmAccuracy = final(e.Swarm)
		for _, ev := range e.Swarm {
			if ev.Kind == metrics.Merge {
				p.Rounds = max(p.Rounds, ev.Round)
			}
			if ev.Kind == metrics.End {
				p.Rounds = max(p.Rounds, ev.Rounds, ev.Round)
				if ev.ModelSHA256 != "" {
					p.ModelSHA256 = &ev.ModelSHA256
				}
			}
		}
		s.Rounds = max(s.Rounds, p.Rounds)
		s.Peers = append(s.Peers, p)
	}
	s.ModelsEqual = s.equal()
}

// metricName returns what all programs that told their metric's name call it; empty where they differ.
func metricName(peers []Events) string {
	found := ""
	for _, p := range peers {
		for _, e := range slices.Concat(p.Swarm, p.Local) {
			if e.MetricName == "" || e.MetricName == found {
				continue
			}
			if found != "" {
				return ""
			}
			found = e.MetricName
		}
	}
	return found
}

// MetricTitle returns the metric's name, or what a metric without one is called.
func (s *Summary) MetricTitle() string { return cmp.Or(s.Metric, DefaultMetric) }

// equal reports whether all peers that did not fail, and one at least, ended with the same model.
func (s *Summary) equal() bool {
	seen := map[string]bool{}
	for _, p := range s.Peers {
		switch {
		case p.Failed:
		case p.ModelSHA256 == nil:
			return false
		default:
			seen[*p.ModelSHA256] = true
		}
	}
	return len(seen) == 1
}

// Differ reports whether two peers are known to have ended with different models: the swarm's first promise broken.
func (s *Summary) Differ() bool {
	seen := map[string]bool{}
	for _, p := range s.Peers {
		if p.ModelSHA256 != nil && !p.Failed {
			seen[*p.ModelSHA256] = true
		}
	}
	return len(seen) > 1
}

// final returns loss and metric of the model that training ended with, or the last ones measured before.
func final(events []metrics.Event) (loss, metric *float64) {
	for _, e := range events {
		if e.Kind == metrics.Start {
			continue
		}
		if e.Loss != nil {
			loss = e.Loss
		}
		if e.Metric != nil {
			metric = e.Metric
		}
	}
	return loss, metric
}

// WriteJSON writes the summary as indented JSON.
func (s *Summary) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

// WriteTable writes the closing table for people.
func (s *Summary) WriteTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	local, swarm := "LOCAL ONLY", "SWARM"
	if s.Metric != "" {
		local, swarm = s.Metric+" "+local, s.Metric+" "+swarm
	}
	fmt.Fprintf(tw, "PEER\t%s\t%s\tMODEL\tROUNDS\n", local, swarm)
	for _, p := range s.Peers {
		digest := "unknown"
		if p.Failed {
			digest = "failed"
		} else if p.ModelSHA256 != nil {
			digest = (*p.ModelSHA256)[:12]
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\n", p.Name, Number(p.LocalAccuracy), Number(p.SwarmAccuracy), digest, p.Rounds)
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// Number renders a measured value with four significant digits, or a dash.
func Number(f *float64) string {
	if f == nil {
		return "-"
	}
	if *f >= 0 && *f <= 1 {
		return strconv.FormatFloat(*f, 'f', 4, 64)
	}
	return strconv.FormatFloat(*f, 'g', 4, 64)
}
