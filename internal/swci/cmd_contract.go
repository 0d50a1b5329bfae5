package swci

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/text"
)

func contractCommands() []*Command {
	return []*Command{
		createContractCommand(),
		{
			Pattern: "list contracts", Group: "Contracts", Shell: true,
			Summary: "Show the training contracts",
			Details: "Prints every training contract with its phase, its last committed round and how many sessions are open.",
			Example: "list contracts",
			JSON:    contractsJSON{},
			Run:     listContracts,
		},
		{
			Pattern: "get contract status NAME", Group: "Contracts", Shell: true,
			Summary: "Show how far a training is and what it waits for",
			Details: "Prints the contract's phase, its last committed round with digest and participants, every session with its progress and its program's isolation (as reported by its SL) and, if its SL has started it as several ranks, how many, and, when no round is running, why not.",
			Example: "get contract status defaultbb.cqdb.sml.hpe",
			Flags:   []cli.Flag{&cli.UintFlag{Name: "rounds", Usage: "`N` of the newest rounds at most are in the JSON; 0: all that the leader remembers"}},
			JSON:    statusJSON{},
			Run:     getContractStatus,
		},
		{
			Pattern: "get contract info NAME", Group: "Contracts", Shell: true,
			Summary: "Show a contract's rules and terms",
			Details: "Prints what stays the same during a training: when the contract was created, its rules, and the terms that its first session has fixed (method, minPeers, layout). \"get contract status\" has the rest.",
			Example: "get contract info defaultbb.cqdb.sml.hpe",
			JSON:    contractInfoJSON{},
			Run:     getContractInfo,
		},
		{
			Pattern: "explain contract NAME", Group: "Contracts", Shell: true,
			Summary: "Say what a training waits for, and what to do",
			Details: "Prints in plain lines how far the training is, what the next round waits for and until when, what each peer does and since when, why the last attempt failed, which rule prevents a round, and what to do. While an attempt runs it says who has reported and who has not.",
			Example: "explain contract defaultbb.cqdb.sml.hpe",
			JSON:    explainJSON{},
			Run:     explainContract,
		},
		{
			Pattern: "reset contract NAME [force]", Group: "Contracts", Shell: true,
			Summary: "Start a contract over, so that it can be trained again",
			Details: "Puts the contract back to its beginning, so that it can be trained anew. Refused while sessions are open; with force they are ended.",
			Example: "reset contract defaultbb.cqdb.sml.hpe",
			JSON:    resetJSON{},
			Run:     resetContract,
		},
		{
			Pattern: "delete contract NAME [force]", Group: "Contracts", Shell: true,
			Summary: "Remove a contract and its rules",
			Details: "Removes the contract from the swarm, with its rules and the record of its sessions; models that nodes have on disk stay there. Refused while sessions are open; with force they end, and their programs are told that the contract was deleted. The default contract can't be deleted.\n\nThe name is free then, for operators and for sessions: an SL that is started again makes the contract anew, without its rules. Its run has a number that no run under the name had before. The ledger keeps who deleted what.",
			Example: "delete contract study",
			JSON:    deletedJSON{},
			Run:     deleteContract,
		},
	}
}

// contractsJSON is `list contracts -o json`.
type contractsJSON struct {
	Contracts []contractJSON `json:"contracts" doc:"by name"`
	NoQuorum  *noQuorumJSON  `json:"no_quorum" doc:"null, or that too few SNs answer the one that was asked; exit code 7 then"`
}

func (c contractsJSON) words(l *lines) {
	for _, x := range c.Contracts {
		l.say(x.Name)
	}
}

// resetJSON is `reset contract NAME -o json`.
type resetJSON struct {
	Name string `json:"name" doc:"the contract's"`
	Run  uint64 `json:"run" doc:"number of the run that begins, from 1"`
}

func (r resetJSON) words(l *lines) { l.say("CONTRACT RESET : " + r.Name) }

