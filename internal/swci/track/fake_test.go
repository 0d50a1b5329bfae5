package track_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/track"
)

// swarm is a training of two peers that commits a round every second of virtual time. What its peers say of a round comes late: sl-0's loss
// after 100 ms, and of every fifth round sl-1's after 20 s.
type swarm struct {
	began  time.Time
	rounds uint64
	run    uint64
	kept   uint64 // rounds up to it are no longer in the history
	down   func() bool
	resets time.Time // when its second run begins, of ten rounds; zero: never
	gone   bool      // the contract was deleted
	asked  []time.Time

	lacks func(round uint64) bool // of rounds that the history lacks for now
	dull  func(round uint64) bool // likewise of those of which it knows little
}

// forNow are rounds from one to another, until some time has passed.
func forNow(from, to uint64, wait time.Duration) func(uint64) bool {
	until := time.Now().Add(wait)
	return func(round uint64) bool { return round >= from && round <= to && time.Now().Before(until) }
}

func (s *swarm) committed(round uint64) time.Time {
	return s.began.Add(time.Duration(round) * time.Second)
}

func (s *swarm) ask() error {
	s.asked = append(s.asked, time.Now())
	if s.run == 1 && !s.resets.IsZero() && time.Now().After(s.resets) {
		s.run, s.began, s.rounds = 2, time.Now(), 10
	}
	if s.down != nil && s.down() {
		return exit.New(exit.NoLeader, "wait", "no leader")
	}
	return nil
}

// State implements track.Source.
func (s *swarm) State(context.Context) (track.State, error) {
	if err := s.ask(); err != nil {
		return track.State{}, err
	}
	if s.gone {
		return track.State{Swarm: "a1", Contract: "c"}, exit.New(exit.NotFound, "look at the list", "there is no contract c")
	}
	round := min(s.rounds, uint64(max(0, time.Since(s.began)/time.Second)))
	out := track.State{
		Swarm: "a1", Contract: "c", Run: s.run, Round: round, Over: round == s.rounds, Standing: track.Running, Params: []track.Param{{Key: "method", Value: "mean"}},
		Peers: map[string]track.Peer{"sl-0": {Standing: track.Running, Params: []track.Param{{Key: "weight", Value: "1"}}}, "sl-1": {Standing: track.Running}},
	}
	if round > 0 {
		out.AtMS = s.committed(round).UnixMilli()
	}
	if out.Over {
		out.Standing, out.Peers["sl-0"], out.Peers["sl-1"] = track.Finished, track.Peer{Standing: track.Finished}, track.Peer{Standing: track.Failed}
	}
	return out, nil
}

// After implements track.Source.
func (s *swarm) After(_ context.Context, after uint64) (out track.Page, err error) {
	if err := s.ask(); err != nil {
		return out, err
	}
	out.Run = s.run
	first := max(after, s.kept) + 1
	for round := first; round <= s.rounds && !time.Now().Before(s.committed(round)); round++ {
		if len(out.Rounds) == 20 {
			out.More = true
			break
		}
		if s.lacks != nil && s.lacks(round) {
			continue
		}
		r := s.round(round, time.Since(s.committed(round)))
		if s.dull != nil && s.dull(round) {
			r.Told, r.Record, r.Peers, r.Swarm = false, 0, nil, r.Swarm[len(r.Swarm)-1:]
		}
		out.Rounds = append(out.Rounds, r)
	}
	return out, nil
}

// round is what is known of one at an age.
func (s *swarm) round(round uint64, age time.Duration) track.Round {
	peer := track.Value{Key: "contributed", Value: 1}
	out := track.Round{Round: round, AtMS: s.committed(round).UnixMilli(), Digest: fmt.Sprintf("digest%d", round), Record: round + 3}
	one, two := []track.Value{peer}, []track.Value{peer}
	if age >= 100*time.Millisecond {
		one = append(one, track.Value{Key: "loss", Value: float64(round) / 2})
		out.Swarm = append(out.Swarm, track.Value{Key: "loss", Value: float64(round)})
	}
	late := round%5 == 0
	if age >= 20*time.Second || !late && age >= 100*time.Millisecond {
		two = append(two, track.Value{Key: "loss", Value: float64(round) * 2})
	}
	out.Told = len(one)+len(two) == 4
	out.Swarm = append(out.Swarm, track.Value{Key: track.Whole, Value: 2})
	out.Peers = []track.PeerRound{{Node: "sl-0", Values: one}, {Node: "sl-1", Values: two}}
	if out.Told {
		out.Metric, out.Peers[0].Metric = "F1", "F1" // sl-1 does not say
	}
	return out
}

