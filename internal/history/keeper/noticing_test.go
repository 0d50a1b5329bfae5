package keeper_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/quorum"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/history/keeper"
)

// runs runs a keeper until the test stops it.
func runs(t *testing.T, k *keeper.Keeper) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// told is what a keeper shows, newest first.
func told(k *keeper.Keeper) (out []string) {
	for _, e := range k.Events(&swarmv1.GetEventsRequest{}).GetEvents() {
		out = append(out, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s by %s", e.GetKind(), e.GetNode(), e.GetContract(), e.GetText(), e.GetBy())), " "))
	}
	return out
}

// TestSNsTellEachOtherWhatTheyNoticed: another SN has it within seconds, keeps it when the first is gone, and tells it after a restart of its own; what a hostile one
// tells holds nobody up.
func TestSNsTellEachOtherWhatTheyNoticed(t *testing.T) { synctest.Test(t, snsTellEachOther) }

func snsTellEachOther(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	first := keeper.Open("sn-1", t.TempDir(), group{view: state.New()}, log)
	stopFirst, contact := runs(t, first), first.Contact
	contact(consensus.Contact{Leader: "sn-2", Term: 3})
	contact(consensus.Contact{Leader: "sn-2", Term: 3}) // the same one
	time.Sleep(time.Second)
	contact(consensus.Contact{Lost: &quorum.Error{Count: quorum.Count{Answer: []quorum.Voter{{Name: "sn-1"}}, Missing: []quorum.Voter{{Name: "sn-2"}, {Name: "sn-3"}}}}})
	time.Sleep(time.Second)
	contact(consensus.Contact{Leader: "sn-1", Term: 5, Again: true})
	if got := told(first); !slices.Equal(slices.Sorted(slices.Values(got)), []string{
		"leader sn-1 term 5, after sn-2 by sn-1", "leader sn-2 term 3 by sn-1", "quorum_found sn-1 its leader is sn-1 by sn-1",
		"quorum_lost sn-1 1 of 3 SNs answer it, without sn-2, sn-3 by sn-1",
	}) {
		t.Errorf("the first SN has %q", got)
	}

	hostile := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, strings.Repeat("no\x1b", 1000), http.StatusOK)
	})
	dir := t.TempDir()
	on := group{view: state.New(), others: map[string]http.RoundTripper{"sn-1": to{first.Beside(http.NotFoundHandler())}, "sn-3": to{hostile}, "sn-4": broken{}}}
	second := keeper.Open("sn-2", dir, on, log)
	stop := runs(t, second)
	time.Sleep(time.Minute)
	want := told(first)
	if got := told(second); !slices.Equal(got, want) {
		t.Errorf("the second SN has %q", got)
	}
	stop()
	stopFirst()
	again := keeper.Open("sn-2", dir, group{view: state.New()}, log)
	if got := told(again); !slices.Equal(got, want) {
		t.Errorf("after a restart it has %q", got)
	}
	version := again.Events(&swarmv1.GetEventsRequest{}).GetVersion()
	if got := again.Events(&swarmv1.GetEventsRequest{Known: version}); len(got.GetEvents()) != 0 || got.GetVersion() != version {
		t.Errorf("who has version %d is told %v", version, got)
	}
	runs(t, again)()
}

// broken is a way to an SN that is down.
type broken struct{}

func (broken) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("it is down") }

// leading is a group whose only SN leads.
type leading struct{ group }

func (leading) LeaderSeen() time.Time { return time.Now() }
func (leading) ProposeAsLeader(context.Context, state.Command) (state.Result, error) {
	return state.Result{}, errors.New("nothing is committed")
}

// TestAContractThatWaits for what should not last is told after half a minute, with what it waits for, and once.
func TestAContractThatWaits(t *testing.T) { synctest.Test(t, aContractThatWaits) }

func aContractThatWaits(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	view := state.New()
	view.Nodes["sl-1"] = &state.Node{Name: "sl-1", Role: "sl", PeerID: "k", Live: true, LiveSinceMS: 1}
	view.Contracts["study"] = &state.Contract{
		Name: "study", Run: 1, Terms: &state.Terms{MinPeers: 2},
		Sessions: map[string]*state.Session{"a": {ID: "a", Node: "sl-1", Run: 1, State: state.SessionOpen}},
	}
	on := leading{group{view: view}}
	lead := planner.New(planner.Config{Self: "sn-1", HeartbeatTimeout: time.Hour}, on, log)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- lead.Run(ctx) }()
	k := keeper.Open("sn-1", "", on, log)
	k.Hearing(lead)
	stopKeeper := runs(t, k)
	time.Sleep(20 * time.Second)
	if got := told(k); len(got) != 0 {
		t.Errorf("too early: %q", got)
	}
	time.Sleep(time.Minute)
	if got := told(k); len(got) != 1 || !strings.HasPrefix(got[0], "waits study waiting for 1 more peer: have sl-1; need 2 (minPeers)") {
		t.Errorf("it says %q", got)
	}
	stopKeeper()
	stop()
	<-ended
}

// changing is a group whose state, and whose leader, change.
type changing struct {
	group

	mu     sync.Mutex
	shown  *state.State
	leads  bool
	seen   bool // it hears of a leader
	change chan struct{}
	gate   chan struct{} // Barrier waits for it; nil: it does not
}

func (g *changing) View() *state.State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shown
}

func (g *changing) Changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.change
}

func (g *changing) LeaderSeen() (at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seen {
		at = time.Now()
	}
	return at
}

func (g *changing) IsLeader() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.leads
}

func (g *changing) Barrier(ctx context.Context) error {
	g.mu.Lock()
	gate := g.gate
	g.mu.Unlock()
	if gate != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-gate:
		}
	}
	return nil
}

