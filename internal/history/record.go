// Package history keeps on an SN, beside the ledger, what is known of each committed round of a contract: what peers reported of the merged
// model, how long its phases took, bytes, and attempts that failed. It is bounded, it is no part of what SNs agree on, and proves nothing.
package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
)

// Bounds of a round's record: who reports can't make it as large as they like.
const (
	MaxPeers  = 256
	maxFailed = 32
	maxLine   = 256 << 10
	maxReason = 300
)

// Round is what is known of one committed round. What nobody has told is nil.
type Round struct {
	Round       uint64   `json:"round"`
	Attempt     uint64   `json:"attempt"`
	PlannedMS   int64    `json:"planned_ms,omitempty"`
	CommittedMS int64    `json:"committed_ms,omitempty"`
	Digest      string   `json:"digest,omitempty"`
	Waiting     *uint64  `json:"waiting,omitempty"`  // in milliseconds: from when the first peer could merge until the plan
	Training    *uint64  `json:"training,omitempty"` // from the commit before until the first peer could merge
	Exchange    *uint64  `json:"exchange,omitempty"` // from the plan until the last peer had the merged model
	Commit      *uint64  `json:"commit,omitempty"`   // from then until it was committed
	Failed      []Failed `json:"failed,omitempty"`
	Peers       []Peer   `json:"peers,omitempty"` // by node
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

// Knows counts what was told of the round: of two records of one round that which knows more is kept.
func (r *Round) Knows() (n int) {
	for _, p := range r.Peers {
		for _, told := range []bool{p.Loss != nil, p.Metric != nil, p.Weight != nil, p.Sent != nil, p.Received != nil, p.Contributed} {
			if told {
				n++
			}
		}
	}
	for _, phase := range []*uint64{r.Waiting, r.Training, r.Exchange, r.Commit} {
		if phase != nil {
			n++
		}
	}
	return n + len(r.Failed)
}

// encode is a record as a line of a file: a checksum, a blank, JSON.
func encode(r *Round) ([]byte, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode round %d: %w", r.Round, err)
	}
	if len(data) > maxLine-16 {
		return nil, fmt.Errorf("encode round %d: its record has %d bytes", r.Round, len(data))
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(data), data), nil
}

// readLine reads a line, without its line feed; not ok: it is damaged.
func readLine(line []byte) (r *Round, ok bool) {
	sum, data, ok := bytes.Cut(line, []byte(" "))
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if !ok || err != nil || len(sum) != 8 || len(line) > maxLine || uint64(crc32.ChecksumIEEE(data)) != want {
		return nil, false
	}
	r = &Round{}
	ok = json.Unmarshal(data, r) == nil && r.Round > 0 && len(r.Peers) <= MaxPeers && len(r.Failed) <= maxFailed
	return r, ok
}
