package track

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/swci/track/mlflow"
)

// Tags by which runs are found again, and those that say what a model is.
const (
	tagSwarm    = "swarmd.swarm"
	tagContract = "swarmd.contract"
	tagRun      = "swarmd.run"
	tagNode     = "swarmd.node" // of the runs of peers
	tagDigest   = "swarmd.digest"
	tagDigests  = "swarmd.digests"
	tagRecord   = "swarmd.record"
	tagRound    = "swarmd.round"
	tagMetric   = "metric_name" // what the figure "metric" is
)

// maxDigests bounds the rounds in tagDigests.
const maxDigests = 40

// Whole is the figure that every round of the swarm has, written after all others.
const Whole = "peers"

// Experiment is an experiment of MLflow's: a run for the swarm, and in it one for each peer.
type Experiment struct {
	client *mlflow.Client
	name   string
	say    func(string)

	id    string
	state State
	runs  map[string]*mlflow.Run // by node; the swarm's is under ""
}

// NewExperiment returns the experiment of this name, which is made when it is first needed.
func NewExperiment(client *mlflow.Client, name string, say func(string)) *Experiment {
	return &Experiment{client: client, name: name, say: say}
}

var _ Sink = (*Experiment)(nil)

// String implements Sink.
func (e *Experiment) String() string { return e.client.String() }

// Run is the ID of the swarm's run; empty before Open.
func (e *Experiment) Run() string {
	if r := e.runs[""]; r != nil {
		return r.ID
	}
	return ""
}

// ID is the experiment's; empty before Open.
func (e *Experiment) ID() string { return e.id }

// Open implements Sink.
func (e *Experiment) Open(ctx context.Context, s *State) (after uint64, err error) {
	if e.id, err = e.client.Experiment(ctx, e.name); err != nil {
		return 0, err
	}
	if err := e.kill(ctx, e.id, s); err != nil {
		return 0, err
	}
	found, err := e.client.Search(ctx, e.id, append(ofContract(s), mlflow.Entry{Key: tagRun, Value: runNumber(s.Run)}), "")
	if err != nil {
		return 0, err
	}
	e.state, e.runs = *s, map[string]*mlflow.Run{}
	for i := range found {
		if node := found[i].Tags[tagNode]; e.runs[node] == nil {
			e.runs[node] = &found[i]
		}
	}
	known := e.runs[""] != nil
	if err := e.ensure(ctx, "", s.Params); err != nil {
		return 0, err
	}
	after = e.runs[""].Steps[Whole]
	does := "begins"
	if known {
		does = fmt.Sprintf("goes on behind round %d", after)
	}
	e.say(fmt.Sprintf("%s: experiment %s, run %s %s", e, e.name, e.Run(), does))
	return after, nil
}

// End implements Sink.
func (e *Experiment) End(ctx context.Context, s *State) error {
	id, err := e.client.Find(ctx, e.name)
	if err != nil || id == "" {
		return err
	}
	return e.kill(ctx, id, s)
}

// kill ends the runs of a contract in an experiment that are said to go on and are of an earlier run of it, or all if it is gone: it was reset or
// deleted.
func (e *Experiment) kill(ctx context.Context, experiment string, s *State) error {
	found, err := e.client.Search(ctx, experiment, ofContract(s), mlflow.Running)
	if err != nil {
		return err
	}
	for _, r := range found {
		if n, err := strconv.ParseUint(r.Tags[tagRun], 10, 64); err != nil || s.Run != 0 && n >= s.Run {
			continue
		}
		if err := e.client.Update(ctx, r.ID, mlflow.Killed, time.Now().UnixMilli()); err != nil {
			return err
		}
	}
	return nil
}

// ofContract are tags that all runs of a contract have.
func ofContract(s *State) []mlflow.Entry {
	return []mlflow.Entry{{Key: tagSwarm, Value: s.Swarm}, {Key: tagContract, Value: s.Contract}}
}

func runNumber(run uint64) string { return strconv.FormatUint(run, 10) }

