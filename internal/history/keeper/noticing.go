package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/events"
)

const (
	// look is how often is looked what contracts wait for, and whether this SN hears of a leader.
	look = 2 * time.Second
	// unheard is how long this SN may have heard of no leader without having to catch up: of what it catches up with it does not know when it was.
	unheard = 5 * time.Second
	// hindered is for how long a contract waits for what should not last until that is told.
	hindered = 30 * time.Second
	// pullEvents is how often another SN is asked for what it has noticed; maxPullEvents one that does not answer.
	pullEvents    = 5 * time.Second
	maxPullEvents = time.Minute
	// pageEvents bounds the events of one answer to another SN.
	pageEvents = 500
)

// noticing has the events kept: what this SN sees in the state and of its leader, and what other SNs tell.
type noticing struct {
	store *events.Store
	group Group
	self  string
	log   *slog.Logger
	lead  atomic.Pointer[planner.Planner] // nil: what contracts wait for is not known

	leader string               // the last one; contact's alone
	waits  map[string]hindrance // by contract; of watch alone, as the next
	leads  bool                 // at the last tick
}

// hindrance is what keeps a contract from going on.
type hindrance struct {
	kind  planner.Kind // empty: that is not known, as an SN that led before has told it
	run   uint64
	since time.Time
	told  bool // by this SN
	owed  bool // this one or another before it was told, and not yet that it is over
}

func (n *noticing) run(ctx context.Context) error {
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return n.store.Run(ctx) })
	tasks.Go(func() error { n.watch(ctx); return nil })
	tasks.Go(func() error { n.hear(ctx); return nil })
	return tasks.Wait()
}

// Contact notes which leader this SN has. It does not block, and is called once at a time.
func (k *Keeper) Contact(c consensus.Contact) { k.noticed.contact(c) }

func (n *noticing) contact(c consensus.Contact) {
	if c.Lost != nil {
		var missing []string
		for _, v := range c.Lost.Missing {
			missing = append(missing, v.Name)
		}
		n.store.Note(events.Event{Kind: events.QuorumLost, Node: n.self, Text: fmt.Sprintf("%d of %d SNs answer it, without %s", len(c.Lost.Answer), c.Lost.Voters(), strings.Join(missing, ", "))})
		return
	}
	if c.Again {
		n.store.Note(events.Event{Kind: events.QuorumFound, Node: n.self, Text: "its leader is " + c.Leader})
	}
	said := fmt.Sprintf("term %d", c.Term)
	if n.leader != "" && n.leader != c.Leader {
		said += ", after " + n.leader
	}
	n.leader = c.Leader
	n.store.Note(events.Event{Kind: events.Leader, Node: c.Leader, Run: uint64(len(n.group.View().Recoveries)), Count: c.Term, Text: said})
}

// watch looks at each state until ctx ends.
func (n *noticing) watch(ctx context.Context) {
	var (
		asking   sync.WaitGroup
		seen     events.Watcher
		caughtUp bool
		once     bool // it was, since it began
	)
	note := func() {
		view := n.group.View()
		// An SN that leads has all that was committed before, and what comes then is new: the leader ends sessions before others hear of it.
		for _, e := range seen.Look(view, caughtUp || once && n.group.IsLeader()) {
			n.store.Note(e)
		}
	}
	defer asking.Wait()
	ask, answers := make(chan struct{}, 1), make(chan error, 1)
	ask <- struct{}{}
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		changed := n.group.Changed()
		note()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-ask:
			asking.Go(func() { answers <- n.group.Barrier(ctx) })
		case err := <-answers:
			if err != nil {
				time.AfterFunc(look, func() { ask <- struct{}{} })
				continue
			}
			note()
			caughtUp, once = true, true
		case <-tick.C:
			if caughtUp && time.Since(n.group.LeaderSeen()) > unheard {
				caughtUp = false
				ask <- struct{}{}
			}
			n.hinders(n.group.View())
		}
	}
}

// hinders notes what contracts wait for that should not last, while this SN leads.
func (n *noticing) hinders(view *state.State) {
	lead := n.lead.Load()
	if lead == nil {
		return
	}
	before := n.leads
	if n.leads = lead.Status("").Leading; !n.leads {
		clear(n.waits)
		return
	}
	if !before {
		n.inherit()
	}
	for name, was := range n.waits {
		switch c := view.Contracts[name]; {
		case c == nil:
			n.over(name, "it was deleted")
		case c.Run != was.run:
			n.over(name, "it was reset")
		case len(c.Active()) == 0:
			n.over(name, "it has no session any more")
		}
	}
	for name, c := range view.Contracts {
		if len(c.Active()) == 0 {
			continue
		}
		st := lead.Status(name)
		if !st.Leading {
			return
		}
		n.hinder(c, st.Waiting)
	}
}

// inherit takes over what SNs that led before have told and whose end they have not.
func (n *noticing) inherit() {
	list, _, _ := n.store.Newest(events.Most)
	for _, e := range slices.Backward(list) {
		switch e.Kind {
		case events.Waits:
			n.waits[e.Contract] = hindrance{run: e.Run, since: time.Now(), owed: true}
		case events.GoesOn:
			delete(n.waits, e.Contract)
		}
	}
}