// deletedJSON is `delete contract NAME -o json`.
type deletedJSON struct {
	Name string `json:"name" doc:"the contract's"`
	Run  uint64 `json:"run" doc:"number of its last run; later ones under the name have higher ones"`
}

// contractJSON is one element of `list contracts -o json`.
type contractJSON struct {
	Name          string  `json:"name" doc:"the contract's"`
	Run           uint64  `json:"run" doc:"number of the run, from 1; higher from the start if contracts were deleted before"`
	Phase         string  `json:"phase" doc:"uninitialised, enrolling, training, paused, finalising or completed"`
	Round         uint64  `json:"round" doc:"last committed round of this run, 0 before the first"`
	MinPeers      uint32  `json:"min_peers" doc:"least number of peers of a round, 0 before the first session"`
	OpenSessions  uint32  `json:"open_sessions" doc:"programs that train"`
	EndedSessions uint32  `json:"ended_sessions" doc:"programs that have ended"`
	Created       *string `json:"created" doc:"RFC 3339, UTC"`
}

func listContracts(ctx context.Context, s *Session, args Args) error {
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		list, err := api.ListContracts(ctx)
		if err == nil {
			err = printContracts(s, list)
		}
		if err == nil {
			err = s.shown(list.GetNoQuorum())
		}
		if err != nil {
			return fmt.Errorf("list contracts: %w", err)
		}
		return nil
	})
}

func printContracts(s *Session, list *swarmv1.ListContractsResponse) error {
	out := contractsJSON{Contracts: []contractJSON{}, NoQuorum: noQuorumToJSON(list.GetNoQuorum())}
	for _, c := range list.GetContracts() {
		out.Contracts = append(out.Contracts, contractJSON{
			Name: c.GetName(), Run: c.GetRun(), Phase: c.GetPhase(), Round: c.GetRound(), MinPeers: c.GetMinPeers(),
			OpenSessions: c.GetOpenSessions(), EndedSessions: c.GetEndedSessions(), Created: stamp(c.GetCreatedUnixMs()),
		})
	}
	return s.show(out, func() error {
		t := table{header: []string{"NAME", "PHASE", "RUN", "ROUND", "MIN PEERS", "OPEN", "ENDED"}}
		for _, c := range out.Contracts {
			t.add(c.Name, c.Phase, utoa(c.Run), utoa(c.Round), utoa(uint64(c.MinPeers)), utoa(uint64(c.OpenSessions)), utoa(uint64(c.EndedSessions)))
		}
		return t.print(s.Env.Stdout)
	})
}

// statusJSON is `get contract status NAME -o json`.
type statusJSON struct {
	Name          string        `json:"name" doc:"the contract's"`
	Run           uint64        `json:"run" doc:"number of the run, from 1; higher from the start if contracts were deleted before"`
	Phase         string        `json:"phase" doc:"uninitialised, enrolling, training, paused, finalising or completed"`
	Over          bool          `json:"over" doc:"training is over"`
	Method        string        `json:"method" doc:"how models are merged, empty before the first session"`
	MinPeers      uint32        `json:"min_peers" doc:"least number of peers of a round"`
	ExpectedPeers uint32        `json:"expected_peers" doc:"peers that the first round waits for, 0 when unknown"`
	Rules         *rulesJSON    `json:"rules" doc:"what \"create contract\" demands, null when it demands nothing"`
	Skips         *skipsJSON    `json:"skips" doc:"rounds of this run that were given up, programs going on without a model; null when there was none"`
	LostModel     *lostJSON     `json:"lost_model" doc:"the last committed model of this run that no node held any more, null when there was none"`
	AdoptedRound  *adoptedJSON  `json:"adopted_round" doc:"the last model of this run that SNs took over from SLs, having been restored from a backup that does not know it; null when there was none"`
	Halt          *haltJSON     `json:"halt" doc:"an operator has paused the training, or ends it or has ended it; null: neither"`
	LayoutDigest  string        `json:"layout_digest" doc:"BLAKE3 of the model's layout, in hex"`
	Waiting       string        `json:"waiting" doc:"why no round runs, empty when one does"`
	WaitingSince  *string       `json:"waiting_since" doc:"RFC 3339, UTC"`
	Stuck         bool          `json:"stuck" doc:"it waits for something that should not last; programs that train and a first attempt to merge are no such thing, unless a node of one is dead"`
	Leader        string        `json:"leader" doc:"SN that said this"`
	Warnings      []string      `json:"warnings" doc:"for people"`
	Training      []warningJSON `json:"training_warnings" doc:"what is probably wrong with the training of this run, which goes on without an error; among warnings too"`
	Hidden        string        `json:"hidden" doc:"why the loss and the metric of each peer are hidden by the contract's rule, in words; empty: they are not"`
	MetricName    string        `json:"metric_name" doc:"what the programs of this run call their metric that say so; empty: none does, or they differ"`
	Committed     *roundJSON    `json:"committed" doc:"the last committed round"`
	Rounds        []roundJSON   `json:"rounds" doc:"rounds that the leader remembers, oldest first"`
	Sessions      []sessionJSON `json:"sessions" doc:"by node; open and ended ones"`
	NoQuorum      *noQuorumJSON `json:"no_quorum" doc:"null, or that too few SNs answer the one that was asked; exit code 7 then"`

	facts fields
}

