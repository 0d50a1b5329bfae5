package state

import (
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity/naming"
)

// maxFetches is how many fetches of a run a contract remembers, the newest ones: so many are recorded once only.
const maxFetches = 64

// maxFetchRecords bounds the fetches of a run that go to the ledger, which is never cut.
const maxFetchRecords = 4096

// Fetch is a model that a node let out to an operator.
type Fetch struct {
	Node  string `json:"node"`
	By    string `json:"by"` // SPIFFE ID
	Round uint64 `json:"round"`
}

// RecordFetch notes in the ledger that a node lets a model of the contract's run out to an operator, which the rules must allow. The
// same operator, node and round are recorded once.
type RecordFetch struct {
	Contract  string `json:"contract"`
	Run       uint64 `json:"run"`
	Round     uint64 `json:"round"`
	Digest    string `json:"digest"`
	By        string `json:"by"`
	Node      string `json:"node"`
	SeenMS    int64  `json:"seen_ms"`
	Signature []byte `json:"signature"` // by the node key over identity.FetchMessage; the proposer has checked it
	AtMS      int64  `json:"at_ms"`
}

// Type implements Command.
func (RecordFetch) Type() string { return "record_fetch" }

func (f RecordFetch) apply(s *State) (Result, error) {
	c, err := s.contractRun(f.Contract, f.Run)
	if err != nil {
		return Result{}, err
	}
	result := Result{Contract: c.Name, Run: c.Run}
	n := s.Nodes[f.Node]
	switch {
	case n == nil || n.Role != naming.RoleSL:
		return Result{}, reject(ReasonNodeUnknown, "", "no SL %q", Clip(f.Node, 80))
	case !validHex(f.Digest, 64) || f.By == "" || len(f.By) > maxSPIFFEID || !printable(f.By) || len(f.Signature) == 0 || len(f.Signature) > MaxSignature:
		return Result{}, reject(ReasonBadCommand, "", "bad digest, SPIFFE ID or signature of a fetch")
	case f.Round == 0 || f.Round > c.Round():
		return Result{}, reject(ReasonNoModel, "", "contract %s has no model of round %d", c.Name, f.Round)
	case !c.Rules.exports():
		return Result{}, reject(ReasonTermsMismatch, "", "the rules of contract %s let no models out", c.Name)
	}
	seen := Fetch{Node: f.Node, By: f.By, Round: f.Round}
	if slices.Contains(c.Fetches, seen) {
		return result, nil
	}
	if c.FetchCount >= maxFetchRecords {
		return Result{}, reject(ReasonQuota, "reset the contract", "models of this run of contract %s were let out %d times", c.Name, maxFetchRecords)
	}
	c.FetchCount++
	fetches := append(slices.Clone(c.Fetches), seen)
	c.Fetches = fetches[max(0, len(fetches)-maxFetches):]
	result.Changed = true
	return result, nil
}

func (f RecordFetch) records(_, next *State) (int64, []ledger.Body) {
	return f.AtMS, []ledger.Body{ledger.Fetch{
		Contract: f.Contract, Run: f.Run, Round: f.Round, Model: f.Digest, By: f.By, Node: f.Node, PeerID: next.Nodes[f.Node].PeerID, SeenMS: f.SeenMS,
		Signature: f.Signature,
	}}
}
