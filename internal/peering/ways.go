package peering

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/reach"
	"github.com/swarmd/swarmd/internal/reach/pairs"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/internal/trust"
)

const (
	// waysLook is how often the ways are looked at when nothing is due.
	waysLook = 5 * time.Second
	// secondTurn is how long the one of two with the larger peer ID waits for the other's connection, so that they need not make two.
	secondTurn = time.Second
	// mostWait bounds the pause between two tries to reach a peer: an opened port is found within it.
	mostWait = 10 * time.Second
	// linking bounds the connections that are made at a time.
	linking = 4
	// maxWays bounds the others of a contract with whom connections are kept.
	maxWays = 256
	// waysJudged is when to look again at sessions whose registrations are about to be judged.
	waysJudged = 100 * time.Millisecond
)

// Ways keeps a connection with each other SL of the contract, whichever of the two makes it, and knows which can't be reached: so what one
// opens to another later, streams of merges and fetches of models, finds a way also where only the other can dial.
type Ways struct {
	Links Links
	Self  string // this node's name
	Log   *slog.Logger

	mu       sync.Mutex // guards what follows
	contract string
	taking   bool              // this node's session takes part in it
	by       map[string]*way   // by session of the other
	refused  map[string]string // why this node takes no part with another, by its name; empty: that is not judged yet
	more     uint32            // others beyond maxWays
}

// way is what is known of the way to one other.
type way struct {
	target
	before bool      // a connection has stood
	linked bool      // one stands now
	busy   bool      // a connection is being made
	due    time.Time // when to try next; zero: not tried yet
	tries  int       // in vain, one after the other
	failed reach.Failure
	answer reach.Failure // what the other's address gives as an answer instead of a connection; nothing while one stands
}

// Views is where the newest view of the session's contract comes from, which is a *session.Engine.
type Views interface {
	View() *round.View
	AwaitView(ctx context.Context, ok func(*round.View) bool) (*round.View, error)
}

// Run keeps the ways until ctx ends, and returns nil.
func (w *Ways) Run(ctx context.Context, views Views) error {
	var dials sync.WaitGroup
	defer dials.Wait()
	room := make(chan struct{}, linking)
	woken := make(chan struct{}, 1)
	for ctx.Err() == nil {
		seen := views.View()
		due, next := w.look(seen, time.Now())
		for _, x := range due {
			dials.Go(func() {
				w.link(ctx, room, x)
				select {
				case woken <- struct{}{}:
				default:
				}
			})
		}
		await(ctx, next, woken, func(ctx context.Context) {
			_, _ = views.AwaitView(ctx, func(v *round.View) bool { return !sameOthers(seen, v) })
		})
	}
	return nil
}

// await runs what blocks until its context ends, at the latest after a while or when woken.
func await(ctx context.Context, most time.Duration, woken <-chan struct{}, what func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, most)
	var waker sync.WaitGroup
	defer waker.Wait()
	defer cancel() // before it
	waker.Go(func() {
		select {
		case <-woken:
			cancel()
		case <-ctx.Done():
		}
	})
	what(ctx)
}

// look brings what is known up to date with the view, and returns to whom to make a connection now, and when to look again.
func (w *Ways) look(v *round.View, now time.Time) (due []*way, next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mine, taking := ownSession(v, w.Self)
	there, refused, more := map[string]*way{}, map[string]string{}, uint32(0)
	next = waysLook
	for _, m := range v.Sessions {
		if m.State == "ended" || m.Node == w.Self || !m.Live || m.Host == "" {
			continue
		}
		if len(there)+len(refused) == maxWays {
			more++
			continue
		}
		if err := w.Links.Guard.Peer(m); err != nil { // an SN's word alone has nobody dialled
			refused[m.Node] = strings.TrimPrefix(err.Error(), m.Node+": ")
			if errors.Is(err, trust.ErrUnknown) {
				refused[m.Node] = "" // not yet
				next = min(next, waysJudged)
			}
			continue
		}
		to, x := target{m.Node, m.SPIFFEID, m.PeerID, m.Host, m.FSPort}, w.by[m.ID]
		if x == nil || x.target != to {
			x = &way{target: to, due: now}
			if mine > m.PeerID {
				x.due = now.Add(secondTurn)
			}
		}
		there[m.ID] = x
		if w.known(x); x.linked || x.busy {
			continue
		}
		if wait := x.due.Sub(now); wait > 0 {
			next = min(next, wait)
			continue
		}
		x.busy = true
		due = append(due, x)
	}
	w.contract, w.taking, w.by, w.refused, w.more = v.Name, taking, there, refused, more
	return due, next
}

