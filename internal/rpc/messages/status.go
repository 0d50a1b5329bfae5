package messages

import (
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/explain"
	"github.com/swarmd/swarmd/consensus/planner/warning"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/round/onwire"
)

// RankedView is View with how many ranks the programs of sessions have that have not ended.
func RankedView(s *state.State, c *state.Contract, index uint64) *swarmv1.ContractView {
	out, ranks := View(s, c, index), task.RanksBeside(s.Tasks)
	for _, x := range out.GetSessions() {
		if x.GetState() != state.SessionEnded {
			x.Ranks = ranks[x.GetNode()]
		}
	}
	return out
}

// Status joins what is committed with what the leader knows; of recent rounds there are so many of the newest at most, or all for 0.
func Status(leader string, view *swarmv1.ContractView, st planner.Status, most uint32) *swarmv1.GetContractStatusResponse {
	out := &swarmv1.GetContractStatusResponse{Contract: view, Leader: leader}
	if st.Leading {
		out.Explanation = explain.Lines(st.Waiting, time.Now(), st.Warnings...)
	}
	out.TrainingWarnings = trainingWarnings(st.Warnings)
	for _, w := range st.Warnings {
		out.Warnings = append(out.Warnings, w.Text)
	}
	metric := common{}
	for _, x := range view.GetSessions() {
		if p, ok := st.Progress[x.GetId()]; ok {
			x.Progress = onwire.Progress(&p)
			if x.GetRun() == view.GetRun() {
				metric.add(p.MetricName)
			}
		}
	}
	if metric.said != nil {
		out.MetricName = *metric.said
	}
	recent := st.Recent
	if most > 0 {
		recent = recent[max(0, len(recent)-int(most)):]
	}
	for i := range recent {
		out.Recent = append(out.Recent, committed(&recent[i]))
	}
	// While an attempt runs nothing is waited for but the merge itself.
	if w := st.Waiting; w.Kind != "" && w.Kind != planner.WaitMerging && w.Kind != planner.WaitCompleted {
		out.Waiting = w.String()
		if !w.Since.IsZero() {
			out.WaitingSinceUnixMs = w.Since.UnixMilli()
		}
	}
	return out
}

// trainingWarnings shows what is probably wrong with a training.
func trainingWarnings(all []warning.Warning) (out []*swarmv1.Warning) {
	for _, w := range all {
		out = append(out, &swarmv1.Warning{Reason: string(w.Reason), Node: w.Node, Text: w.Text, Advice: w.Advice})
	}
	return out
}