func (st statusJSON) words(l *lines) { l.facts(st.facts) }

type warningJSON struct {
	Reason string `json:"reason" doc:"UPPER_SNAKE, see docs/reference/warnings.md"`
	Node   string `json:"node" doc:"whom it is about, empty for the contract"`
	Text   string `json:"text" doc:"for people, with what to do"`
	Advice bool   `json:"advice" doc:"nothing is wrong, but something could be better"`
}

type roundJSON struct {
	Round        uint64   `json:"round" doc:"from 1"`
	Attempt      uint64   `json:"attempt" doc:"that succeeded, from 1"`
	Digest       string   `json:"digest" doc:"BLAKE3 of the merged model, in hex"`
	Participants []string `json:"participants" doc:"nodes whose models were merged"`
	NextInterval uint32   `json:"next_interval" doc:"batches until the next round"`
	Final        bool     `json:"final" doc:"the last round of the training"`
	Planned      *string  `json:"planned" doc:"RFC 3339, UTC"`
	Committed    *string  `json:"committed" doc:"RFC 3339, UTC"`
}

type sessionJSON struct {
	ID          string   `json:"id" doc:"hex"`
	Node        string   `json:"node" doc:"the SL's name"`
	Live        bool     `json:"live" doc:"its node is heard of"`
	State       string   `json:"state" doc:"open, closed (it waits for the final model) or ended"`
	Phase       string   `json:"phase" doc:"what the program does now"`
	Round       uint64   `json:"round" doc:"last round whose model it took"`
	Loss        *float64 `json:"loss" doc:"as the program reported it"`
	Metric      *float64 `json:"metric" doc:"as the program reported it"`
	MetricName  string   `json:"metric_name" doc:"what the program calls the metric; empty: it does not say"`
	EpochsDone  uint32   `json:"epochs_done" doc:"epochs that it finished"`
	TotalEpochs uint32   `json:"total_epochs" doc:"epochs that it will train, 0 when unknown"`
	LeftSeconds *float64 `json:"left_seconds" doc:"how long it still trains, at the pace of the newest 32 rounds that the leader remembers; null when that is not known"`
	Weight      uint32   `json:"weight" doc:"0 to 100, or its number of samples where the peers say nodeWeightage=samples"`
	CheckinMode string   `json:"checkin_mode" doc:"what it contributes after its training's end: snapshot, active, inactive or once"`
	CheckinFrom string   `json:"checkin_from" doc:"who chose that where its program did not: rule, node or none; empty: its program"`
	Ranks       uint32   `json:"ranks" doc:"how many the program has, with rank 0, while hosts run the others; 0: it is one by itself, or others started them, or the session has ended"`
	NoShard     bool     `json:"no_shard" doc:"it owns no part of a merge (SL_MAKE_ME_ADMIN=False)"`
	Isolation   string   `json:"isolation" doc:"what keeps its program in, in its SL's own words: 'container, no network', what was opened, or 'none: process runtime'; empty when it says nothing"`
	EndReason   string   `json:"end_reason" doc:"why it ended, empty while it has not"`
	ExitCode    int32    `json:"exit_code" doc:"of the program, when its end is the session's"`
}

