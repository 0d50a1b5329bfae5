// Package admission judges who may take part with an SL: whose merge streams it answers, who may fetch its models and that operators' fetches
// are on record, and which node keys are shut out.
package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/internal/trust"
)

// viewWait bounds how long an incoming stream waits for the contract to show its sender: views reach nodes at different
// times, by way of different SNs.
const viewWait = 10 * time.Second

// Bounds of the streams that wait so at a time: in all, and those of one SPIFFE ID, which keys without number may show.
const (
	maxViewWaits    = 1024
	maxViewWaitsPer = maxViewWaits / 4
)

// IdentityError says that a peer's certificate is not of the node that its key belongs to.
type IdentityError struct {
	Node, Registered, Proven string
	// Stale: the connection is older than the node's registration, which has got a SPIFFE ID of its own since. A new
	// connection will do.
	Stale bool
}

func (e *IdentityError) Error() string {
	return fmt.Sprintf("%s shows the SPIFFE ID %s and is registered as %q", e.Node, e.Proven, e.Registered)
}

// CheckIdentity holds the SPIFFE ID that a connection has proven to the one that the node registered with. It is the same,
// or the node has got one of its own and has not registered with it yet: what a registration may follow another by.
func CheckIdentity(node, registered, proven string) error {
	if registered != "" && (proven == registered || proven == registered+"/"+node) {
		return nil
	}
	return &IdentityError{Node: node, Registered: registered, Proven: proven, Stale: proven != "" && registered == proven+"/"+node}
}

// Session finds the session that a node key has in the contract; nil if there is none that has not ended.
func Session(v *round.View, peerID string) *round.Session {
	for _, m := range v.Sessions {
		if m.PeerID == peerID && m.State != "ended" {
			return m
		}
	}
	return nil
}

// Enrolled returns nil if the peer has a session in the contract that has not ended, and shows the SPIFFE ID that its node
// registered with.
func Enrolled(v *round.View, peerID, spiffeID string) error {
	m := Session(v, peerID)
	if m == nil {
		return errors.New("not enrolled in this contract")
	}
	return CheckIdentity(m.Node, m.SPIFFEID, spiffeID)
}

// Door judges incoming merge streams before the exchange sees them. Make it with New.
type Door struct {
	engine *session.Engine
	guard  *trust.Guard // nil: every SL of the view is accepted

	// mu guards what follows.
	mu    sync.Mutex
	waits map[string]int // streams that wait, by SPIFFE ID
	total int
}

// New returns a door for the contract of the engine's session, which asks the guard, if there is one, whom this node's
// owner accepts.
func New(engine *session.Engine, guard *trust.Guard) *Door {
	return &Door{engine: engine, guard: guard, waits: map[string]int{}}
}

// Admit returns nil if the peer may take part in exchanges. A peer that the contract does not show yet is waited for.
func (d *Door) Admit(ctx context.Context, peerID, spiffeID string) error {
	if err := d.guard.Allowed(spiffeID); err != nil {
		return err
	}
	if Session(d.engine.View(), peerID) != nil {
		return Enrolled(d.engine.View(), peerID, spiffeID)
	}
	if !d.enter(spiffeID) {
		return errors.New("too many streams of unknown nodes wait")
	}
	defer d.leave(spiffeID)
	ctx, cancel := context.WithTimeout(ctx, viewWait)
	defer cancel()
	v, err := d.engine.AwaitView(ctx, func(v *round.View) bool { return Session(v, peerID) != nil })
	if err != nil {
		return errors.New("not enrolled in this contract")
	}
	return Enrolled(v, peerID, spiffeID)
}

func (d *Door) enter(spiffeID string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.total >= maxViewWaits || d.waits[spiffeID] >= maxViewWaitsPer {
		return false
	}
	d.total++
	d.waits[spiffeID]++
	return true
}

func (d *Door) leave(spiffeID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total--
	if d.waits[spiffeID]--; d.waits[spiffeID] == 0 {
		delete(d.waits, spiffeID)
	}
}
