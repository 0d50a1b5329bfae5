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
	Rounds      int64   `json:"rounds"`       // committed rounds, first and final included
	WallSeconds float64 `json:"wall_seconds"` // from the command's start to the last program's end
	Peers       []Peer  `json:"peers"`
	Program     string  `json:"program"`
	Metric      string  `json:"metric"` // the metric's own name; empty when no program told it
	Platform    string  `json:"platform"`
	Runtime     string  `json:"runtime"`  // of the programs: process or docker
	Contract    string  `json:"contract"` // empty when the programs used none
	SNs         int     `json:"sns"`
	MinPeers    int     `json:"min_peers"`
	ModelsEqual bool    `json:"models_equal"` // all peers that did not fail ended with the same bytes, known of all
	Started     string  `json:"started"`      // RFC 3339, UTC

	State         string `json:"state"`          // Finished, Interrupted or Failed
	Reason        string `json:"reason"`         // why it did not finish, or why programs failed; empty when all ended well
	Ended         string `json:"ended"`          // RFC 3339, UTC
	Project       string `json:"project"`        // name of the model directory
	ProgramSHA256 string `json:"program_sha256"` // of the program's file, hex; empty when it could not be read
	Host          string `json:"host"`           // name of this machine
	// ContractMinPeers is the minPeers that the programs agreed on, 0 when not known: they need not heed MinPeers.
	ContractMinPeers int               `json:"contract_min_peers"`
	Method           string            `json:"method"`         // how models were merged; empty when not known
	SyncFrequency    int64             `json:"sync_frequency"` // batches between merges, as the program asked; 0 when not known
	Versions         map[string]string `json:"versions"`       // of swarmd and of what the programs use
	Warnings         []Warning         `json:"warnings"`       // what is probably wrong with the training; never nil once it is written
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

// How a run ended.
const (
	Finished    = "finished"
	Interrupted = "interrupted" // by its user, or for its time
	Failed      = "failed"
)

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

	ModelDigest   *string  `json:"model_digest"`   // the final model's, as the swarm calls it: BLAKE3 in hex
	Epochs        int64    `json:"epochs"`         // that it finished
	Contributed   *int64   `json:"contributed"`    // rounds in which its model counted
	Weight        *int64   `json:"weight"`         // in the last of them
	DataSamples   *int64   `json:"data_samples"`   // of one pass through its data, as its program counts them
	TrainSeconds  *float64 `json:"train_seconds"`  // from on_train_begin to the end
	MergeSeconds  *float64 `json:"merge_seconds"`  // of these, those in which it stood still for merges
	SentBytes     *int64   `json:"sent_bytes"`     // by its node, in merges
	ReceivedBytes *int64   `json:"received_bytes"` // likewise
	CheckinMode   string   `json:"checkin_on_end"` // what its model counts for once it has ended; empty when not known
}

// Events is what is known of one peer: what its programs wrote, and what the swarm says of its session.
type Events struct {
	Name      string
	ModelDir  string
	Failed    bool
	Isolation string
	Checkin   string
	Sent      int64 // bytes, in merges; 0 when not known
	Received  int64
	Swarm     []metrics.Event
	Local     []metrics.Event // the baseline's; nil without one
}

// Summarise fills the peers' part of a summary, and what all peers tell alike. rounds is what the swarm says was committed; 0 takes the
// programs' word.
func (s *Summary) Summarise(peers []Events, rounds int64) {
	s.Peers, s.Rounds, s.Metric = nil, rounds, metricName(peers)
	for _, e := range peers {
		p := summarise(e)
		s.Rounds = max(s.Rounds, p.Rounds)
		s.Peers = append(s.Peers, p)
		s.learn(e)
	}
	s.ModelsEqual = s.equal()
}

func summarise(e Events) Peer {
	p := Peer{Name: e.Name, ModelDir: e.ModelDir, Failed: e.Failed, Isolation: e.Isolation, CheckinMode: e.Checkin}
	p.LocalLoss, p.LocalAccuracy = final(e.Local)
	p.SwarmLoss, p.SwarmAccuracy = final(e.Swarm)
	p.TrainSeconds, p.MergeSeconds = took(e.Swarm)
	for _, ev := range slices.Concat(e.Local, e.Swarm) {
		if ev.DataSamples > 0 {
			p.DataSamples = &ev.DataSamples
		}
	}
	if e.Sent > 0 || e.Received > 0 {
		p.SentBytes, p.ReceivedBytes = &e.Sent, &e.Received
	}
	for _, ev := range e.Swarm {
		p.Epochs = max(p.Epochs, ev.Epoch)
		switch ev.Kind {
		case metrics.Merge:
			p.Rounds = max(p.Rounds, ev.Round)
		case metrics.End:
			p.Rounds = max(p.Rounds, ev.Rounds, ev.Round)
			p.ModelSHA256, p.ModelDigest = known(ev.ModelSHA256), known(ev.Digest)
		}
	}
	return p
}

// known is nil for nothing.
func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// learn takes over what a peer's program says of all of them. The first word counts: they run the same program.
func (s *Summary) learn(e Events) {
	for _, ev := range slices.Concat(e.Swarm, e.Local) {
		if ev.Kind != metrics.Start {
			continue
		}
		if s.SyncFrequency == 0 {
			s.SyncFrequency = ev.SyncFrequency
		}
		for name, version := range ev.Versions {
			if s.Versions == nil {
				s.Versions = map[string]string{}
			}
			if s.Versions[name] == "" {
				s.Versions[name] = version
			}
		}
	}
}

// took returns how long a training took, up to its last event, and for how much of that it stood still for merges; nil when nothing is
// known. A program that was started again is timed from its first start.
func took(events []metrics.Event) (train, merge *float64) {
	if len(events) == 0 || events[0].TS <= 0 {
		return nil, nil
	}
	var still float64
	for _, e := range events {
		if e.Kind == metrics.Merge {
			still += e.Seconds
		}
	}
	took := events[len(events)-1].TS - events[0].TS
	if still = min(still, took); !(took >= 0) {
		return nil, nil
	}
	return &took, &still
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
		digest := p.Digest()
		if p.Failed {
			digest = "failed"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\n", p.Name, Number(p.LocalAccuracy), Number(p.SwarmAccuracy), digest, p.Rounds)
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// Digest names the final model as logs, ledger and swarmctl do, by the swarm's digest. A program that does not tell it has the SHA-256 of
// its parameters, which is said.
func (p *Peer) Digest() string {
	switch {
	case p.ModelDigest != nil:
		return (*p.ModelDigest)[:12]
	case p.ModelSHA256 != nil:
		return "sha256:" + (*p.ModelSHA256)[:12]
	}
	return "unknown"
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