func getContractStatus(ctx context.Context, s *Session, args Args) error {
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		status, err := api.GetRecentStatus(ctx, args.Value("NAME"), uint32(min(args.Opts.Uint("rounds"), 1000))) // who remembers 1,000 at most
		if err != nil {
			return fmt.Errorf("get contract status of %q: %w", args.Value("NAME"), err)
		}
		out := statusToJSON(status)
		out.facts = statusFields(s, status)
		if err := s.show(out, func() error { return printStatus(s, status) }); err != nil {
			return err
		}
		if err := s.shown(status.GetNoQuorum()); err != nil {
			return fmt.Errorf("get contract status of %q: %w", args.Value("NAME"), err)
		}
		return nil
	})
}

func warningsToJSON(all []*swarmv1.Warning) []warningJSON {
	out := []warningJSON{}
	for _, w := range all {
		out = append(out, warningJSON{Reason: w.GetReason(), Node: w.GetNode(), Text: w.GetText(), Advice: w.GetAdvice()})
	}
	return out
}

func statusToJSON(st *swarmv1.GetContractStatusResponse) statusJSON {
	c := st.GetContract()
	out := statusJSON{
		Name: c.GetName(), Run: c.GetRun(), Phase: c.GetPhase(), Over: c.GetOver(),
		Method: c.GetTerms().GetMethod(), MinPeers: c.GetTerms().GetMinPeers(), ExpectedPeers: c.GetExpectedPeers(),
		Rules: rulesToJSON(c.GetRules()), LostModel: lostToJSON(c.GetLostModel()), Skips: skipsToJSON(c.GetSkips()),
		AdoptedRound: adoptedToJSON(c.GetAdoptedRound()), Halt: haltToJSON(c.GetHalt()), LayoutDigest: c.GetTerms().GetLayoutDigest(),
		Hidden: st.GetHidden(), MetricName: st.GetMetricName(),
		Waiting: st.GetWaiting(), WaitingSince: stamp(st.GetWaitingSinceUnixMs()), Stuck: isStuck(st), Leader: st.GetLeader(),
		Warnings: append([]string{}, st.GetWarnings()...), Training: warningsToJSON(st.GetTrainingWarnings()), Rounds: []roundJSON{}, Sessions: []sessionJSON{}, NoQuorum: noQuorumToJSON(st.GetNoQuorum()),
	}
	if r := c.GetCommitted(); r != nil {
		last := roundToJSON(r)
		out.Committed = &last
	}
	for _, r := range st.GetRecent() {
		out.Rounds = append(out.Rounds, roundToJSON(r))
	}
	for _, x := range byNode(c.GetSessions()) {
		session := sessionToJSON(x)
		session.LeftSeconds = leftOf(x, st)
		out.Sessions = append(out.Sessions, session)
	}
	return out
}

// byNode sorts sessions by their nodes' names; those of one node stay in the order in which they were opened.
func byNode(sessions []*swarmv1.Session) []*swarmv1.Session {
	return slices.SortedStableFunc(slices.Values(sessions), func(a, b *swarmv1.Session) int { return strings.Compare(a.GetNode(), b.GetNode()) })
}

func roundToJSON(r *swarmv1.CommittedRound) roundJSON {
	return roundJSON{
		Round: r.GetRound(), Attempt: r.GetAttempt(), Digest: r.GetDigest(), Participants: append([]string{}, r.GetParticipants()...),
		NextInterval: r.GetNextInterval(), Final: r.GetFinal(), Planned: stamp(r.GetPlannedUnixMs()), Committed: stamp(r.GetCommittedUnixMs()),
	}
}