// known asks the host for what it knows of a way, also of what merges have dialled. The caller holds mu.
func (w *Ways) known(x *way) {
	a, err := addr(x.peerID, x.host, x.port)
	if err != nil {
		return // An SN has checked it when the node registered.
	}
	r := w.Links.Host.Reach(a, w.Links.fits(x.target))
	x.linked, x.failed = r.Linked, r.Failed
	if r.Linked {
		x.before, x.tries, x.answer = true, 0, reach.Failure{}
	}
}

// link makes a connection, when there is room.
func (w *Ways) link(ctx context.Context, room chan struct{}, x *way) {
	select {
	case room <- struct{}{}:
	case <-ctx.Done():
		return
	}
	a, err := addr(x.peerID, x.host, x.port)
	if err == nil {
		err = w.Links.Host.Link(ctx, a, w.Links.fits(x.target))
	}
	<-room
	w.mu.Lock()
	defer w.mu.Unlock()
	x.busy = false
	// Also where it succeeded: a peer that hangs up at once is not dialled without pause.
	x.due = time.Now().Add(min(mostWait, time.Second<<min(x.tries, 8)))
	x.tries++
	if ctx.Err() == nil {
		x.answered(a, err, time.Now())
	}
	w.known(x)
	if err != nil && ctx.Err() == nil && x.tries == 1 {
		w.Log.Info("no connection with another SL", "peer", x.node, "err", err)
	}
}

// answered notes what a try came to that was neither a connection nor an address that could not be dialled.
func (x *way) answered(a p2p.Addr, err error, now time.Time) {
	if dial := (*reach.Error)(nil); err == nil || errors.As(err, &dial) {
		x.answer = reach.Failure{}
		return
	}
	if x.answer.Err == nil {
		x.answer.Since = now
	}
	said := strings.TrimPrefix(err.Error(), fmt.Sprintf("dial %s: ", a))
	x.answer.Err, x.answer.At = &reach.Error{HostPort: address.Join(x.host, int(x.port)), Cause: said, Err: err}, now
}

// Unreached is session.Config's: those that this node could not dial, and that it has no connection with first. What somebody else has answered, such as
// a node of another key, is no way that is shut.
func (w *Ways) Unreached(contract string) []round.Unreached {
	w.mu.Lock()
	defer w.mu.Unlock()
	if contract != w.contract {
		return nil
	}
	var all []round.Unreached
	for _, x := range w.by {
		if w.known(x); x.failed.Err != nil {
			all = append(all, round.Unreached{
				Node: x.node, Address: shownAddress(x.failed.Err.HostPort), Cause: x.failed.Err.Cause, Linked: x.linked, Before: x.before,
			})
		}
	}
	slices.SortFunc(all, func(a, b round.Unreached) int {
		if a.Linked != b.Linked {
			if b.Linked {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Node, b.Node)
	})
	return all[:min(len(all), round.MaxUnreached)]
}

// Report is what is told to others of the ways: those that are not well. The caller bounds it.
func (w *Ways) Report() *swarmv1.NodeLinks {
	w.mu.Lock()
	defer w.mu.Unlock()
	out, now := &swarmv1.NodeLinks{More: w.more}, time.Now()
	if !w.taking {
		return out
	}
	out.Contract = w.contract
	for _, x := range w.by {
		switch w.known(x); {
		case x.linked && pairs.Forgotten(x.failed, now):
		case x.failed.Err != nil:
			out.Links = append(out.Links, pairs.Failed(x.node, x.linked, x.failed, now))
		case x.answer.Err != nil:
			out.Links = append(out.Links, pairs.Failed(x.node, x.linked, x.answer, now))
		case !x.linked:
			out.Links = append(out.Links, &swarmv1.NodeLink{Node: x.node})
		}
	}
	for name, why := range w.refused {
		out.Links = append(out.Links, &swarmv1.NodeLink{Node: name, Refused: why != "", Cause: why})
	}
	return out
}

// shownAddress bounds an address as reports do.
func shownAddress(hostport string) string { return text.Printable(text.Cut(hostport, 300), ' ') }

// ownSession is the peer ID of a node's session in the view, and whether that session takes part.
func ownSession(v *round.View, self string) (peerID string, taking bool) {
	for _, m := range v.Sessions {
		if m.Node == self {
			peerID = cmp.Or(peerID, m.PeerID)
			taking = taking || m.State != "ended"
		}
	}
	return peerID, taking
}

// sameOthers reports whether two views show the same sessions, at the same addresses.
func sameOthers(a, b *round.View) bool {
	return a.Name == b.Name && slices.EqualFunc(a.Sessions, b.Sessions, func(x, y *round.Session) bool {
		return x.ID == y.ID && x.Live == y.Live && x.State == y.State && x.SPIFFEID == y.SPIFFEID && x.Host == y.Host && x.FSPort == y.FSPort
	})
}
