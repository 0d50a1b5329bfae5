// Package history keeps on an SN, beside the ledger, what is known of each committed round of a contract: what peers reported of the merged
// model, how long its phases took, bytes, and attempts that failed. It is bounded, it is no part of what SNs agree on, and proves nothing.
package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/history/crcline"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/text"
)

// Bounds of a round's record: who reports can't make it as large as they like.
const (
	MaxPeers  = 256
	maxFailed = 32
	maxLine   = 256 << 10
	maxReason = 300
	maxDigest = 128
	maxMethod = 256
)

// Round is what is known of one committed round. What nobody has told is nil.
type Round struct {
	Round       uint64   `json:"round"`
	Attempt     uint64   `json:"attempt"`
	PlannedMS   int64    `json:"planned_ms,omitempty"`
	CommittedMS int64    `json:"committed_ms,omitempty"`
	Digest      string   `json:"digest,omitempty"`
	Record      uint64   `json:"record,omitempty"`   // number of the ledger's record that proves it; 0: not known
	Method      string   `json:"method,omitempty"`   // by which it was merged, as that record has it
	Own         bool     `json:"own,omitempty"`      // attempt, digest, record, method, times and who contributed are from this SN's state or ledger
	Waiting     *uint64  `json:"waiting,omitempty"`  // in milliseconds: from when the first peer could merge until the plan
	Training    *uint64  `json:"training,omitempty"` // from the commit before until the first peer could merge
	Exchange    *uint64  `json:"exchange,omitempty"` // from the plan until the last peer had the merged model
	Commit      *uint64  `json:"commit,omitempty"`   // from then until it was committed
	Failed      []Failed `json:"failed,omitempty"`
	Peers       []Peer   `json:"peers,omitempty"` // by node
	Asked       uint64   `json:"asked,omitempty"` // up to which round other SNs had been asked when this was written
}

// Failed is an attempt that came to nothing.
type Failed struct {
	Attempt uint64 `json:"attempt"`
	Blamed  string `json:"blamed,omitempty"`
	Reason  string `json:"reason,omitempty"`
	AtMS    int64  `json:"at_ms"`
}

// Peer is what one node did in a round, and what its program reported of the model that came out.
type Peer struct {
	Node        string   `json:"node"`
	Loss        *float64 `json:"loss,omitempty"`
	Metric      *float64 `json:"metric,omitempty"`
	MetricName  string   `json:"called,omitempty"` // what its program calls the metric
	Weight      *uint32  `json:"weight,omitempty"`
	Contributed bool     `json:"contributed,omitempty"`
	Sent        *uint64  `json:"sent,omitempty"`     // bytes of merges since its record before
	Received    *uint64  `json:"received,omitempty"` // likewise
}

// peer returns the record of a node, which is made if there is room; nil: there is none.
func (r *Round) peer(node string) *Peer {
	for i := range r.Peers {
		if r.Peers[i].Node == node {
			return &r.Peers[i]
		}
	}
	if len(r.Peers) >= MaxPeers {
		return nil
	}
	r.Peers = append(r.Peers, Peer{Node: node})
	return &r.Peers[len(r.Peers)-1]
}

// sort puts the peers in order.
func (r *Round) sort() {
	slices.SortFunc(r.Peers, func(a, b Peer) int { return strings.Compare(a.Node, b.Node) })
}

// whole reports whether nothing of the record is left for the ledger to say.
func (r *Round) whole() bool {
	return r.Own && r.Record > 0 && r.Method != "" && !slices.ContainsFunc(r.Peers, func(p Peer) bool { return p.Contributed && p.Weight == nil })
}

// own makes the record this SN's own, and has room for who took part. Of what others have said of the round only what nodes report stays that
// took part, or that this SN knows, and attempts that can have failed.
func (r *Round) own(attempt uint64, participants []string, knows func(node string) bool) {
	if !r.Own {
		known := func(node string) bool { return knows(node) || slices.Contains(participants, node) }
		r.Own = true
		r.Record, r.Method, r.PlannedMS, r.CommittedMS = 0, "", 0, 0
		r.Peers = slices.DeleteFunc(r.Peers, func(p Peer) bool { return !known(p.Node) })
		r.Failed = slices.DeleteFunc(r.Failed, func(f Failed) bool { return !f.possible(attempt, known) })
		for i := range r.Peers {
			r.Peers[i].Weight, r.Peers[i].Contributed = nil, false
		}
	}
	more := 0
	for _, node := range participants {
		if !r.has(node) {
			more++
		}
	}
	for i := len(r.Peers) - 1; i >= 0 && len(r.Peers)+more > MaxPeers; i-- {
		if !slices.Contains(participants, r.Peers[i].Node) {
			r.Peers = slices.Delete(r.Peers, i, i+1)
		}
	}
}

// has reports whether there is a record of a node.
func (r *Round) has(node string) bool {
	return slices.ContainsFunc(r.Peers, func(p Peer) bool { return p.Node == node })
}

// possible reports whether an attempt can have failed so, of a round that was committed at one.
func (f Failed) possible(committed uint64, knows func(node string) bool) bool {
	return 0 < f.Attempt && f.Attempt <= committed && (f.Blamed == "" || knows(f.Blamed))
}

