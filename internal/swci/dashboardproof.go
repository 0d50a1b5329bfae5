package swci

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// proofJSON is what the ledger proves of a model, as swarmctl has found by itself.
type proofJSON struct {
	Contract     string          `json:"contract" doc:"its name"`
	Run          uint64          `json:"run" doc:"number of the run: the newest, or that which was asked for"`
	Round        uint64          `json:"round" doc:"that made the model"`
	State        string          `json:"state" doc:"verified; unchecked: the ledger is a whole chain and has this model, and signatures were not checked, for no --bundle was given; bad: something is wrong"`
	Problems     []string        `json:"problems" doc:"what is wrong, a line each, those of this round first, at most 10"`
	Digest       string          `json:"digest" doc:"BLAKE3 of the model, in hex"`
	Layout       string          `json:"layout_digest" doc:"BLAKE3 of its layout, in hex"`
	Method       string          `json:"method" doc:"of the merge"`
	Rules        *ruleSetJSON    `json:"rules" doc:"that operators had given the contract when it was committed, the last ones; null: none"`
	RulesText    string          `json:"rules_text" doc:"the same in words; empty: they demand nothing"`
	Record       uint64          `json:"record" doc:"number of the ledger's record, from 1"`
	At           *string         `json:"at" doc:"when it was committed, by the SN that led; RFC 3339, UTC"`
	Head         string          `json:"head" doc:"hash of the ledger's last record"`
	Records      uint64          `json:"records" doc:"that were read and form a chain"`
	Participants []proofPartJSON `json:"participants" doc:"whose models were merged, in the order of the sum"`
}

type proofPartJSON struct {
	Node     string  `json:"node" doc:"its name"`
	SpiffeID string  `json:"spiffe_id" doc:"that it registered with"`
	PeerID   string  `json:"peer_id" doc:"libp2p peer ID of its node key"`
	Weight   uint32  `json:"weight" doc:"of its model"`
	Share    float64 `json:"share" doc:"of the weight of all, 0 to 1"`
	Signed   bool    `json:"signed" doc:"its signature was checked, and is good"`
	Problem  string  `json:"problem" doc:"what is wrong with its part, in one line; else empty"`
}

// maxProofProblems bounds the problems that a page is told.
const maxProofProblems = 10

// recordedRound is the record of a round.
type recordedRound struct {
	record uint64
	atMS   int64
	ledger.Round
}

const (
	// maxRecorded bounds the rounds of a contract that a page may have proven: those that came last.
	maxRecorded = 100_000
	// maxRecordedRuns bounds the runs whose rounds are kept, and the contracts, and maxRecordedIDs the node keys.
	maxRecordedRuns = 1000
	maxRecordedIDs  = 100_000
)

// recordedRounds says where a ledger has the rounds of each contract's runs, so that none is held in memory.
type recordedRounds struct {
	end    uint64                      // of the records that were taken, in bytes
	ids    bounded[string, string]     // SPIFFE IDs of node keys
	newest bounded[string, uint64]     // run, by contract
	runs   bounded[runOf, recordedRun] // their rounds
}

// runOf is a run of a contract.
type runOf struct {
	contract string
	run      uint64
}

func newRecordedRounds() recordedRounds {
	return recordedRounds{ids: newBounded[string, string](maxRecordedIDs), newest: newBounded[string, uint64](maxRecordedRuns), runs: newBounded[runOf, recordedRun](maxRecordedRuns)}
}

type recordedRun struct {
	places *bounded[uint64, recordedPlace] // by round
}

// of returns the rounds of a contract's run; 0: of the newest.
func (r *recordedRounds) of(of runOf) (run recordedRun, there bool) {
	if of.run == 0 {
		of.run = r.newest.of[of.contract]
	}
	run, there = r.runs.of[of]
	return run, there
}

// bounded is a map of so many entries at most, those that came last: an SN numbers and names as it likes what its ledger has.
type bounded[K comparable, V any] struct {
	most  int
	of    map[K]V
	order []K // as they came
}

func newBounded[K comparable, V any](most int) bounded[K, V] {
	return bounded[K, V]{most: most, of: map[K]V{}}
}