// over notes that a contract does no longer wait for what it did.
func (n *noticing) over(name, why string) {
	if was := n.waits[name]; was.owed {
		n.store.Note(events.Event{Kind: events.GoesOn, Contract: name, Run: was.run, Text: why})
	}
	delete(n.waits, name)
}

// hinder notes what one contract waits for.
func (n *noticing) hinder(c *state.Contract, w planner.Waiting) {
	was, known := n.waits[c.Name]
	switch hinders := w.Kind.Hinders() && w.Kind != planner.WaitPaused; { // of a pause the ledger has a record
	case !hinders && known && was.kind == "" && time.Since(was.since) < hindered: // this SN leads since a moment ago, and does not know yet
	case !hinders:
		n.over(c.Name, "")
	case !known || was.kind != w.Kind:
		n.waits[c.Name] = hindrance{w.Kind, c.Run, time.Now(), false, was.owed}
	case !was.told && time.Since(was.since) >= hindered:
		n.store.Note(events.Event{AtMS: was.since.UnixMilli(), Kind: events.Waits, Contract: c.Name, Run: c.Run, Text: w.String()})
		was.told, was.owed = true, true
		n.waits[c.Name] = was
	}
}

// hear asks other SNs, until ctx ends, for what they have noticed.
func (n *noticing) hear(ctx context.Context) {
	type turn struct {
		at   time.Time
		wait time.Duration
	}
	turns, warned := map[string]turn{}, map[string]bool{}
	tick := time.NewTicker(pullEvents)
	defer tick.Stop()
	for {
		for sn, way := range n.group.Others() {
			if time.Now().Before(turns[sn].at) || ctx.Err() != nil {
				continue
			}
			next := turn{}
			if err := n.pull(ctx, sn, way); err != nil {
				if errors.Is(err, errRefused) && !warned[sn] {
					warned[sn] = true
					n.log.Warn("what another SN has noticed is not kept: it is out of bounds, or more than 10 minutes in the future; check the clocks of that SN and of this one, and update the older", "sn", sn, "err", err)
				} else {
					n.log.Debug("could not ask another SN for events", "sn", sn, "err", err)
				}
				next.wait = min(max(pullEvents, 2*turns[sn].wait), maxPullEvents)
				next.at = time.Now().Add(next.wait)
			}
			turns[sn] = next
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// errRefused reports events of another SN that can't be kept.
var errRefused = errors.New("events are refused")

// pull asks another SN for what it has noticed since.
func (n *noticing) pull(ctx context.Context, sn string, way http.RoundTripper) error {
	client := connect.NewClient[swarmv1.GetEventsRequest, swarmv1.GetEventsResponse](&http.Client{Transport: way}, "http://sn"+besideEvents, connect.WithReadMaxBytes(maxAnswer))
	for range events.Most / pageEvents {
		asking, cancel := context.WithTimeout(ctx, pullEvents)
		res, err := client.CallUnary(asking, connect.NewRequest(&swarmv1.GetEventsRequest{After: n.store.Heard(sn)}))
		cancel()
		if err != nil {
			return err
		}
		told := fromEvents(res.Msg.GetEvents())
		told = told[:min(len(told), pageEvents)]
		if bad := n.store.Take(sn, told); bad > 0 {
			return fmt.Errorf("%w: %d of %d", errRefused, bad, len(told))
		}
		if len(told) < pageEvents {
			break
		}
	}
	return nil
}

// Events shows what SNs have noticed, as far as this one knows.
func (k *Keeper) Events(q *swarmv1.GetEventsRequest) *swarmv1.GetEventsResponse {
	most := int(q.GetMost())
	if most == 0 {
		most = events.Most
	}
	list, older, version := k.noticed.store.Newest(most)
	if version == q.GetKnown() {
		return &swarmv1.GetEventsResponse{Version: version}
	}
	return &swarmv1.GetEventsResponse{Events: eventMessages(list), Older: uint32(min(older, math.MaxInt32)), Version: version} //nolint:gosec // it fits
}

// own shows another SN what this one has noticed itself.
func (k *Keeper) own(q *swarmv1.GetEventsRequest) *swarmv1.GetEventsResponse {
	return &swarmv1.GetEventsResponse{Events: eventMessages(k.noticed.store.Own(q.GetAfter(), pageEvents))}
}

func eventMessages(list []events.Event) (out []*swarmv1.Event) {
	for _, e := range list {
		out = append(out, &swarmv1.Event{
			Number: e.Number, AtUnixMs: e.AtMS, Kind: string(e.Kind), Node: e.Node, Contract: e.Contract, Run: e.Run, Round: e.Round, Attempt: e.Attempt, Count: e.Count,
			Text: e.Text, By: e.By,
		})
	}
	return out
}

func fromEvents(list []*swarmv1.Event) (out []events.Event) {
	for _, m := range list {
		out = append(out, events.Event{
			Number: m.GetNumber(), AtMS: m.GetAtUnixMs(), Kind: events.Kind(m.GetKind()), Node: m.GetNode(), Contract: m.GetContract(), Run: m.GetRun(), Round: m.GetRound(),
			Attempt: m.GetAttempt(), Count: m.GetCount(), Text: m.GetText(), By: m.GetBy(),
		})
	}
	return out
}
