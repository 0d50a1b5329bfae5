package swci

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// proofJSON is what the ledger proves of a model, as swarmctl has found by itself.
type proofJSON struct {
	Contract     string          `json:"contract" doc:"its name"`
	Run          uint64          `json:"run" doc:"number of the run, the newest"`
	Round        uint64          `json:"round" doc:"that made the model"`
	State        string          `json:"state" doc:"verified; unchecked: the ledger is a whole chain and has this model, and signatures were not checked, for no --bundle was given; bad: something is wrong"`
	Problems     []string        `json:"problems" doc:"what is wrong, a line each, those of this round first, at most 10"`
	Digest       string          `json:"digest" doc:"BLAKE3 of the model, in hex"`
	Layout       string          `json:"layout_digest" doc:"BLAKE3 of its layout, in hex"`
	Method       string          `json:"method" doc:"of the merge"`
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

// proof reads the ledger of an SN, and says what it proves of the model of CONTRACT/ROUND.
func (d *documents) proof(ctx context.Context, of string) (json.RawMessage, error) {
	i := strings.LastIndexByte(of, '/')
	round, err := strconv.ParseUint(of[i+1:], 10, 64)
	if i < 1 || err != nil || round == 0 {
		return nil, exit.New(exit.Usage, "ask for proof/CONTRACT/ROUND", "%.80q is no round of a contract", of)
	}
	contract, o := of[:i], d.judge
	var found recordedRound
	ids := map[string]string{} // of node keys
	o.Each = func(record uint64, atMS int64, body ledger.Body) {
		switch b := body.(type) {
		case ledger.Registration:
			ids[b.PeerID] = b.SPIFFEID
		case ledger.Round:
			if b.Contract == contract && b.Round == round {
				found = recordedRound{record, atMS, b}
			}
		}
	}
	one := d.session
	report, err := judgeLedger(ctx, &one, Args{}, o)
	if err != nil {
		return nil, fmt.Errorf("verify round %d of %s: %w", round, text.Line(contract), err)
	}
	if run := newestRun(report, contract); found.record == 0 || found.Run != run {
		return nil, exit.New(exit.NotFound, "it may be of a run before, or the ledger may have begun later: swarmctl get ledger, then swarmctl verify ledger",
			"the ledger has no round %d of contract %s in its newest run", round, text.Line(contract))
	}
	return json.Marshal(proofToJSON(report, &found, ids, o.Unsigned))
}

func newestRun(r *audit.Report, contract string) uint64 {
	for _, c := range r.Contracts {
		if c.Name == contract {
			return c.Run
		}
	}
	return 0
}

func proofToJSON(r *audit.Report, found *recordedRound, ids map[string]string, unsigned bool) proofJSON {
	out := proofJSON{
		Contract: found.Contract, Run: found.Run, Round: found.Round.Round, State: "verified", Problems: []string{}, Digest: found.Model, Layout: found.Layout, Method: found.Method,
		Record: found.record, At: stamp(found.atMS), Head: r.Head, Records: r.Records, Participants: []proofPartJSON{},
	}
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