// want is what a tracker must have at the end, by node and figure: a value for each round.
func (s *swarm) want() map[string]map[string]map[uint64]float64 {
	out := map[string]map[string]map[uint64]float64{}
	add := func(node string, round uint64, values []track.Value) {
		for _, v := range values {
			if out[node] == nil {
				out[node] = map[string]map[uint64]float64{}
			}
			if out[node][v.Key] == nil {
				out[node][v.Key] = map[uint64]float64{}
			}
			out[node][v.Key][round] = v.Value
		}
	}
	for round := s.kept + 1; round <= s.rounds; round++ {
		r := s.round(round, time.Hour)
		add("", round, r.Swarm)
		for _, p := range r.Peers {
			add(p.Node, round, p.Values)
		}
	}
	return out
}

// server is an MLflow that keeps all it is told, twice what it is told twice.
type server struct {
	t     *testing.T
	fault func(path string) fault
	runs  []*logged
	made  bool // the experiment

	created int // runs
}

// fault is what goes wrong with a call.
type fault int

const (
	none    fault = iota
	busy          // 429, nothing is done
	broken        // 500, nothing is done
	refused       // no connection
	half          // the first half of a batch is kept, then it hangs up
	lost          // all is done, then it hangs up
	denied        // 403, nothing is done
)

// logged is a run.
type logged struct {
	ID      string
	Status  string
	EndMS   int64
	Tags    map[string]string
	Params  map[string]string
	Metrics []struct {
		Key       string
		Value     float64
		Timestamp int64
		Step      uint64
	}
}

var errHangsUp = errors.New("hangs up")

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	w, bad := httptest.NewRecorder(), none
	if s.fault != nil {
		bad = s.fault(r.URL.Path)
	}
	switch bad {
	case busy:
		w.WriteHeader(http.StatusTooManyRequests)
		return w.Result(), nil
	case broken:
		w.WriteHeader(http.StatusInternalServerError)
		return w.Result(), nil
	case denied:
		w.WriteHeader(http.StatusForbidden)
		return w.Result(), nil
	case refused:
		return nil, errHangsUp
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.serve(w, strings.TrimPrefix(r.URL.Path, "/api/2.0/mlflow/"), r.URL.Query(), raw, bad == half)
	if bad == half || bad == lost {
		return nil, errHangsUp
	}
	return w.Result(), nil
}

type keyed struct{ Key, Value string }

func (s *server) serve(w http.ResponseWriter, path string, query url.Values, raw []byte, half bool) {
	var in struct {
		RunID        string `json:"run_id"`
		Status       string
		EndTime      int64 `json:"end_time"`
		Tags, Params []keyed
		Metrics      json.RawMessage
		Filter       string
	}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &in); err != nil {
			s.t.Errorf("%s: %v", path, err)
		}
	}
	switch path {
	case "experiments/get-by-name":
		if !s.made {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error_code":"RESOURCE_DOES_NOT_EXIST","message":"no experiment"}`)
			return
		}
		fmt.Fprintf(w, `{"experiment":{"experiment_id":"7","name":%q,"lifecycle_stage":"active"}}`, query.Get("experiment_name"))
	case "experiments/create":
		s.made = true
		fmt.Fprint(w, `{"experiment_id":"7"}`)
	case "runs/create":
		r := &logged{ID: fmt.Sprintf("r%d", s.created), Status: "RUNNING", Tags: map[string]string{}, Params: map[string]string{}}
		s.created++
		for _, t := range in.Tags {
			r.Tags[t.Key] = t.Value
		}
		s.runs = append(s.runs, r)
		s.show(w, "run", r)
	case "runs/search":
		var found []any
		for _, r := range s.runs {
			if all, own := strings.Contains(in.Filter, "swarmd.run"), strings.Contains(in.Filter, "tags.`swarmd.run` = '"+r.Tags["swarmd.run"]+"'"); (own || !all) &&
				(!strings.Contains(in.Filter, "attributes.status") || strings.Contains(in.Filter, "attributes.status = '"+r.Status+"'")) {
				found = append(found, r.shown())
			}
		}
		s.show(w, "runs", found)
	case "runs/log-batch", "runs/update":
		if !slices.ContainsFunc(s.runs, func(r *logged) bool { return r.ID == in.RunID }) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error_code":"RESOURCE_DOES_NOT_EXIST","message":"no run"}`)
			return
		}
		if path == "runs/update" {
			r := s.run(in.RunID)
			r.Status, r.EndMS = in.Status, in.EndTime
			fmt.Fprint(w, `{}`)
			return
		}
		s.logBatch(w, in.RunID, in.Metrics, in.Params, in.Tags, half)
	default:
		s.t.Errorf("asked for %s", path)
	}
}

