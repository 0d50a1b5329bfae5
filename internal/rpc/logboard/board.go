// Package logboard is the part of an SN's API that passes logs on from hosts to operators. What it keeps is sealed, little, and only in the
// memory of the SN that leads: with another leader operator and host say all of it again.
package logboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/logs"
)

// Bounds of what a board keeps, and for how long.
const (
	maxInAll   = 64
	maxPerID   = 32 // requests of one SPIFFE ID, which operators may share
	maxPerSVID = 16 // of one SVID: those who share an ID have each their own
	maxOfNode  = 8  // of one SPIFFE ID that one node is to answer
	maxPerNode = 8  // that a node is told of at a time
	maxChunks  = 8  // of one request, of logs.MaxSealed bytes
	perRead    = 3  // chunks in an answer
	forgotten  = 15 * time.Second
	silence    = 12 * time.Second // after which a host counts as silent: it says something each second
	holdFor    = 2 * time.Second  // that a call waits for news
)

// Board has what operators ask for. It is safe for concurrent use.
type Board struct {
	news chan struct{} // has a value when something new was asked for

	mu   sync.Mutex
	asks map[key]*ask
}

// key is a request of a caller: nobody is in the way of another's.
type key struct{ by, id string }

// ask is a request, and what has come of it.
type ask struct {
	node    string
	svid    string // hash of the certificate that signed it, as the operator says: a false one wins no room beyond that of the SPIFFE ID
	order   *swarmv1.LogOrder
	opening *swarmv1.LogOpening
	chunks  []*swarmv1.LogChunk // after have, without gaps
	have    uint64              // number of the last chunk that was read
	read    time.Time           // when the operator asked last
	unread  *time.Timer         // forgets it when nobody reads it any more, also if nobody calls
	heard   time.Time           // when the host said something last, or the request was new
	changed chan struct{}
}

// New returns an empty board.
func New() *Board { return &Board{news: make(chan struct{}, 1), asks: map[key]*ask{}} }

// Read notes what an operator asks for, and that it does, and returns what has come since. It waits for that, but not for long.
func (b *Board) Read(ctx context.Context, by string, id []byte, req *swarmv1.ReadLogsRequest) (*swarmv1.ReadLogsResponse, error) {
	until := time.NewTimer(holdFor)
	defer until.Stop()
	for {
		res, changed, err := b.read(key{by, string(id)}, req, time.Now())
		if err != nil || changed == nil || len(res.GetChunks()) > 0 || res.GetSilent() {
			return res, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-until.C:
			return res, nil
		case <-changed:
		}
	}
}

// read is one look. changed is closed at the next change; nil: there is none to wait for.
func (b *Board) read(k key, req *swarmv1.ReadLogsRequest, now time.Time) (res *swarmv1.ReadLogsResponse, changed <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if req.GetDone() {
		b.forget(k)
		return &swarmv1.ReadLogsResponse{}, nil, nil
	}
	a := b.asks[k]
	if a == nil {
		a = &ask{node: req.GetPart().GetNode(), svid: svidOf(req.GetOrder()), order: proto.CloneOf(req.GetOrder()), have: req.GetHave(), heard: now, changed: make(chan struct{})}
		if err := b.roomFor(k.by, a); err != nil {
			return nil, nil, err
		}
		b.asks[k] = a
		a.unread = time.AfterFunc(forgotten, func() { b.lapse(k, a) })
		select {
		case b.news <- struct{}{}:
		default:
		}
	}
	a.read = now
	a.unread.Reset(forgotten)
	a.drop(req.GetHave())
	res = &swarmv1.ReadLogsResponse{Silent: now.Sub(a.heard) >= silence}
	if a.opening != nil {
		res.Opening, res.Chunks = a.opening, a.chunks[:min(len(a.chunks), perRead)]
	}
	return res, a.changed, nil
}