// put sets an entry. If there are too many then, the one that came first goes.
func (b *bounded[K, V]) put(key K, value V) {
	if _, there := b.of[key]; !there {
		b.order = append(b.order, key)
	}
	b.of[key] = value
	if len(b.order) > b.most {
		delete(b.of, b.order[0])
		b.order = b.order[1:]
	}
}

// drop forgets the entries with such keys.
func (b *bounded[K, V]) drop(such func(key K) bool) {
	b.order = slices.DeleteFunc(b.order, func(key K) bool {
		if !such(key) {
			return false
		}
		delete(b.of, key)
		return true
	})
}

// recordedPlace is a record's place in a ledger, and what was judged there: number, date and hash of the body.
type recordedPlace struct {
	from, to uint64
	record   uint64
	atMS     int64
	body     [sha256.Size]byte
}

// holds reports whether a record is the one that was judged.
func (p *recordedPlace) holds(r ledger.Record, b ledger.Round) bool {
	return r.Seq == p.record && r.AtMS == p.atMS && roundSum(b) == p.body
}

// take notes a record that ends where the ledger was judged to.
func (r *recordedRounds) take(end, record uint64, atMS int64, body ledger.Body) {
	from := r.end
	r.end = end
	switch b := body.(type) {
	case ledger.Registration:
		r.ids.put(b.PeerID, b.SPIFFEID)
	case ledger.Deleted:
		r.newest.drop(func(contract string) bool { return contract == b.Contract })
		r.runs.drop(func(of runOf) bool { return of.contract == b.Contract })
	case ledger.Round:
		key := runOf{b.Contract, b.Run}
		of, there := r.runs.of[key]
		if !there {
			places := newBounded[uint64, recordedPlace](maxRecorded)
			of = recordedRun{&places}
			r.runs.put(key, of)
		}
		r.newest.put(b.Contract, b.Run)
		of.places.put(b.Round, recordedPlace{from, end, record, atMS, roundSum(b)})
	}
}

// roundSum is a hash of a record's body.
func roundSum(b ledger.Round) [sha256.Size]byte {
	data, err := json.Marshal(b)
	if err != nil {
		return [sha256.Size]byte{} // it has come from JSON
	}
	return sha256.Sum256(data)
}

// errWhole ends the reading of a ledger behind one record.
var errWhole = errors.New("the record is whole")

// oneRecord takes the first bytes of a ledger, as many as a record has.
type oneRecord struct {
	line []byte
	want uint64
}

func (o *oneRecord) Write(p []byte) (int, error) {
	n := min(uint64(len(p)), o.want-uint64(len(o.line)))
	o.line = append(o.line, p[:n]...)
	if uint64(len(o.line)) == o.want {
		return int(n), errWhole //nolint:gosec // as long as p at most
	}
	return len(p), nil
}

// place returns where the ledger has a round. The ledger is read on, but what was read of it is not read again.
func (r *eventReader) place(ctx context.Context, of runOf, round uint64) (place recordedPlace, err error) {
	known := func() (there bool) {
		place = recordedPlace{} // the one before may be of another ledger
		if run, begun := r.recorded.of(of); begun {
			place, there = run.places.of[round]
		}
		return there
	}
	if known() && r.clock().Before(r.until) {
		return place, nil
	}
	if !r.auditor.Ended() && r.err == nil {
		r.until = time.Time{} // it may be new
	}
	if _, err = r.current(ctx); err == nil && !known() {
		run := "its newest run"
		if of.run > 0 {
			run = fmt.Sprintf("run %d", of.run)
		}
		err = exit.New(exit.NotFound, "it may be of another run, or of a contract that was deleted, or there are too many newer ones, or the ledger may have begun later: swarmctl get ledger, then swarmctl verify ledger",
			"the ledger has no round %d of contract %s in %s", round, text.Line(of.contract), run)
	}
	return place, err
}

// round returns the record of a round as it was judged, and what was found so far.
func (r *eventReader) round(ctx context.Context, of runOf, round uint64) (found recordedRound, report *audit.Report, err error) {
	place, err := r.place(ctx, of, round)
	if err != nil {
		return found, nil, err
	}
	one := oneRecord{want: place.to - place.from}
	if _, err = r.ledger(ctx, int64(place.from), &one); err != nil && uint64(len(one.line)) != one.want { //nolint:gosec // as long as a file at most
		return found, nil, err
	}
	record, body, err := ledger.Parse(one.line)
	b, ok := body.(ledger.Round)
	if err != nil || !ok || !place.holds(record, b) {
		return found, nil, exit.New(exit.Failed, "SNs were restored from a backup, or one of them has another ledger: ask for the proof again, then swarmctl verify ledger",
			"the ledger has another record now where it had round %d of contract %s", round, text.Line(of.contract))
	}
	return recordedRound{place.record, place.atMS, b}, r.auditor.Report(), nil
}

