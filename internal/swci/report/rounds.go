package report

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/swarmd/swarmd/internal/swci/metrics"
)

// Round is one committed round as the page shows it.
type Round struct {
	Round        int64
	Attempt      int64
	Participants []string
	Weights      []int64 // of the participants, in their order; nil when not known
	Seconds      float64 // from plan to commit; 0 when unknown
	Digest       string
	Final        bool
	Loss, Metric *float64 // mean over the peers that measured the round's model
}

// share is the part of the merged model that is a node's, 0 if it took no part. Where weights are not known, all count alike.
func (r *Round) share(node string) float64 {
	i := slices.Index(r.Participants, node)
	if i < 0 {
		return 0
	}
	if len(r.Weights) != len(r.Participants) {
		return 1 / float64(len(r.Participants))
	}
	var sum int64
	for _, w := range r.Weights {
		sum += w
	}
	if sum == 0 {
		return 0
	}
	return float64(r.Weights[i]) / float64(sum)
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

// Parts names the participants, each with its weight where weights are known and differ.
func (r Round) Parts() []string {
	if len(r.Weights) != len(r.Participants) || len(slices.Compact(slices.Clone(r.Weights))) < 2 {
		return r.Participants
	}
	var out []string
	for i, name := range r.Participants {
		out = append(out, fmt.Sprintf("%s (%d)", name, r.Weights[i]))
	}
	return out
}