func (s *server) run(id string) *logged {
	for _, r := range s.runs {
		if r.ID == id {
			return r
		}
	}
	s.t.Errorf("no run %q", id)
	return &logged{}
}

// logBatch keeps what a call has; parameters can't be changed.
func (s *server) logBatch(w http.ResponseWriter, id string, metrics json.RawMessage, params, tags []keyed, half bool) {
	r := s.run(id)
	all := r.Metrics[:0:0]
	if len(metrics) > 0 {
		if err := json.Unmarshal(metrics, &all); err != nil {
			s.t.Error(err)
		}
	}
	if len(all)+len(params)+len(tags) > 1000 || len(params) > 100 || len(tags) > 100 {
		s.t.Errorf("a batch of %d metrics, %d parameters, %d tags", len(all), len(params), len(tags))
	}
	if half {
		r.Metrics = append(r.Metrics, all[:len(all)/2]...)
		return
	}
	r.Metrics = append(r.Metrics, all...)
	for _, p := range params {
		if have, ok := r.Params[p.Key]; ok && have != p.Value {
			s.t.Errorf("parameter %s of %s becomes %s", p.Key, have, p.Value)
		}
		r.Params[p.Key] = p.Value
	}
	for _, t := range tags {
		r.Tags[t.Key] = t.Value
	}
	fmt.Fprint(w, `{}`)
}

func (s *server) show(w io.Writer, name string, what any) {
	if r, ok := what.(*logged); ok {
		what = r.shown()
	}
	if err := json.NewEncoder(w).Encode(map[string]any{name: what}); err != nil {
		s.t.Error(err)
	}
}

// shown is a run as servers show it: of each metric the newest step alone.
func (r *logged) shown() any {
	last := map[string]uint64{}
	for _, m := range r.Metrics {
		last[m.Key] = max(last[m.Key], m.Step)
	}
	metrics, params, tags := []any{}, []keyed{}, []keyed{}
	for key, step := range last {
		metrics = append(metrics, map[string]any{"key": key, "step": step})
	}
	for k, v := range r.Params {
		params = append(params, keyed{k, v})
	}
	for k, v := range r.Tags {
		tags = append(tags, keyed{k, v})
	}
	lower := func(all []keyed) (out []map[string]string) {
		for _, x := range all {
			out = append(out, map[string]string{"key": x.Key, "value": x.Value})
		}
		return out
	}
	return map[string]any{"info": map[string]any{"run_id": r.ID, "status": r.Status}, "data": map[string]any{"metrics": metrics, "params": lower(params), "tags": lower(tags)}}
}

// have is what the runs of a training hold; a step that is there twice, or another value at once, fails.
func (s *server) have(run string) map[string]map[string]map[uint64]float64 {
	s.t.Helper()
	out := map[string]map[string]map[uint64]float64{}
	for _, r := range s.runs {
		if r.Tags["swarmd.run"] != run {
			continue
		}
		node := r.Tags["swarmd.node"]
		if out[node] != nil {
			s.t.Errorf("two runs of %q", node)
		}
		out[node] = map[string]map[uint64]float64{}
		for _, m := range r.Metrics {
			if out[node][m.Key] == nil {
				out[node][m.Key] = map[uint64]float64{}
			}
			if _, twice := out[node][m.Key][m.Step]; twice {
				s.t.Errorf("step %d of %s of %q is there twice", m.Step, m.Key, node)
			}
			out[node][m.Key][m.Step] = m.Value
		}
	}
	return out
}

// faults has every n-th call or so go wrong.
func faults(seed uint64, n int) func(string) fault {
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test's
	return func(string) fault {
		if r.IntN(n) == 0 {
			return fault(1 + r.IntN(int(lost)))
		}
		return none
	}
}
