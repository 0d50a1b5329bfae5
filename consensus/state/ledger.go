package state

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity/naming"
)

// Bounds of what commands carry for the ledger.
const (
	MaxBundles      = 64       // trust domains
	MaxBundleBytes  = 64 << 10 // of one trust domain's certificates
	MaxChain        = 4        // certificates of an SVID
	MaxChainBytes   = 16 << 10
	MaxSignature    = 1024
	maxCertificates = 64 // of one trust domain
)

// RecordBundle notes that a trust domain is signed for by these authorities from here on. The first one begins the ledger:
// commands before it leave no records, so that logs of versions that knew no ledger read as they did.
type RecordBundle struct {
	TrustDomain  string   `json:"trust_domain"`
	Certificates [][]byte `json:"certificates"` // DER, in the order of BundleOf
	AtMS         int64    `json:"at_ms"`
}

// BundleOf returns the command for a trust domain and its authorities' certificates in any order.
func BundleOf(trustDomain string, certificates [][]byte, atMS int64) RecordBundle {
	sorted := slices.Clone(certificates)
	slices.SortFunc(sorted, slices.Compare)
	return RecordBundle{TrustDomain: trustDomain, Certificates: slices.CompactFunc(sorted, slices.Equal), AtMS: atMS}
}

// Type implements Command.
func (RecordBundle) Type() string { return "record_bundle" }

