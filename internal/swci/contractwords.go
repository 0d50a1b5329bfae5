package swci

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
)

// statusNotes are what a contract's status says in sentences.
func statusNotes(s *Session, st *swarmv1.GetContractStatusResponse) fields {
	var f fields
	c := st.GetContract()
	if k := c.GetSkips(); k != nil {
		f.add("SKIPPED", fmt.Sprintf("%d rounds, the last time round %d: %s", k.GetCount(), k.GetRound(), k.GetReason()))
	}
	if l := c.GetLostModel(); l != nil {
		f.add("LOST", fmt.Sprintf("the model of round %d, %s; round %d went back to %s", l.GetRound(), short(l.GetDigest()), l.GetRound()+1, lostTo(l.GetResumedRound())))
	}
	if a := c.GetAdoptedRound(); a != nil {
		f.add("ADOPTED", fmt.Sprintf("the model of round %d, which %d nodes have signed, as round %d; the SNs were restored from a backup of %s", a.GetProvenRound(), a.GetSigned(), a.GetRound(), backupOf(a)))
	}
	if p := c.GetPlan(); p != nil {
		f.add("MERGING", fmt.Sprintf("round %d, attempt %d, %d participants", p.GetRound(), p.GetAttempt(), len(p.GetParticipants())))
	}
	f = append(f, haltNotes(st)...)
	if st.GetWaiting() != "" {
		f.add("WAITING", fmt.Sprintf("%s (%s)", strings.TrimPrefix(st.GetWaiting(), "waiting "), first(ago(s.Env.Now(), st.GetWaitingSinceUnixMs()), "0s")))
	}
	for _, warning := range st.GetWarnings() {
		if isAdvice(st, warning) {
			f.add("ADVICE", warning)
		} else {
			f.add("WARNING", warning)
		}
	}
	return f
}

// isAdvice reports whether nothing is wrong now, though something could be better: an SN says so, or it is about SPIFFE IDs that nodes share,
// with which a training is in order. SNs say that in words alone, and the dashboard's page tells it by the same ones.
func isAdvice(st *swarmv1.GetContractStatusResponse, warning string) bool {
	return strings.Contains(warning, " share the SPIFFE ID ") || slices.ContainsFunc(st.GetTrainingWarnings(), func(w *swarmv1.Warning) bool {
		return w.GetAdvice() && w.GetText() == warning
	})
}

// metricColumn is that of sessionTable with the metric.
const metricColumn = 6

// sessionTable shows a contract's sessions by node.
func sessionTable(st *swarmv1.GetContractStatusResponse) table {
	t := table{header: []string{"NODE", "STATE", "PHASE", "ROUND", "EPOCH", "LOSS", "METRIC", "WEIGHT", "ISOLATION", "NOTE"}}
	weightOf := weights(st.GetContract())
	for _, x := range byNode(st.GetContract().GetSessions()) {
		j := sessionToJSON(x)
		note := j.EndReason
		if j.Ranks > 0 {
			note = strings.TrimPrefix(note+", "+many(int(j.Ranks), "rank"), ", ")
		}
		if st.GetNoQuorum() != nil && j.State != "ended" {
			note = strings.TrimPrefix(note+", whether its node is alive is unknown", ", ")
		} else if !j.Live && j.State != "ended" {
			note = strings.TrimPrefix(note+", node is dead", ", ")
		}
		t.add(j.Node, j.State, j.Phase, utoa(j.Round), epochs(j.EpochsDone, j.TotalEpochs), number(j.Loss), number(j.Metric),
			weightOf(x), j.Isolation, note)
	}
	return t
}

// weights returns how a session's weight is shown: where weights are numbers of samples with its share of those of all sessions of the run
// that did not fail.
func weights(c *swarmv1.ContractView) func(*swarmv1.Session) string {
	if c.GetTerms().GetWeights() != "samples" {
		return func(x *swarmv1.Session) string { return utoa(uint64(x.GetWeight())) }
	}
	counts := func(x *swarmv1.Session) bool {
		return x.GetRun() == c.GetRun() && (x.GetState() != "ended" || x.GetEndReason() == "finished")
	}
	all := uint64(0)
	for _, x := range c.GetSessions() {
		if counts(x) {
			all += uint64(x.GetWeight())
		}
	}
	return func(x *swarmv1.Session) string {
		text := utoa(uint64(x.GetWeight()))
		if counts(x) && all > 0 {
			text += fmt.Sprintf(" (%.1f %%)", 100*float64(x.GetWeight())/float64(all))
		}
		return text
	}
}

