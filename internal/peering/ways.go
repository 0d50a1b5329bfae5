package peering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/swarmd/swarmd/internal/reach"
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
	by       map[string]*way // by session of the other
}

// way is what is known of the way to one other.
type way struct {
	target
	before bool      // a connection has stood
	linked bool      // one stands now
	busy   bool      // a connection is being made
	due    time.Time // when to try next; zero: not tried yet
	tries  int       // in vain, one after the other
	failed *reach.Error
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
	mine := ownPeerID(v, w.Self)
	there := map[string]*way{}
	next = waysLook
	for _, m := range v.Sessions {
		if m.State == "ended" || m.Node == w.Self || !m.Live || m.Host == "" || len(there) == maxWays {
			continue
		}
		if err := w.Links.Guard.Peer(m); err != nil { // an SN's word alone has nobody dialled
			if errors.Is(err, trust.ErrUnknown) {
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
	w.contract, w.by = v.Name, there
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
		x.before, x.tries = true, 0
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
	w.known(x)
	if err != nil && ctx.Err() == nil && x.tries == 1 {
		w.Log.Info("no connection with another SL", "peer", x.node, "err", err)
	}
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
		if w.known(x); x.failed != nil {
			all = append(all, round.Unreached{
				Node: x.node, Address: shownAddress(x.failed.HostPort), Cause: x.failed.Cause, Linked: x.linked, Before: x.before,
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

// maxWarnings bounds what is said of ways along with the node's health.
const maxWarnings = 4

// warnings are for people who look at the node's health: which ports are shut before it.
func (w *Ways) warnings() []string {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	contract := w.contract
	w.mu.Unlock()
	var out []string
	for _, u := range w.Unreached(contract) {
		if len(out) == maxWarnings {
			break
		}
		text := fmt.Sprintf("cannot open %s (TCP) of %s: %s", u.Address, u.Node, u.Cause)
		if u.Linked {
			text += "; the connection that " + u.Node + " has opened is used instead"
		} else {
			text += ", and there is no connection of its making; check: swarmctl identity check " + u.Address
		}
		out = append(out, text)
	}
	return out
}

// shownAddress bounds an address as reports do.
func shownAddress(hostport string) string { return text.Printable(text.Cut(hostport, 300), ' ') }

// ownPeerID is the peer ID of a node's session in the view.
func ownPeerID(v *round.View, self string) string {
	for _, m := range v.Sessions {
		if m.Node == self {
			return m.PeerID
		}
	}
	return ""
}

// sameOthers reports whether two views show the same sessions, at the same addresses.
func sameOthers(a, b *round.View) bool {
	return a.Name == b.Name && slices.EqualFunc(a.Sessions, b.Sessions, func(x, y *round.Session) bool {
		return x.ID == y.ID && x.Live == y.Live && x.State == y.State && x.SPIFFEID == y.SPIFFEID && x.Host == y.Host && x.FSPort == y.FSPort
	})
}
