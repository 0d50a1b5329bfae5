package swci

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/modelfile"
	"github.com/swarmd/swarmd/internal/text"
)

// madeJSON is how a model came to be, in `verify model FILE --ledger LEDGER -o json`.
type madeJSON struct {
	Record       uint64             `json:"record" doc:"number of the ledger's record that committed it"`
	Signatures   bool               `json:"signatures" doc:"they were checked: --bundle was given"`
	FirstRound   uint64             `json:"first_round" doc:"that it goes back to"`
	LastRound    uint64             `json:"last_round" doc:"that it goes back to"`
	First        *string            `json:"first" doc:"when the first one was committed, by the SN that led; RFC 3339, UTC"`
	Last         *string            `json:"last" doc:"when the last one was committed"`
	Methods      []string           `json:"methods" doc:"by which it was merged, with their parameters"`
	Contributors []auditedShareJSON `json:"contributors" doc:"to these rounds, with their share of the weight in them"`
	Rules        []ruleSetJSON      `json:"rules" doc:"that operators gave the contract until it was committed, oldest first"`
}

// ruleSetJSON are rules that an operator gave a contract.
type ruleSetJSON struct {
	Record uint64     `json:"record" doc:"number of the ledger's record"`
	At     *string    `json:"at" doc:"when, by the SN that led; RFC 3339, UTC"`
	By     string     `json:"by" doc:"SPIFFE ID of who signed them"`
	Run    uint64     `json:"run" doc:"from which on they bind"`
	Rules  *rulesJSON `json:"rules" doc:"null when they demand nothing"`
}

// found is what a ledger says of a model.
type found struct {
	model   *audit.Model
	history audit.History
	rules   []audit.RuleSet
	signed  bool
	// backwards are records that are dated before earlier ones, of the whole ledger.
	backwards     []audit.Backwards
	moreBackwards int
}