// roundNamed reads CONTRACT/ROUND or CONTRACT/RUN/ROUND.
func roundNamed(name string) (of runOf, round uint64, err error) {
	parts := strings.Split(name, "/")
	of.contract = parts[0]
	numbers := []uint64{}
	for _, part := range parts[1:] {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil || n == 0 {
			numbers = nil
			break
		}
		numbers = append(numbers, n)
	}
	switch {
	case of.contract != "" && len(numbers) == 1:
		return of, numbers[0], nil
	case of.contract != "" && len(numbers) == 2:
		of.run = numbers[0]
		return of, numbers[1], nil
	}
	return of, 0, exit.New(exit.Usage, "ask for proof/CONTRACT/ROUND or proof/CONTRACT/RUN/ROUND", "%.80q is no round of a contract", name)
}

// proof says what the ledger of an SN proves of the model of CONTRACT/ROUND, or of CONTRACT/RUN/ROUND.
func (d *documents) proof(ctx context.Context, name string) (json.RawMessage, error) {
	of, round, err := roundNamed(name)
	if err != nil {
		return nil, err
	}
	end, err := d.events.begins(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	found, report, err := d.events.round(ctx, of, round)
	if err != nil {
		return nil, fmt.Errorf("verify round %d of %s: %w", round, text.Line(of.contract), err)
	}
	out := proofToJSON(report, &found, d.events.recorded.ids.of, d.judge.Unsigned)
	if was := d.events.changed; was != "" {
		out.State, out.Problems = "bad", append([]string{"the ledger: " + was}, out.Problems[:min(len(out.Problems), maxProofProblems-1)]...)
	}
	return json.Marshal(out)
}

// ruledBy adds the rules that were in force when a round was committed.
func (p *proofJSON) ruledBy(r *audit.Report, found *recordedRound) {
	for _, c := range r.Contracts {
		if c.Name != found.Contract {
			continue
		}
		for _, set := range slices.Backward(c.RulesAt(found.record)) {
			if set.Run <= found.Run {
				p.Rules, p.RulesText = &ruleSetsToJSON([]audit.RuleSet{set})[0], text.Line(rulesText(set.Rules))
				return
			}
		}
	}
}

func proofToJSON(r *audit.Report, found *recordedRound, ids map[string]string, unsigned bool) proofJSON {
	out := proofJSON{
		Contract: found.Contract, Run: found.Run, Round: found.Round.Round, State: "verified", Problems: []string{}, Digest: found.Model, Layout: found.Layout, Method: found.Method,
		Record: found.record, At: stamp(found.atMS), Head: r.Head, Records: r.Records, Participants: []proofPartJSON{},
	}
	out.ruledBy(r, found)
	switch {
	case !r.Good():
		out.State = "bad"
	case unsigned:
		out.State = "unchecked"
	}
	for _, ofRound := range []bool{true, false} {
		for _, p := range r.Problems {
			if (p.Record == found.record) == ofRound && len(out.Problems) < maxProofProblems {
				out.Problems = append(out.Problems, text.Line(p.Error()))
			}
		}
	}
	total := uint64(0)
	for _, p := range found.Participants {
		total += uint64(p.Weight)
	}
	for i, p := range found.Participants {
		x := proofPartJSON{Node: p.Node, SpiffeID: first(p.SPIFFEID, ids[p.PeerID]), PeerID: p.PeerID, Weight: p.Weight, Share: float64(p.Weight) / float64(max(1, total))}
		for _, bad := range r.Problems {
			if bad.Record == found.record && strings.HasPrefix(bad.Field, fmt.Sprintf("participants[%d].", i)) {
				x.Problem = text.Line(bad.What)
				break
			}
		}
		x.Signed = x.Problem == "" && !unsigned && r.More == 0
		out.Participants = append(out.Participants, x)
	}
	return out
}