// ensure makes the run of a node, if there is none, and writes those of its parameters that it lacks: MLflow has none change.
func (e *Experiment) ensure(ctx context.Context, node string, params []Param) error {
	run := e.runs[node]
	if run == nil {
		name, tags := fmt.Sprintf("%s run %d", e.state.Contract, e.state.Run), append(ofContract(&e.state), mlflow.Entry{Key: tagRun, Value: runNumber(e.state.Run)})
		if node != "" {
			name, tags = node, append(tags, mlflow.Entry{Key: tagNode, Value: node}, mlflow.Entry{Key: "mlflow.parentRunId", Value: e.Run()})
		}
		tags = append(tags, mlflow.Entry{Key: "mlflow.source.name", Value: "swarmctl track contract"})
		id, err := e.client.Create(ctx, e.id, name, cmp.Or(e.state.AtMS, time.Now().UnixMilli()), tags)
		if err != nil {
			return err
		}
		run = &mlflow.Run{ID: id, Status: mlflow.Running, Steps: map[string]uint64{}, Params: map[string]bool{}, Tags: map[string]string{}}
		e.runs[node] = run
	}
	var lacks []mlflow.Entry
	for _, p := range params {
		if !run.Params[p.Key] {
			lacks = append(lacks, mlflow.Entry{Key: p.Key, Value: p.Value})
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	if err := e.client.Log(ctx, run.ID, nil, lacks, nil); err != nil {
		return err
	}
	for _, p := range lacks {
		run.Params[p.Key] = true
	}
	return nil
}

// Write implements Sink. The swarm's run is written after those of the peers: what it has all have.
func (e *Experiment) Write(ctx context.Context, rounds []Round) error {
	nodes := map[string]bool{}
	for _, r := range rounds {
		for _, p := range r.Peers {
			nodes[p.Node] = true
		}
	}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		if err := e.ensure(ctx, node, e.state.Peers[node].Params); err != nil {
			return err
		}
		if err := e.log(ctx, node, rounds, nil); err != nil {
			return err
		}
	}
	return e.log(ctx, "", rounds, e.digests(rounds))
}

// log writes what a node's run lacks of rounds.
func (e *Experiment) log(ctx context.Context, node string, rounds []Round, tags []mlflow.Entry) error {
	run := e.runs[node]
	var metrics []mlflow.Metric
	for _, r := range rounds {
		for _, v := range r.values(node) {
			if r.Round > run.Steps[v.Key] {
				metrics = append(metrics, mlflow.Metric{Key: v.Key, Value: v.Value, AtMS: r.AtMS, Step: r.Round})
			}
		}
	}
	if name := metricOf(node, rounds); name != "" && name != run.Tags[tagMetric] {
		tags = append(tags, mlflow.Entry{Key: tagMetric, Value: name})
	}
	if len(metrics)+len(tags) == 0 {
		return nil
	}
	if err := e.client.Log(ctx, run.ID, metrics, nil, tags); err != nil {
		return err
	}
	for _, m := range metrics {
		run.Steps[m.Key] = m.Step
	}
	for _, t := range tags {
		run.Tags[t.Key] = t.Value
	}
	return nil
}

// metricOf is what a node's metric is called by the newest of rounds that says so, or under "" the swarm's; empty: none does.
func metricOf(node string, rounds []Round) string {
	for _, r := range slices.Backward(rounds) {
		if node == "" && r.Metric != "" {
			return r.Metric
		}
		for _, p := range r.Peers {
			if p.Node == node && p.Metric != "" {
				return p.Metric
			}
		}
	}
	return ""
}

// values are a node's figures in the round; under "" those of the swarm.
func (r *Round) values(node string) []Value {
	if node == "" {
		return r.Swarm
	}
	for _, p := range r.Peers {
		if p.Node == node {
			return p.Values
		}
	}
	return nil
}

// digests are the tags that say which models there are, after rounds: the newest one, and a line for each of the last.
func (e *Experiment) digests(rounds []Round) []mlflow.Entry {
	lines := strings.FieldsFunc(e.runs[""].Tags[tagDigests], func(r rune) bool { return r == '\n' })
	for i := range rounds {
		r := &rounds[i]
		line := fmt.Sprintf("%d %s", r.Round, r.Digest)
		if r.Record > 0 {
			line += fmt.Sprintf(" record %d", r.Record)
		}
		own := func(other string) bool { return strings.HasPrefix(other, fmt.Sprintf("%d ", r.Round)) }
		if at := slices.IndexFunc(lines, own); at >= 0 {
			lines[at] = line
		} else {
			lines = append(lines, line)
		}
	}
	last := &rounds[len(rounds)-1]
	record := "unknown" // that of an earlier round does not stay
	if last.Record > 0 {
		record = strconv.FormatUint(last.Record, 10)
	}
	return []mlflow.Entry{
		{Key: tagRound, Value: strconv.FormatUint(last.Round, 10)},
		{Key: tagDigest, Value: last.Digest},
		{Key: tagRecord, Value: record},
		{Key: tagDigests, Value: strings.Join(lines[max(0, len(lines)-maxDigests):], "\n")},
	}
}

// statuses of MLflow, by what they say of a training or a peer.
var statuses = map[Standing]mlflow.Status{Running: mlflow.Running, Finished: mlflow.Finished, Failed: mlflow.Failed, Ended: mlflow.Killed}

// Stand implements Sink.
func (e *Experiment) Stand(ctx context.Context, s *State) error {
	e.state = *s
	for _, node := range slices.Sorted(maps.Keys(s.Peers)) {
		if err := e.ensure(ctx, node, s.Peers[node].Params); err != nil {
			return err
		}
	}
	for _, node := range slices.Sorted(maps.Keys(e.runs)) {
		standing := s.Standing
		if peer, known := s.Peers[node]; known && (peer.Standing != Running || !s.Over) {
			standing = peer.Standing
		}
		run, status := e.runs[node], statuses[standing]
		if run.Status == status {
			continue
		}
		endMS := int64(0)
		if status != mlflow.Running {
			endMS = cmp.Or(s.AtMS, time.Now().UnixMilli())
		}
		if err := e.client.Update(ctx, run.ID, status, endMS); err != nil {
			return err
		}
		run.Status = status
	}
	return nil
}