// inLedger holds all that a file says of its model to a copy of the ledger, and that to an audit. Without certificates it takes the
// chain alone.
func inLedger(opts *cli.Context, getenv func(string) string, m modelfile.Meta) (*found, error) {
	path := opts.String("ledger")
	o := audit.Options{Unsigned: !opts.IsSet("bundle")}
	var err error
	if !o.Unsigned {
		if o, err = auditBy(opts, getenv); err != nil {
			return nil, err
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, exit.New(exit.NotFound, "swarmctl get ledger makes a copy", "%w", err)
	}
	defer func() { _ = f.Close() }()
	report, err := audit.Verify(f, o)
	if err != nil {
		return nil, fmt.Errorf("ledger %s: %w", path, err)
	}
	if !report.Good() {
		return nil, exit.New(exit.Failed, notGoodHint(o), "ledger %s is not good: %s, the first: %s", path,
			many(len(report.Problems)+report.More, "problem"), text.Line(report.Problems[0].Error()))
	}
	run := report.RunOf(m.Contract, m.Run)
	if run == nil {
		return nil, fmt.Errorf("ledger %s has no round of contract %s, run %d", path, m.Contract, m.Run)
	}
	if err := differences(report, run, m); err != nil {
		return nil, fmt.Errorf("ledger %s: %w", path, err)
	}
	out := &found{model: run.Model(m.Round), history: run.History(m.Round), signed: !o.Unsigned, backwards: report.Backwards, moreBackwards: report.MoreBackwards}
	for _, c := range report.Contracts {
		if c.Name == m.Contract {
			out.rules = c.RulesAt(out.model.Record)
		}
	}
	return out, nil
}

// notGoodHint is what to do about a ledger that is not good: what is likely first.
func notGoodHint(o audit.Options) string {
	if o.Unsigned {
		return "copy it again: swarmctl get ledger"
	}
	return "check that --bundle has the CA certificates of the swarm's founding; then compare the copy with another SN's: if they agree, the SNs do not tell the truth"
}

// differences says in words what a file claims and the ledger has otherwise.
func differences(report *audit.Report, run *audit.Run, m modelfile.Meta) error {
	committed := run.Model(m.Round)
	if committed == nil || committed.Digest != m.Digest {
		same := run.With(m.Digest)
		if len(same) == 0 {
			return fmt.Errorf("none of the %d rounds of contract %s, run %d, made this model", run.Rounds, m.Contract, run.Number)
		}
		var rounds []string
		for _, x := range same {
			rounds = append(rounds, fmt.Sprint(x.Round))
		}
		return fmt.Errorf("the file says round %d; this model was committed as round %s", m.Round, strings.Join(rounds, ", "))
	}
	var errs []string
	differ := func(what, file, ledger string) {
		if file != ledger {
			errs = append(errs, fmt.Sprintf("the file says %s %.80s, the ledger has %.80s", what, text.Line(file), text.Line(ledger)))
		}
	}
	differ("swarm", m.Swarm, report.SwarmID)
	differ("method", m.Method, committed.Method)
	differ("layout", m.Layout.Digest().String(), committed.Layout)
	if m.Final && !(run.Over && run.LastRound == m.Round) {
		errs = append(errs, "the file says that it is the final model, the ledger has no end of the training with it")
	}
	if len(errs) > 0 {
		return errors.New(strings.Join(errs, "; "))
	}
	return nil
}

// words says who made the model.
func (f *found) words(run uint64) []string {
	h := f.history
	rounds := fmt.Sprintf("round %d", h.First)
	if h.Last > h.First {
		rounds = fmt.Sprintf("rounds %d–%d", h.First, h.Last)
	}
	if h.Missing > 0 {
		rounds += fmt.Sprintf(" (the ledger lacks %d of them: the SNs were restored from a backup)", h.Missing)
	}
	var from []string
	for _, c := range h.Contributors {
		from = append(from, fmt.Sprintf("%s %s", text.Line(c.Node), percent(c.Share)))
	}
	checked := "signatures checked"
	if !f.signed {
		checked = "the chain is whole; signatures were not checked: give --bundle"
	}
	out := []string{
		fmt.Sprintf("committed: the ledger has it, in record %d", f.model.Record),
		fmt.Sprintf("made in %s of run %d, %s, by %s, from %s; %s", rounds, run, span(h.FirstMS, h.LastMS), text.Line(strings.Join(h.Methods, ", ")), strings.Join(from, ", "), checked),
	}
	if programs := f.programs(); programs != "" {
		out = append(out, "programs, as their SLs said: "+programs)
	}
	if n := len(f.rules); n > 0 {
		last := f.rules[n-1]
		rules := rulesText(last.Rules)
		if rules == "" {
			rules = "none"
		}
		out = append(out, fmt.Sprintf("rules: %s (record %d, %s, by %s)", text.Line(rules), last.Record, dated(last.AtMS), text.Line(last.By)))
	}
	if n := len(f.backwards); n > 0 {
		b := f.backwards[0]
		out = append(out, fmt.Sprintf("times: record %d is dated %s, before an earlier one of %s: the clock of an SN was wrong, or the record", b.Record, dated(b.AtMS), dated(b.LatestMS)))
		if n += f.moreBackwards; n > 1 {
			out = append(out, fmt.Sprintf("times: and %s more: see swarmctl verify ledger", many(n-1, "such record")))
		}
	}
	return out
}

// programs says which programs ran, each once, and where.
func (f *found) programs() string {
	var order []string
	at := map[string][]string{}
	for _, c := range f.history.Contributors {
		ran := c.Programs
		if len(ran) == 0 {
			ran = []string{""}
		}
		for _, p := range ran {
			if at[p] == nil {
				order = append(order, p)
			}
			at[p] = append(at[p], text.Line(c.Node))
		}
	}
	if len(order) == 1 && order[0] == "" {
		return "" // a ledger of before programs were recorded
	}
	var said []string
	for _, p := range order {
		said = append(said, fmt.Sprintf("%s (%s)", first(text.Line(p), "not said"), strings.Join(at[p], ", ")))
	}
	return strings.Join(said, "; ")
}

// percent writes a share without digits that say nothing.
func percent(share float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", 100*share), ".0") + " %"
}

// dated is a time as people write it, in UTC.
func dated(ms int64) string { return time.UnixMilli(ms).UTC().Format("2 Jan 2006 15:04") + " UTC" }

// span is a time from and to, in UTC.
func span(first, last int64) string {
	a, b := time.UnixMilli(first).UTC(), time.UnixMilli(last).UTC()
	if a.Format(time.DateOnly) == b.Format(time.DateOnly) {
		return a.Format("2 Jan 2006 15:04–") + b.Format("15:04") + " UTC"
	}
	return a.Format("2 Jan 2006 15:04 – ") + b.Format("2 Jan 2006 15:04") + " UTC"
}

func (f *found) json() *madeJSON {
	h := f.history
	out := &madeJSON{
		Record: f.model.Record, Signatures: f.signed, FirstRound: h.First, LastRound: h.Last, First: stamp(h.FirstMS), Last: stamp(h.LastMS),
		Methods: h.Methods, Contributors: sharesToJSON(h.Contributors), Rules: ruleSetsToJSON(f.rules),
	}
	return out
}

func ruleSetsToJSON(sets []audit.RuleSet) []ruleSetJSON {
	out := []ruleSetJSON{}
	for _, r := range sets {
		out = append(out, ruleSetJSON{r.Record, stamp(r.AtMS), r.By, r.Run, rulesToJSON(r.Rules)})
	}
	return out
}

func sharesToJSON(shares []*audit.Share) []auditedShareJSON {
	out := []auditedShareJSON{}
	for _, p := range shares {
		out = append(out, auditedShareJSON{p.Node, p.SPIFFEID, p.PeerID, p.Rounds, p.Share, append([]string{}, p.Programs...)})
	}
	return out
}