func sessionToJSON(x *swarmv1.Session) sessionJSON {
	p := x.GetProgress()
	out := sessionJSON{
		ID: x.GetId(), Node: x.GetNode(), Live: x.GetLive(), State: x.GetState(), Phase: p.GetPhase(), Round: x.GetLastRound(),
		EpochsDone: p.GetEpochsDone(), TotalEpochs: p.GetTotalEpochs(), Weight: x.GetWeight(), CheckinMode: x.GetCheckinMode(), CheckinFrom: x.GetCheckinFrom(),
		NoShard: x.GetNoShard(), Isolation: x.GetIsolation(), EndReason: x.GetEndReason(), ExitCode: x.GetExitCode(), Ranks: x.GetRanks(),
	}
	if p.GetHasLoss() {
		out.Loss = finite(p.GetLoss())
	}
	if p.GetHasMetric() {
		out.Metric, out.MetricName = finite(p.GetMetric()), p.GetMetricName()
	}
	return out
}

// finite drops what JSON can not carry.
func finite(f float64) *float64 {
	if f != f || f-f != 0 {
		return nil
	}
	return &f
}

func printStatus(s *Session, st *swarmv1.GetContractStatusResponse) error {
	w, c := s.Env.Stdout, st.GetContract()
	fmt.Fprintf(w, "contract   %s, run %d\n", text.Line(c.GetName()), c.GetRun())
	fmt.Fprintf(w, "phase      %s\n", text.Line(c.GetPhase()))
	if t := c.GetTerms(); t != nil {
		fmt.Fprintf(w, "terms      method %s, min peers %d\n", text.Line(t.GetMethod()), t.GetMinPeers())
	}
	if r := c.GetRules(); r != nil {
		fmt.Fprintf(w, "rules      %s\n", text.Line(rulesText(r)))
	}
	if why := st.GetHidden(); why != "" {
		fmt.Fprintf(w, "hidden     %s\n", text.Line(why))
	}
	if r := c.GetCommitted(); r != nil {
		fmt.Fprintf(w, "committed  round %d, model %s, from %s\n", r.GetRound(), text.Line(short(r.GetDigest())), text.Line(strings.Join(r.GetParticipants(), ", ")))
	}
	for _, x := range statusNotes(s, st) {
		fmt.Fprintf(w, "%-10s %s\n", strings.ToLower(x.name), text.Line(x.value))
	}
	if len(c.GetSessions()) == 0 {
		return nil // what it waits for says so
	}
	fmt.Fprintln(w)
	t := sessionTable(st)
	t.header[metricColumn] = metricHead(st.GetMetricName())
	return t.print(w)
}

func resetContract(ctx context.Context, s *Session, args Args) error {
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		name := args.Value("NAME")
		run, err := api.ResetContract(ctx, name, args.Has("force"))
		if err != nil {
			return fmt.Errorf("reset contract %q: %w", name, err)
		}
		return s.show(resetJSON{name, run}, func() error {
			fmt.Fprintf(s.Env.Stdout, "contract %s begins run %d\n", text.Line(name), run)
			return nil
		})
	})
}

func deleteContract(ctx context.Context, s *Session, args Args) error {
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		name := args.Value("NAME")
		run, err := api.DeleteContract(ctx, name, args.Has("force"))
		if err != nil {
			return fmt.Errorf("delete contract %q: %w", name, err)
		}
		return s.show(deletedJSON{name, run}, func() error {
			fmt.Fprintf(s.Env.Stdout, "contract %s is deleted, in run %d\n", text.Line(name), run)
			return nil
		})
	})
}

func utoa(n uint64) string { return strconv.FormatUint(n, 10) }

func number(f *float64) string {
	if f == nil {
		return ""
	}
	return strconv.FormatFloat(*f, 'f', 4, 64)
}

func epochs(done, total uint32) string {
	if total == 0 {
		return utoa(uint64(done))
	}
	return utoa(uint64(done)) + "/" + utoa(uint64(total))
}