// contractState is a phase in the original's three words.
func contractState(phase string) string {
	switch phase {
	case "uninitialised":
		return "UNINITIALIZED"
	case "completed":
		return "COMPLETED"
	}
	return "ACTIVE"
}

// statusFields are what training changes: the contract's, then SL_… of each session.
func statusFields(s *Session, st *swarmv1.GetContractStatusResponse) fields {
	var f fields
	c := st.GetContract()
	f.add("NAME", c.GetName())
	f.add("STATE", contractState(c.GetPhase()))
	f.add("PHASE", c.GetPhase())
	f.add("RUN", utoa(c.GetRun()))
	f.add("ROUND", utoa(c.GetCommitted().GetRound()))
	f.add("MIN_PEERS", utoa(uint64(c.GetTerms().GetMinPeers())))
	f.add("PEER_COUNT", utoa(uint64(len(c.GetSessions()))))
	completed := 0
	for _, x := range c.GetSessions() {
		if x.GetState() == "ended" && x.GetEndReason() == "finished" {
			completed++
		}
	}
	f.add("COMPLETED_PEERS", utoa(uint64(completed)))
	if r := c.GetCommitted(); r != nil {
		f.add("MODEL", r.GetDigest())
		f.add("PARTICIPANTS", strings.Join(r.GetParticipants(), ", "))
		f.add("UPDATE_TS", clockTime(r.GetCommittedUnixMs()))
	}
	f = append(f, statusNotes(s, st)...)
	t := sessionTable(st)
	for _, row := range t.rows {
		for i, cell := range row {
			f.add("SL_"+t.header[i], cell)
		}
	}
	return f
}

// clockTime renders Unix milliseconds as the original does, in UTC; "" for 0.
func clockTime(unixMS int64) string {
	if unixMS == 0 {
		return ""
	}
	return time.UnixMilli(unixMS).UTC().Format(time.DateTime)
}

// contractInfoJSON is `get contract info NAME -o json`.
type contractInfoJSON struct {
	Name         string     `json:"name" doc:"the contract's"`
	Created      *string    `json:"created" doc:"RFC 3339, UTC"`
	Rules        *rulesJSON `json:"rules" doc:"what \"create contract\" demands, null when it demands nothing"`
	Method       string     `json:"method" doc:"how models are merged, empty before the first session"`
	MinPeers     uint32     `json:"min_peers" doc:"least number of peers of a round, 0 before the first session"`
	LayoutDigest string     `json:"layout_digest" doc:"BLAKE3 of the model's layout, in hex; empty before the first session"`

	facts fields
}

func (c contractInfoJSON) words(l *lines) { l.facts(c.facts) }

func getContractInfo(ctx context.Context, s *Session, args Args) error {
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		name := args.Value("NAME")
		status, err := api.GetContractStatus(ctx, name)
		if err != nil {
			return fmt.Errorf("get contract info of %q: %w", name, err)
		}
		list, err := api.ListContracts(ctx)
		if err != nil {
			return fmt.Errorf("get contract info of %q: list contracts: %w", name, err)
		}
		c, info, created := status.GetContract(), contractInfoJSON{}, int64(0)
		for _, x := range list.GetContracts() {
			if x.GetName() == c.GetName() {
				created = x.GetCreatedUnixMs()
			}
		}
		info.Name, info.Created, info.Rules = c.GetName(), stamp(created), rulesToJSON(c.GetRules())
		info.Method, info.MinPeers, info.LayoutDigest = c.GetTerms().GetMethod(), c.GetTerms().GetMinPeers(), c.GetTerms().GetLayoutDigest()
		info.facts = infoFields(info, created, c.GetRules())
		if err := s.show(info, func() error { return info.facts.table(s.Env.Stdout) }); err != nil {
			return err
		}
		if err := s.shown(status.GetNoQuorum()); err != nil {
			return fmt.Errorf("get contract info of %q: %w", name, err)
		}
		return nil
	})
}

// infoFields are what training does not change. TYPE is what every contract is of.
func infoFields(info contractInfoJSON, created int64, rules *swarmv1.Rules) fields {
	var f fields
	f.add("NAME", info.Name)
	f.add("TYPE", "TRAINING")
	f.add("CREATED", clockTime(created))
	f.add("RULES", first(rulesText(rules), "none"))
	if info.MinPeers > 0 {
		f.add("MERGE_METHOD", info.Method)
		f.add("MIN_PEERS", utoa(uint64(info.MinPeers)))
		f.add("LAYOUT", info.LayoutDigest)
	}
	return f
}