// roomFor holds callers to their bounds. The caller holds mu.
func (b *Board) roomFor(by string, a *ask) error {
	own, same, there := 0, 0, 0
	for k, x := range b.asks {
		if k.by != by {
			continue
		}
		own++
		if x.svid == a.svid {
			same++
		}
		if x.node == a.node {
			there++
		}
	}
	const remedy = "end one of them first; one that was cut off is forgotten after 15 seconds"
	switch {
	case same >= maxPerSVID:
		return &state.Error{Reason: state.ReasonQuota, Message: fmt.Sprintf("%s reads %d logs at a time already", by, same), Remedy: remedy}
	case own >= maxPerID:
		return &state.Error{Reason: state.ReasonQuota, Message: fmt.Sprintf("those who share %s read %d logs at a time already", by, own), Remedy: remedy + "; give each operator an ID of their own"}
	case there >= maxOfNode:
		return &state.Error{Reason: state.ReasonQuota, Message: fmt.Sprintf("%s reads %d logs of %.128q at a time already", by, there, a.node), Remedy: remedy}
	}
	if len(b.asks) >= maxInAll {
		return &state.Error{Reason: state.ReasonStateFull, Message: fmt.Sprintf("operators read %d logs at a time already", maxInAll), Remedy: "ask again in a moment"}
	}
	return nil
}

// drop forgets what was read.
func (a *ask) drop(have uint64) {
	for len(a.chunks) > 0 && a.chunks[0].GetNumber() <= have {
		a.chunks = a.chunks[1:]
	}
	a.have = max(a.have, have)
}

// svidOf tells the SVIDs apart that have signed requests.
func svidOf(o *swarmv1.LogOrder) string {
	if len(o.GetChain()) == 0 {
		return ""
	}
	sum := sha256.Sum256(o.GetChain()[0])
	return string(sum[:])
}

// forget drops a request. The caller holds mu.
func (b *Board) forget(k key) {
	if a := b.asks[k]; a != nil {
		a.unread.Stop()
		delete(b.asks, k)
	}
}

// lapse forgets a request that nobody reads any more, unless it was read meanwhile.
func (b *Board) lapse(k key, a *ask) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asks[k] == a && time.Since(a.read) >= forgotten {
		b.forget(k)
	}
}

// Of returns what operators ask a node for that it has not answered; nil: nothing.
func (b *Board) Of(node string) (orders []*swarmv1.LogOrder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.asks {
		if a.node == node && a.opening == nil && len(orders) < maxPerNode {
			orders = append(orders, a.order)
		}
	}
	return orders
}

// Send takes what a node hands out.
func (b *Board) Send(node string, req *swarmv1.SendLogsRequest) (*swarmv1.SendLogsResponse, error) {
	if err := fits(req); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for k, a := range b.asks {
		if k.id != string(req.GetId()) || a.node != node {
			continue
		}
		if a.opening != nil && !bytes.Equal(a.opening.GetEncapsulated(), req.GetOpening().GetEncapsulated()) {
			break // another process of the node answers: the operator could not go on with it
		}
		a.take(req, now)
		return &swarmv1.SendLogsResponse{Have: a.have, Kept: a.have + uint64(len(a.chunks))}, nil
	}
	return &swarmv1.SendLogsResponse{Unknown: true}, nil
}

// take keeps what comes next, as far as there is room.
func (a *ask) take(req *swarmv1.SendLogsRequest, now time.Time) {
	a.heard = now
	news := a.opening == nil
	a.opening = req.GetOpening()
	for _, c := range req.GetChunks() {
		if c.GetNumber() == a.have+uint64(len(a.chunks))+1 && len(a.chunks) < maxChunks {
			a.chunks, news = append(a.chunks, c), true
		}
	}
	if news {
		close(a.changed)
		a.changed = make(chan struct{})
	}
}

// fits holds what a node sends to its bounds.
func fits(req *swarmv1.SendLogsRequest) error {
	bad := proto.Size(req.GetOpening()) > logs.MaxOpening || len(req.GetOpening().GetEncapsulated()) == 0
	for _, c := range req.GetChunks() {
		bad = bad || len(c.GetSealed()) > logs.MaxSealed
	}
	if bad {
		return &state.Error{Reason: state.ReasonBadCommand, Message: "what a node sends of a log is out of its bounds", Remedy: "update the node to the version of the SNs"}
	}
	return nil
}