// clean drops of what another SN says of a round what can't be; not ok: nothing of it is to be kept.
func (r *Round) clean() (ok bool) {
	if !r.bounded() || len(r.Digest) > maxDigest || !text.Visible(r.Digest) {
		return false
	}
	r.Own, r.Asked = false, 0
	r.Method = text.Clip(text.Line(r.Method), maxMethod)
	r.sort()
	for i := range r.Peers {
		p := &r.Peers[i]
		if !naming.ValidNode(p.Node) || i > 0 && p.Node == r.Peers[i-1].Node {
			return false
		}
		p.Loss, p.Metric, p.MetricName = orNil(p.Loss), orNil(p.Metric), text.Printable(text.Cut(p.MetricName, round.MaxMetricName), ' ')
	}
	for i := range r.Failed {
		f := &r.Failed[i]
		f.Blamed, f.Reason = text.Clip(text.Line(f.Blamed), maxReason), text.Clip(text.Line(f.Reason), maxReason)
	}
	return true
}

// orNil drops what JSON can't carry.
func orNil(f *float64) *float64 {
	if f != nil && *f-*f != 0 {
		return nil
	}
	return f
}

// learn takes what another SN was told of a round. Of what this SN has from its own state or ledger nothing changes; what nodes have
// reported is replaced with over, else only added: to a record of its own for nodes that are in it, or that it knows.
func (r *Round) learn(from *Round, over bool, knows func(node string) bool) {
	learn(&r.Waiting, from.Waiting, over)
	learn(&r.Training, from.Training, over)
	learn(&r.Exchange, from.Exchange, over)
	learn(&r.Commit, from.Commit, over)
	if r.PlannedMS == 0 {
		r.PlannedMS = from.PlannedMS
	}
	if !r.Own && r.CommittedMS == 0 {
		r.Attempt, r.Digest, r.CommittedMS = from.Attempt, from.Digest, from.CommittedMS
	}
	if !r.Own && r.Record == 0 {
		r.Record, r.Method = from.Record, from.Method
	}
	for _, theirs := range from.Peers {
		if r.Own && theirs.Loss == nil && theirs.Metric == nil && theirs.Sent == nil && theirs.Received == nil {
			continue
		}
		if r.Own && !r.has(theirs.Node) && !knows(theirs.Node) {
			continue
		}
		if len(r.Peers) >= MaxPeers && !r.Own && knows(theirs.Node) { // made-up names give room
			r.Peers = slices.DeleteFunc(r.Peers, func(p Peer) bool { return !knows(p.Node) })
		}
		p := r.peer(theirs.Node)
		if p == nil {
			continue
		}
		if theirs.Metric != nil && (p.Metric == nil || over) && theirs.MetricName != "" { // an SN of an older version has no names
			p.MetricName = theirs.MetricName
		}
		learn(&p.Loss, theirs.Loss, over)
		learn(&p.Metric, theirs.Metric, over)
		learn(&p.Sent, theirs.Sent, over)
		learn(&p.Received, theirs.Received, over)
		if !r.Own {
			learn(&p.Weight, theirs.Weight, false)
			p.Contributed = p.Contributed || theirs.Contributed
		}
	}
	r.sort()
	known := func(node string) bool { return knows(node) || r.has(node) }
	failed := slices.DeleteFunc(slices.Clone(from.Failed), func(f Failed) bool { return r.Own && !f.possible(r.Attempt, known) })
	if over {
		r.failFirst(failed)
		return
	}
	for _, f := range failed {
		r.fail(f)
	}
}

// failFirst adds attempts that failed, before those that others have told of: where there is no room these go.
func (r *Round) failFirst(failed []Failed) {
	others := r.Failed
	r.Failed = nil
	for _, f := range slices.Concat(failed, others) {
		r.fail(f)
	}
}

func learn[T any](have **T, told *T, over bool) {
	if told != nil && (*have == nil || over) {
		*have = told
	}
}

// fail adds an attempt that failed, once.
func (r *Round) fail(f Failed) {
	if len(r.Failed) < maxFailed && !slices.ContainsFunc(r.Failed, func(have Failed) bool { return have.Attempt == f.Attempt && have.Blamed == f.Blamed }) {
		r.Failed = append(r.Failed, f)
	}
}

// clone returns a copy that shares nothing which is written to.
func (r *Round) clone() *Round {
	out := *r
	out.Peers, out.Failed = slices.Clone(r.Peers), slices.Clone(r.Failed)
	return &out
}

// bounded reports whether a record is one that is kept.
func (r *Round) bounded() bool {
	return r.Round > 0 && len(r.Peers) <= MaxPeers && len(r.Failed) <= maxFailed
}

// errRecord reports a record that no file takes, however often it is tried.
var errRecord = errors.New("the record of the round is out of bounds")

// encode is a record as a line of a file: a checksum, a blank, JSON.
func encode(r *Round) ([]byte, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode round %d: %w: %w", r.Round, errRecord, err)
	}
	if !r.bounded() || len(data) > maxLine-16 {
		return nil, fmt.Errorf("encode round %d: %w: %d bytes, %d peers, %d failures", r.Round, errRecord, len(data), len(r.Peers), len(r.Failed))
	}
	return crcline.Sealed(data), nil
}

// intact reports whether a line, without its line feed, is as it was written.
func intact(line []byte) bool {
	_, ok := crcline.Read(line)
	return ok && len(line) <= maxLine
}

// readLine reads a line, without its line feed; not ok: it is damaged.
func readLine(line []byte) (r *Round, ok bool) {
	if !intact(line) {
		return nil, false
	}
	r = &Round{}
	return r, json.Unmarshal(line[9:], r) == nil && r.bounded()
}
