package report

import (
	"maps"
	"math"
	"slices"

	"github.com/swarmd/swarmd/internal/swci/metrics"
)

// Round is one committed round as the page shows it.
type Round struct {
	Round        int64           `json:"round"`
	Attempt      int64           `json:"attempt"` // 0 when unknown
	Participants []string        `json:"participants"`
	Weights      []int64         `json:"weights"` // of the participants, in their order; nil when not known
	Seconds      float64         `json:"seconds"` // from plan to commit; 0 when unknown
	Digest       string          `json:"digest"`
	Final        bool            `json:"final"`
	Loss         *float64        `json:"loss"` // mean over the peers that measured the round's model
	Metric       *float64        `json:"metric"`
	Durations    *Phases         `json:"durations_ms,omitempty"` // nil when not known
	Failed       []FailedAttempt `json:"failed,omitempty"`       // attempts before that which succeeded, as far as they are known
}

// Phases are how long the parts of a round took, in milliseconds, each nil when not known.
type Phases struct {
	Waiting  *uint64 `json:"waiting"`
	Training *uint64 `json:"training"`
	Exchange *uint64 `json:"exchange"`
	Commit   *uint64 `json:"commit"`
}

// FailedAttempt is an attempt of a round that was given up.
type FailedAttempt struct {
	Attempt uint64 `json:"attempt"`
	Blamed  string `json:"blamed"` // node that it failed by; empty: nobody is known
	Reason  string `json:"reason"`
}

// Past is how a round went, as SNs keep it beside the ledger.
type Past struct {
	Phases Phases
	Failed []FailedAttempt
}

// AddPast adds how rounds went, by their numbers.
func AddPast(rounds []Round, past map[int64]Past) {
	for i := range rounds {
		if p, ok := past[rounds[i].Round]; ok {
			rounds[i].Durations, rounds[i].Failed = &p.Phases, p.Failed
		}
	}
}

// Contribute fills in what each peer contributed, as far as the rounds' weights are known.
func (s *Summary) Contribute(rounds []Round) {
	for i := range s.Peers {
		p := &s.Peers[i]
		for _, r := range rounds {
			at := slices.Index(r.Participants, p.Name)
			if len(r.Weights) != len(r.Participants) {
				continue
			}
			if p.Contributed == nil {
				p.Contributed = new(int64)
			}
			if at >= 0 && r.Weights[at] > 0 {
				*p.Contributed++
				p.Weight = &r.Weights[at]
			}
		}
	}
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
