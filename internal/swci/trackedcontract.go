package swci

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/track"
	"github.com/swarmd/swarmd/internal/text"
)

// trackPage bounds the rounds of one answer.
const trackPage = 200

// trackedContract is a contract as a follower asks for it.
type trackedContract struct {
	api  client.Operator
	name string
	say  func(string)

	swarm string // ID
	run   uint64
}

// State implements track.Source.
func (t *trackedContract) State(ctx context.Context) (out track.State, err error) {
	if t.swarm == "" {
		s, err := t.api.GetSwarm(ctx)
		if err != nil {
			return out, apiError(err)
		}
		t.swarm = s.GetSwarmId()
	}
	st, err := t.api.GetContractStatus(ctx, t.name)
	if err != nil {
		return track.State{Swarm: t.swarm, Contract: t.name}, apiError(err)
	}
	if q := st.GetNoQuorum(); q != nil { // the others may be at another round, or run
		return out, exit.New(exit.NoLeader, q.GetRemedy(), "%s", text.Line(q.GetMessage()))
	}
	c := st.GetContract()
	out = track.State{Swarm: t.swarm, Contract: t.name, Over: c.GetOver(), Round: c.GetCommitted().GetRound(), AtMS: c.GetCommitted().GetCommittedUnixMs(), Peers: map[string]track.Peer{}}
	if c.GetTerms() == nil {
		return out, nil
	}
	out.Run = c.GetRun()
	t.run = out.Run
	for _, x := range byNode(c.GetSessions()) { // the last one of a node counts
		params := []track.Param{{Key: "node", Value: x.GetNode()}, {Key: "weight", Value: utoa(uint64(x.GetWeight()))}}
		if mode := x.GetCheckinMode(); mode != "" {
			params = append(params, track.Param{Key: "checkin_mode", Value: mode})
		}
		out.Peers[x.GetNode()] = track.Peer{Standing: standingOf(x), Params: params}
	}
	out.Standing, out.Params = standing(c.GetOver(), out.Peers), t.params(c)
	return out, nil
}

// standingOf says how a peer stands, by its session.
func standingOf(x *swarmv1.Session) track.Standing {
	switch why := x.GetEndReason(); {
	case x.GetState() != "ended":
		return track.Running
	case why == "finished":
		return track.Finished
	case strings.HasPrefix(why, "failed") || x.GetExitCode() != 0:
		return track.Failed
	}
	return track.Ended
}

// standing says how a training stands, by its peers.
func standing(over bool, peers map[string]track.Peer) track.Standing {
	if over {
		return track.Finished
	}
	worst := track.Ended
	for _, p := range peers {
		switch p.Standing {
		case track.Running:
			return track.Running
		case track.Failed:
			worst = track.Failed
		}
	}
	if len(peers) == 0 {
		return track.Running
	}
	return worst
}

// params says how a training was set up.
func (t *trackedContract) params(c *swarmv1.ContractView) []track.Param {
	terms := c.GetTerms()
	out := []track.Param{
		{Key: "contract", Value: t.name},
		{Key: "run", Value: utoa(c.GetRun())},
		{Key: "swarm", Value: t.swarm},
		{Key: "method", Value: first(terms.GetMethod(), c.GetRules().GetMethod())},
		{Key: "min_peers", Value: utoa(uint64(terms.GetMinPeers()))},
		{Key: "weights", Value: first(terms.GetWeights(), "shares")},
		{Key: "layout_digest", Value: terms.GetLayoutDigest()},
	}
	if n := c.GetExpectedPeers(); n > 0 {
		out = append(out, track.Param{Key: "expected_peers", Value: utoa(uint64(n))})
	}
	rules := map[string]any{}
	if r := c.GetRules(); r != nil {
		raw, err := json.Marshal(rulesToJSON(r))
		if err == nil {
			err = json.Unmarshal(raw, &rules)
		}
		if err != nil {
			t.say(fmt.Sprintf("the contract's rules are left out: %v", err))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(rules)) {
		if value := ruleText(rules[key]); value != "" {
			out = append(out, track.Param{Key: "rules." + key, Value: value})
		}
	}
	return out
}

// ruleText is a rule's value; empty for one that says nothing.
func ruleText(value any) string {
	switch v := value.(type) {
	case string:
		return text.Line(v)
	case bool:
		return map[bool]string{true: "true"}[v]
	case float64:
		if v != 0 {
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
	case []any:
		var all []string
		for _, x := range v {
			all = append(all, text.Line(fmt.Sprint(x)))
		}
		return strings.Join(all, ", ")
	}
	return ""
}

// After implements track.Source.
func (t *trackedContract) After(ctx context.Context, round uint64) (out track.Page, err error) {
	h, err := t.api.GetHistoryAfter(ctx, t.name, round, trackPage)
	if err != nil {
		return out, apiError(err)
	}
	all := h.GetRounds()
	out.Run = h.GetRun()
	if len(all) == 0 || out.Run != t.run {
		return out, nil
	}
	out.More = all[len(all)-1].GetRound() < h.GetLast()
	for _, r := range all {
		out.Rounds = append(out.Rounds, roundToTrack(r))
	}
	return out, nil
}

// roundToTrack has the figures that `get contract history -o json` shows.
func roundToTrack(r *swarmv1.HistoryRound) track.Round {
	shown := historyRoundToJSON(r)
	out := track.Round{Round: shown.Round, AtMS: r.GetCommittedUnixMs(), Digest: shown.Digest, Record: r.GetRecord(), Metric: r.GetMetricName(), Told: r.GetRecord() > 0}
	var all figures
	all.add("loss", shown.Loss)
	all.add("metric", shown.Metric)
	all.count("bytes/sent", shown.BytesSent, 1)
	all.count("bytes/received", shown.BytesReceived, 1)
	for _, phase := range []struct {
		name string
		ms   *uint64
	}{{"training", shown.Durations.Training}, {"waiting", shown.Durations.Waiting}, {"exchange", shown.Durations.Exchange}, {"commit", shown.Durations.Commit}} {
		all.count("seconds/"+phase.name, phase.ms, 1000)
	}
	contributed := 0.0
	for i, p := range shown.Peers {
		var own figures
		own.add("loss", p.Loss)
		own.add("metric", p.Metric)
		if p.Weight != nil {
			weight := float64(*p.Weight)
			own.add("weight", &weight)
		}
		own.count("bytes/sent", p.Sent, 1)
		own.count("bytes/received", p.Received, 1)
		took := 0.0
		if p.Contributed {
			took = 1
			contributed++
			out.Told = out.Told && (p.Loss != nil || p.Metric != nil)
		}
		own.add("contributed", &took)
		out.Peers = append(out.Peers, track.PeerRound{Node: p.Node, Metric: r.GetPeers()[i].GetMetricName(), Values: own})
	}
	failed := float64(len(shown.Failed))
	all.add("attempts_failed", &failed)
	all.add(track.Whole, &contributed)
	out.Swarm = all
	return out
}

// figures are those that are known.
type figures []track.Value

func (f *figures) add(key string, value *float64) {
	if value != nil {
		*f = append(*f, track.Value{Key: key, Value: *value})
	}
}

// count adds a whole number, divided by a unit.
func (f *figures) count(key string, n *uint64, unit float64) {
	if n != nil {
		value := float64(*n) / unit
		f.add(key, &value)
	}
}