func (*changing) ProposeAsLeader(context.Context, state.Command) (state.Result, error) {
	return state.Result{}, errors.New("nothing is committed")
}

// show changes it, and says so.
func (g *changing) show(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
	close(g.change)
	g.change = make(chan struct{})
}

// study is a state with a contract of that name, and the session of sl-1 in it.
func study(run uint64, s, why string) *state.State {
	view := state.New()
	view.Nodes["sl-1"] = &state.Node{Name: "sl-1", Role: "sl", PeerID: "k", Live: true, LiveSinceMS: 1}
	view.Contracts["study"] = &state.Contract{
		Name: "study", Run: run, Terms: &state.Terms{MinPeers: 2},
		Sessions: map[string]*state.Session{"a": {ID: "a", Node: "sl-1", Run: 1, State: s, EndReason: why}},
	}
	return view
}

// TestAContractThatWaitsNoLonger for it was reset, deleted, or has no session: that is told, by the SN that leads now.
func TestAContractThatWaitsNoLonger(t *testing.T) {
	gone := study(1, state.SessionOpen, "")
	delete(gone.Contracts, "study")
	for want, after := range map[string]*state.State{
		"it was reset by sn-1":               study(2, state.SessionEnded, state.EndReset),
		"it was deleted by sn-1":             gone,
		"it has no session any more by sn-1": study(1, state.SessionEnded, state.EndFinished),
	} {
		t.Run(want, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { waitsNoLonger(t, after, want) }) })
	}
}

func waitsNoLonger(t *testing.T, after *state.State, want string) {
	log := slog.New(slog.DiscardHandler)
	on := &changing{shown: study(1, state.SessionOpen, ""), leads: true, seen: true, change: make(chan struct{})}
	lead := planner.New(planner.Config{Self: "sn-1", HeartbeatTimeout: time.Hour}, on, log)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- lead.Run(ctx) }()
	dir := t.TempDir()
	k := keeper.Open("sn-1", dir, on, log)
	k.Hearing(lead)
	stopKeeper := runs(t, k)
	time.Sleep(time.Minute)
	if got := told(k); len(got) != 1 || !strings.HasPrefix(got[0], "waits study") {
		t.Errorf("it says %q", got)
	}
	stopKeeper() // and it is started again
	k = keeper.Open("sn-1", dir, on, log)
	k.Hearing(lead)
	stopKeeper = runs(t, k)
	time.Sleep(5 * time.Second)
	on.show(func() { on.shown = after })
	time.Sleep(time.Minute)
	var goesOn []string
	for _, e := range told(k) {
		if strings.HasPrefix(e, "goes_on") {
			goesOn = append(goesOn, e)
		}
	}
	if !slices.Equal(goesOn, []string{"goes_on study " + want}) {
		t.Errorf("it says %q", told(k))
	}
	stopKeeper()
	stop()
	<-ended
}

// TestWhatANewLeaderDoesIsNoticed: after a lost quorum it ends a session before any SN knows that it has caught up. The leader notes that, with the time; SNs
// that follow can't tell it from what was long ago, nor can one that has just been started.
func TestWhatANewLeaderDoesIsNoticed(t *testing.T) {
	for _, tt := range []struct {
		name           string
		leads, started bool
		want           int
	}{{"leader", true, false, 1}, {"follower", false, false, 0}, {"leader that was just started", true, true, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newLeaderIsNoticed(t, tt.leads, tt.started, tt.want) })
		})
	}
}

func newLeaderIsNoticed(t *testing.T, leads, started bool, want int) {
	gate := make(chan struct{})
	on := &changing{shown: study(1, state.SessionOpen, ""), seen: !started, change: make(chan struct{})}
	if started {
		on.gate = gate
	}
	k := keeper.Open("sn-1", "", on, slog.New(slog.DiscardHandler))
	stop := runs(t, k)
	time.Sleep(time.Minute)
	on.show(func() { on.seen, on.gate = false, gate })
	time.Sleep(time.Minute)
	on.show(func() { on.leads = leads })
	time.Sleep(time.Second)
	on.show(func() { on.seen, on.shown = true, study(1, state.SessionEnded, state.EndLost) })
	at := time.Now()
	time.Sleep(time.Second)
	close(gate)
	time.Sleep(time.Minute)
	got := k.Events(&swarmv1.GetEventsRequest{}).GetEvents()
	if len(got) != want || want > 0 && (got[0].GetKind() != "session_failed" || got[0].GetAtUnixMs() != at.UnixMilli()) {
		t.Errorf("it says %v", got)
	}
	stop()
}

// TestAClockThatIsAhead: what an SN tells of the future is not kept, which is warned of once.
func TestAClockThatIsAhead(t *testing.T) { synctest.Test(t, aClockThatIsAhead) }

func aClockThatIsAhead(t *testing.T) {
	ahead := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		data, err := proto.Marshal(&swarmv1.GetEventsResponse{Events: []*swarmv1.Event{{Number: 7, AtUnixMs: time.Now().Add(time.Hour).UnixMilli(), Kind: "silent", Node: "sl-1"}}})
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/proto")
		_, _ = w.Write(data)
	})
	var said bytes.Buffer
	on := group{view: state.New(), others: map[string]http.RoundTripper{"sn-2": to{ahead}, "sn-3": to{ahead}, "sn-4": broken{}}}
	k := keeper.Open("sn-1", "", on, slog.New(slog.NewTextHandler(&said, nil)))
	stop := runs(t, k)
	time.Sleep(time.Hour / 2)
	stop()
	if log := said.String(); strings.Count(log, "level=WARN") != 2 || strings.Count(log, "sn=sn-2") != 1 || !strings.Contains(log, "check the clocks") || len(told(k)) != 0 {
		t.Errorf("it has %q, and said %s", told(k), log)
	}
}