// Digest identifies the authorities: two commands of one trust domain with the same digest record the same bundle.
func (c RecordBundle) Digest() string {
	h := sha256.New()
	for _, der := range c.Certificates {
		sum := sha256.Sum256(der)
		_, _ = h.Write(sum[:]) // A hash never returns an error.
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (c RecordBundle) apply(s *State) (Result, error) {
	if c.TrustDomain == "" || len(c.TrustDomain) > 255 || !printable(c.TrustDomain) {
		return Result{}, reject(ReasonBadCommand, "", "bad trust domain %q", clip(c.TrustDomain, 80))
	}
	if n := total(c.Certificates); n == 0 || n > MaxBundleBytes || len(c.Certificates) > maxCertificates {
		return Result{}, reject(ReasonBadCommand, "", "bundle of %s has %d certificates of %d bytes, at most %d of %d",
			c.TrustDomain, len(c.Certificates), n, maxCertificates, MaxBundleBytes)
	}
	if s.Bundles[c.TrustDomain] == c.Digest() {
		return Result{}, nil
	}
	if s.Bundles[c.TrustDomain] == "" && len(s.Bundles) >= MaxBundles {
		return Result{}, reject(ReasonBadCommand, "", "%d trust domains are recorded already, more can't be", MaxBundles)
	}
	if s.Bundles == nil {
		s.Bundles = map[string]string{}
	}
	s.Bundles[c.TrustDomain] = c.Digest()
	return Result{Changed: true}, nil
}

func (c RecordBundle) records(_, _ *State) (int64, []ledger.Body) {
	return c.AtMS, []ledger.Body{ledger.Bundle{TrustDomain: c.TrustDomain, Certificates: c.Certificates}}
}

// hasTrained reports whether rounds have been committed, or runs begun anew, or may have been in contracts that are gone.
func (s *State) hasTrained() bool {
	for _, c := range s.Contracts {
		if c.Committed != nil || c.Run > 1 {
			return true
		}
	}
	return s.RunFloor > 0
}

func total(parts [][]byte) int {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	return n
}

// LedgerHead returns the end of the ledger; the zero value while there is none.
func (s *State) LedgerHead() ledger.Head {
	if s.Ledger == nil {
		return ledger.Head{}
	}
	return *s.Ledger
}

// recorder is a command that leaves records in the ledger; one without it leaves none. The ends of contracts and lost models are recorded
// by themselves, whichever command they come from.
type recorder interface {
	// records returns when the command was proposed, and what it made of old by itself.
	records(old, next *State) (atMS int64, bodies []ledger.Body)
}

// record advances next's ledger by what c did to s and returns the new records' lines.
func record(c Command, s, next *State) ([][]byte, error) {
	head := s.LedgerHead()
	var lines [][]byte
	add := func(atMS int64, body ledger.Body) error {
		line, after, err := ledger.Append(head, atMS, body)
		if err == nil {
			lines, head = append(lines, line), after
		}
		return err
	}
	if bundle, ok := c.(RecordBundle); ok && s.Ledger == nil {
		swarm := ledger.Swarm{SwarmID: s.SwarmID, Late: s.hasTrained(), Admit: s.Admit}
		for _, a := range s.Admissions() {
			swarm.Admitted = append(swarm.Admitted, ledger.Admitted{Node: a.Name, PeerID: a.PeerID})
		}
		if err := add(bundle.AtMS, swarm); err != nil {
			return nil, err
		}
	}
	if head.Length == 0 {
		return nil, nil // nothing has begun it
	}
	var atMS int64
	var bodies []ledger.Body
	if r, ok := c.(recorder); ok {
		atMS, bodies = r.records(s, next)
	}
	for _, body := range append(bodies, contractBodies(s, next)...) {
		if err := add(atMS, body); err != nil {
			return nil, fmt.Errorf("record %s: %w", c.Type(), err)
		}
		if r, ok := body.(ledger.Registration); ok {
			next.Nodes[r.Node].Recorded = head.Length
		}
	}
	next.Ledger = &head
	return lines, nil
}

// contractBodies returns what became of contracts, by whichever command: their end, and lost models.
func contractBodies(s, next *State) (bodies []ledger.Body) {
	var changed []string
	for name, pair := range next.contractsSince(s) {
		if pair[0] != nil && pair[1] != nil {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	for _, name := range changed {
		old, c := s.Contracts[name], next.Contracts[name]
		if c.Lost != nil && (old.Lost == nil || *old.Lost != *c.Lost) {
			bodies = append(bodies, ledger.LostModel{Contract: name, Run: c.Run, Round: c.Lost.Round, Model: c.Lost.Digest, Resumed: c.Lost.ResumedRound})
		}
		if c.Over && c.Committed != nil && (!old.Over || old.Run != c.Run) {
			bodies = append(bodies, ledger.Over{Contract: name, Run: c.Run, Round: c.Committed.Round, Model: c.Committed.Digest})
		}
	}
	return bodies
}

// roundBody tells of a round that is being committed; its plan is s's.
func roundBody(c CommitRound, s *State) ledger.Round {
	contract := s.Contracts[c.Contract]
	plan := contract.Plan
	out := ledger.Round{
		Contract: contract.Name, Run: c.Run, Round: c.Round, Attempt: c.Attempt, Method: plan.Method, Layout: contract.Terms.LayoutDigest,
		Model: c.Digest, State: c.StateDigest, Shards: c.ShardDigests, ShardsDigest: c.ShardsDigest,
		Witnessed: ledger.Witness{Length: plan.LedgerLength, Hash: plan.LedgerHash}, Epoch: plan.Epoch, Witnesses: plan.Witnesses,
	}
	for i, p := range plan.Participants {
		part := ledger.Participant{
			Node: p.Node, Session: p.Session, Weight: p.Weight, Factor: math.Float64frombits(p.FactorBits),
			ShardFirst: p.ShardFirst, ShardLeaves: p.ShardLeaves, MoreShards: p.MoreShards, SPIFFEID: p.SPIFFEID,
		}
		if n := s.Nodes[p.Node]; n != nil {
			part.PeerID = n.PeerID
		}
		if i < len(c.Signatures) {
			part.Signature = c.Signatures[i]
		}
		out.Participants = append(out.Participants, part)
	}
	return out
}

// What a round's record holds at most, besides the names of its participants' keys.
const (
	roundRecord = 2 << 10 // contract, numbers and digests
	// partRecord is a participant's: name, session, base64 of the signature, the shard's digest, numbers and names of fields.
	partRecord = naming.MaxNode + 32 + (MaxSignature+2)/3*4 + 64 + 200
	runRecord  = 64 // a further run of leaves
)

// recordBound returns what the record of a round with these participants can't be longer than, whatever they sign.
func (s *State) recordBound(c *Contract, parts []Participant) int {
	size := roundRecord
	for _, p := range parts {
		size += partRecord + runRecord*len(p.MoreShards)
		if n := s.Nodes[p.Node]; n != nil {
			quoted, _ := json.Marshal(n.PeerID) // a string never fails; it may be one of before validPeerID
			size += len(quoted)
			if c.Rules.witnesses() > 0 {
				quoted, _ = json.Marshal(n.SPIFFEID) // likewise
				size += len(quoted)
			}
		}
	}
	return size
}

// checkProof holds what a registration carries for the ledger to its bounds.
func (c RegisterNode) checkProof() error {
	if len(c.Address) > MaxSignature || len(c.Address) > 0 && (c.Node.Role != naming.RoleSWOP || !c.KeepProof) {
		return reject(ReasonBadCommand, "", "registration of node %s has a signature of %d bytes for its address", c.Node.Name, len(c.Address))
	}
	if len(c.Signature) > MaxSignature || len(c.Chain) > MaxChain || total(c.Chain) > MaxChainBytes || (len(c.Signature) > 0) != (len(c.Chain) > 0) {
		return reject(ReasonBadCommand, "give the SVID at most 4 certificates of 16 KiB together",
			"registration of node %s has a chain of %d certificates and %d bytes", c.Node.Name, len(c.Chain), total(c.Chain))
	}
	return nil
}

// checkProof holds what a round carries for the ledger to its bounds.
func (r CommitRound) checkProof() error {
	ok := len(r.Signatures) <= MaxMinPeers && len(r.ShardDigests) <= MaxMinPeers && (r.StateDigest == "" || validHex(r.StateDigest, 64)) &&
		(r.ShardsDigest == "" || validHex(r.ShardsDigest, 64))
	for _, s := range r.Signatures {
		ok = ok && len(s) <= MaxSignature
	}
	for _, d := range r.ShardDigests {
		ok = ok && validHex(d, 64)
	}
	if !ok {
		return reject(ReasonBadCommand, "", "bad signatures or digests of round %d of %s", r.Round, clip(r.Contract, 80))
	}
	return nil
}

// checkLedger holds that the ledger's end is one.
func (s *State) checkLedger() bool {
	if len(s.Bundles) > MaxBundles || (s.Ledger == nil) != (len(s.Bundles) == 0) {
		return false
	}
	return s.Ledger == nil || s.Ledger.Length > 0 && s.Ledger.Bytes > s.Ledger.Length && validHex(s.Ledger.Hash, 64)
}
