package metrics

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The phases of a round at an SL.
const (
	phaseTraining = "training" // from the answer to a Sync until the next one
	phaseWaiting  = "waiting"  // from a Sync until the attempt that is committed begins, or until a model of others' is there
	phaseExchange = "exchange" // that attempt
	phaseCommit   = "commit"   // from its end until the model is handed to the program
)

// rounds measures what a program's rounds consist of.
type rounds struct {
	phases *prometheus.HistogramVec
	models *prometheus.CounterVec

	mu       sync.Mutex
	asked    call      // the newest one
	since    time.Time // when it came first; zero: it is answered
	training time.Time // when the program began to train; zero: it does not
	done     span      // the newest attempt that succeeded
}

// call is a Sync or a Close of a program, which repeats it until there is an answer.
type call struct {
	session string
	seq     uint64
	closes  bool
}

// span is from when until when something was done.
type span struct{ from, to time.Time }

func newRounds() *rounds {
	r := &rounds{
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "swarmd_round_phase_duration_seconds", Help: "What the program's rounds consist of.", Buckets: durations,
		}, []string{"phase"}),
		models: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "swarmd_program_models_total", Help: "Merged models that were handed to the program, by whether it contributed.",
		}, []string{"contributed"}),
	}
	for _, phase := range []string{phaseTraining, phaseWaiting, phaseExchange, phaseCommit} {
		r.phases.WithLabelValues(phase)
	}
	for _, contributed := range []bool{true, false} {
		r.models.WithLabelValues(strconv.FormatBool(contributed))
	}
	return r
}

func (r *rounds) observe(phase string, took time.Duration) {
	r.phases.WithLabelValues(phase).Observe(max(0, took).Seconds())
}

// begin takes a call of the program. One that is repeated began with the first.
func (r *rounds) begin(c call, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked == c {
		return
	}
	if !r.training.IsZero() && r.asked.session == c.session {
		r.observe(phaseTraining, now.Sub(r.training))
	}
	r.asked, r.since, r.training = c, now, time.Time{}
}

// merged takes an attempt that succeeded.
func (r *rounds) merged(s span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = s
}

// end takes the answer to a call. over says that the program trains no more.
func (r *rounds) end(c call, now time.Time, contributed, over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked != c || r.since.IsZero() {
		return
	}
	if r.done.to.After(r.since) {
		r.observe(phaseWaiting, r.done.from.Sub(r.since))
		r.observe(phaseExchange, r.done.to.Sub(r.done.from))
		r.observe(phaseCommit, now.Sub(r.done.to))
	} else {
		r.observe(phaseWaiting, now.Sub(r.since))
	}
	r.models.WithLabelValues(strconv.FormatBool(contributed)).Inc()
	r.since = time.Time{}
	if !over {
		r.training = now
	}
}
