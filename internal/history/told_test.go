package history_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/history"
	"github.com/swarmd/swarmd/internal/round"
)

// recording runs a recorder until the test ends, or stop.
func recording(t *testing.T, store *history.Store, on *sn, from history.Source) (r *history.Recorder, said *lines, stop func()) {
	t.Helper()
	said = &lines{}
	r = history.NewRecorder(store, on, from, slog.New(slog.NewTextHandler(said, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return r, said, stop
}

// lines are what was logged.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.all.String(), what)
}

// committed is a contract whose round was committed just now.
func committed(n uint64, participants ...string) *state.Contract {
	return &state.Contract{Name: "c", Run: 2, Committed: &state.CommittedRound{Round: n, Attempt: 1, Digest: fmt.Sprint("own", n), Participants: participants, PlannedMS: time.Now().UnixMilli() - 1000, CommittedMS: time.Now().UnixMilli()}}
}

func said(session string, number uint64, p round.Progress) reports.Report {
	return reports.Report{Contract: "c", Run: 2, Session: session, Node: "sl-0", Number: number, Progress: &p}
}

// TestWhatIsRepeatedIsNotCounted: a report that was overtaken, or that is repeated by who passes reports on, changes nothing.
func TestWhatIsRepeatedIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := open(t, t.TempDir(), history.Limits{})
		on := newSN()
		on.leads = true
		on.show(&state.Contract{Name: "c", Run: 2})
		r, _, _ := recording(t, store, on, sources{})
		synctest.Wait()
		r.Observe(said("s", 1, round.Progress{SentBytes: 100}))
		old := said("s", 2, round.Progress{SentBytes: 100})
		old.Ready = &round.Ready{Seq: 1}
		r.Observe(old)
		synctest.Wait()
		on.show(committed(1, "sl-0"))
		synctest.Wait()
		for range 3 {
			r.Observe(said("s", 3, round.Progress{Round: 1, Loss: 0.5, HasLoss: true, SentBytes: 300, ReceivedBytes: 30}))
			r.Observe(old)
			r.Observe(said("s", 3, round.Progress{Round: 0, Loss: 9, HasLoss: true, SentBytes: 200, ReceivedBytes: 20})) // the number does not cover progress
			synctest.Wait()
		}
		time.Sleep(10 * time.Second)
		late := said("s", 3, round.Progress{Round: 1, Loss: 0.5, HasLoss: true, SentBytes: 300, ReceivedBytes: 30})
		late.Ready = &round.Ready{Seq: 1} // of the round that was committed, as heartbeats say it until its node hears of the commit
		r.Observe(late)
		time.Sleep(5 * time.Second)
		ready := said("s", 4, round.Progress{Round: 1, Loss: 0.5, HasLoss: true, SentBytes: 300, ReceivedBytes: 30})
		ready.Ready = &round.Ready{Seq: 2, BaseRound: 1}
		r.Observe(ready)
		time.Sleep(3 * time.Second)
		on.show(committed(2, "sl-0"))
		time.Sleep(time.Second)
		got := get(t, store, "c", 2, 1)
		if p := got.Peers[0]; p.Sent == nil || *p.Sent != 200 || p.Received == nil || *p.Received != 30 || p.Loss == nil || *p.Loss != 0.5 {
			t.Errorf("round 1 has %v", got)
		}
		if got := get(t, store, "c", 2, 2); got.Waiting == nil || *got.Waiting != 2000 || got.Training == nil || *got.Training != 15_000 {
			t.Errorf("round 2: %+v", got)
		}
		// A session of before counts no more; the node that was started again begins at nothing.
		ended := committed(3, "sl-0")
		ended.Sessions = map[string]*state.Session{"s": {ID: "s", State: state.SessionEnded}, "s2": {ID: "s2"}}
		on.show(ended)
		synctest.Wait()
		r.Observe(said("s2", 9, round.Progress{SentBytes: 5}))
		r.Observe(said("s", 8, round.Progress{SentBytes: 250}))
		r.Observe(said("s2", 9, round.Progress{SentBytes: 45}))
		time.Sleep(time.Second)
		if got := get(t, store, "c", 2, 3); got.Peers[0].Sent == nil || *got.Peers[0].Sent != 40 {
			t.Errorf("round 3: %+v", got.Peers[0].Sent)
		}
	})
}

// TestNodesThatAreGoneGiveRoom: over time more nodes are heard than there may be at a time.
func TestNodesThatAreGoneGiveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := open(t, t.TempDir(), history.Limits{})
		on := newSN()
		on.leads = true
		on.show(committed(1, "sl-0"))
		r, _, _ := recording(t, store, on, sources{})
		synctest.Wait()
		hear := func(node string, loss float64) {
			report := said("s-"+node, 1, round.Progress{Round: 2, Loss: loss, HasLoss: loss > 0})
			report.Node = node
			r.Observe(report)
			synctest.Wait()
		}
		for i := range history.MaxPeers {
			hear(fmt.Sprint("old-", i), 0)
		}
		now := committed(2, "new")
		now.Sessions = map[string]*state.Session{"s-old-0": {ID: "s-old-0"}, "s-old-1": {ID: "s-old-1", State: state.SessionEnded}, "s-new": {ID: "s-new"}}
		on.show(now)
		synctest.Wait()
		hear("new", 0.5)
		time.Sleep(time.Second)
		if got := get(t, store, "c", 2, 2); got.Peers[0].Loss == nil {
			t.Errorf("%+v", got.Peers)
		}
	})
}

// TestTheExchangeIsOfTheLastAttempt: a node that has the merged model says so with each heartbeat, and again after another attempt.
func TestTheExchangeIsOfTheLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := open(t, t.TempDir(), history.Limits{})
		on := newSN()
		on.leads = true
		on.show(&state.Contract{Name: "c", Run: 2})
		r, _, _ := recording(t, store, on, sources{})
		synctest.Wait()
		done := func(attempt uint64, after time.Duration) {
			time.Sleep(after)
			said := said("s", attempt, round.Progress{})
			said.Done = &round.Done{Round: 1, Attempt: attempt}
			r.Observe(said)
		}
		done(1, 0)
		time.Sleep(5 * time.Second)
		planned := time.Now().UnixMilli()
		done(2, 2*time.Second)
		done(2, time.Second)
		done(2, 2*time.Second)
		c := committed(1, "sl-0")
		c.Committed.Attempt, c.Committed.PlannedMS = 2, planned
		on.show(c)
		time.Sleep(time.Second)
		if got := get(t, store, "c", 2, 1); got.Exchange == nil || *got.Exchange != 2000 || *got.Commit != 3000 {
			t.Errorf("%+v", got)
		}
	})
}

// TestObserveNeverWaits: while the recorder waits for a disk, reports that find no room are dropped, which is said.
func TestObserveNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := open(t, t.TempDir(), history.Limits{})
		on := newSN()
		on.hold = make(chan struct{})
		on.show(committed(5, "sl-0"))
		r, out, _ := recording(t, store, on, sources{})
		synctest.Wait()
		for range 10_000 {
			r.Observe(said("s", 1, round.Progress{}))
		}
		close(on.hold)
		time.Sleep(2 * time.Second)
		if n := out.count("curves may lack some of their figures"); n != 1 {
			t.Errorf("said %d times that reports were dropped", n)
		}
	})
}

func number(f float64) *float64 { return &f }

// TestAnotherSNIsNotBelieved beyond what nodes report: neither what can't be, nor what this SN knows by itself.
func TestAnotherSNIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := open(t, t.TempDir(), history.Limits{})
		on := newSN()
		seven, nine := uint32(7), uint32(9)
		lie := func(n uint64) *history.Round {
			return &history.Round{
				Round: n, Attempt: 66, Digest: "lie", Record: 66, Method: "lie", CommittedMS: 66, Own: true, Exchange: ms(time.Second),
				Peers: []history.Peer{{Node: "sl-0", Weight: &nine, Loss: number(math.NaN()), Metric: number(0.5), MetricName: "f1\x1b" + strings.Repeat("x", 100)}, {Node: "sl-9", Contributed: true, Weight: &nine}},
			}
		}
		many := &history.Round{Round: 4, Peers: make([]history.Peer, history.MaxPeers+1)}
		for i := range many.Peers {
			many.Peers[i].Node = fmt.Sprint("n", i)
		}
		on.show(committed(6, "sl-0"))
		_, out, _ := recording(t, store, on, sources{"": func(string, history.Query) (history.Part, bool, error) {
			return history.Part{Run: 2, Last: 99, Rounds: []*history.Round{
				{Round: 0},
				lie(2), lie(2),
				{Round: 3, Failed: make([]history.Failed, 33)},
				many,
				{Round: 5, Digest: "a b", Peers: []history.Peer{{Node: "no name"}}},
				lie(6), lie(7),
			}}, true, nil
		}})
		on.mu.Lock()
		on.ledger = records(t, ledger.Over{}, ledger.Round{Contract: "c", Run: 2, Round: 6, Attempt: 1, Model: "own6", Method: "mean", Participants: []ledger.Participant{{Node: "sl-0", Weight: 7}}})
		on.mu.Unlock()
		time.Sleep(90 * time.Second)
		got, part := rounds(t, store, "c", history.Query{})
		if !cmp.Equal(got, []uint64{2, 6}) {
			t.Fatalf("kept are %v", got)
		}
		six := part.Rounds[1]
		if six.Record != 2 || six.Method != "mean" || six.Peers[0].MetricName != "f1 "+strings.Repeat("x", 61) {
			t.Errorf("of this SN's own round: record %d, %s, metric %q", six.Record, six.Method, six.Peers[0].MetricName)
		}
		if six.Digest != "own6" || six.Attempt != 1 || six.CommittedMS == 66 || len(six.Peers) != 1 || *six.Peers[0].Weight != seven || six.Peers[0].Loss != nil {
			t.Errorf("this SN's own round is %+v", six)
		}
		if six.Exchange == nil || six.Peers[0].Metric == nil || *six.Peers[0].Metric != 0.5 {
			t.Errorf("what was reported is not taken: %+v", six)
		}
		if part.Rounds[0].Own {
			t.Error("what another SN says counts as this SN's own")
		}
		if n := out.count("out of bounds"); n < 1 || n > 2 {
			t.Errorf("said %d times that the leader is wrong: %s", n, &out.all)
		}
		if n := out.count("could not keep"); n != 0 {
			t.Errorf("%d writes have failed: %s", n, &out.all)
		}
	})
}

// TestAFailedWriteIsTriedAgain, and said once.
func TestAFailedWriteIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir() + "/history"
		store, _ := open(t, dir, history.Limits{})
		if err := os.Rename(dir, dir+"-gone"); err != nil {
			t.Fatal(err)
		}
		on := newSN()
		var asked atomic.Int32
		_, out, _ := recording(t, store, on, sources{"": func(_ string, q history.Query) (history.Part, bool, error) {
			asked.Add(1)
			return history.Part{Run: 2, Rounds: []*history.Round{{Round: 1, Digest: "theirs"}}}, true, nil
		}})
		on.show(&state.Contract{Name: "c", Run: 2})
		synctest.Wait()
		on.show(committed(2, "sl-0"))
		time.Sleep(10 * time.Second)
		on.show(committed(3, "sl-0"))
		time.Sleep(20 * time.Second)
		if n := out.count("could not keep a round's history"); n != 1 {
			t.Errorf("said %d times that nothing can be written: %s", n, &out.all)
		}
		if n := asked.Load(); n > 10 {
			t.Errorf("the leader was asked %d times for what can't be written", n)
		}
		if err := os.Rename(dir+"-gone", dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if got, _ := rounds(t, store, "c", history.Query{}); !cmp.Equal(got, []uint64{1, 2, 3}) {
			t.Errorf("kept are %v", got)
		}
		if n := out.count("is kept again"); n != 1 {
			t.Errorf("said %d times that it is kept again", n)
		}
	})
}

// TestANewLeaderAsksTheOthers for what it lacks, page by page, once each, and again who does not answer at first.
func TestANewLeaderAsksTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs, _ := open(t, t.TempDir(), history.Limits{})
		put(t, theirs, "c", 2, upTo(1200)...)
		mine, _ := open(t, t.TempDir(), history.Limits{})
		put(t, mine, "c", 2, upTo(399)...)
		if err := mine.Put("c", 2, &history.Round{Round: 400, Asked: 400}); err != nil {
			t.Fatal(err)
		}
		on := newSN()
		on.leads = true
		var mu sync.Mutex
		asked := map[string]int{}
		ask := func(name string, works func(n int) bool) func(string, history.Query) (history.Part, bool, error) {
			return func(contract string, q history.Query) (history.Part, bool, error) {
				mu.Lock()
				defer mu.Unlock()
				if asked[name]++; !works(asked[name]) {
					return history.Part{}, false, errors.New("it is down")
				}
				part, err := theirs.Read(contract, q)
				return part, true, err
			}
		}
		_, _, _ = recording(t, mine, on, sources{
			"sn-1": ask("sn-1", func(n int) bool { return n > 4 }), "sn-2": ask("sn-2", func(int) bool { return false }),
			"sn-3": func(string, history.Query) (history.Part, bool, error) { return history.Part{}, true, nil },
		})
		on.show(committed(1201, "sl-0"))
		time.Sleep(10 * time.Minute)
		got, part := rounds(t, mine, "c", history.Query{})
		if !cmp.Equal(got, upTo(1201)) || part.Rounds[1199].Peers[0].Loss == nil {
			t.Errorf("%d rounds are kept, the last is %d", len(got), got[len(got)-1])
		}
		mu.Lock()
		if asked["sn-1"] != 6 || asked["sn-2"] != 8 {
			t.Errorf("asked were %v", asked)
		}
		clear(asked)
		mu.Unlock()
		on.show(committed(1202, "sl-0"))
		time.Sleep(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(asked) != 0 {
			t.Errorf("asked again were %v", asked)
		}
	})
}

// TestPagesAreFollowedToTheEnd: an SN whose rounds are large answers with fewer than were asked for, and has all of them.
func TestPagesAreFollowedToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs, _ := open(t, t.TempDir(), history.Limits{})
		put(t, theirs, "c", 2, upTo(400)...)
		for _, leads := range []bool{true, false} {
			mine, _ := open(t, t.TempDir(), history.Limits{})
			on := newSN()
			on.leads = leads
			few := func(contract string, q history.Query) (history.Part, bool, error) {
				q.Most = 70
				part, err := theirs.Read(contract, q)
				return part, true, err
			}
			others := sources{"sn-1": few}
			if !leads {
				others = sources{"": few}
			}
			_, _, _ = recording(t, mine, on, others)
			on.show(committed(401, "sl-0"))
			time.Sleep(time.Minute)
			if got, _ := rounds(t, mine, "c", history.Query{}); !cmp.Equal(got, upTo(401)) {
				t.Errorf("leads %v: %d rounds are kept", leads, len(got))
			}
		}
	})
}

// TestALeaderThatLacksItsLastRound is not asked without a pause.
func TestALeaderThatLacksItsLastRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := open(t, t.TempDir(), history.Limits{})
		on := newSN()
		var asked atomic.Int32
		_, _, _ = recording(t, store, on, sources{"": func(string, history.Query) (history.Part, bool, error) {
			if asked.Add(1) > 1000 {
				return history.Part{}, false, nil
			}
			return history.Part{Run: 2, Last: 4, Rounds: []*history.Round{{Round: 3}}}, true, nil
		}})
		on.show(committed(5, "sl-0"))
		time.Sleep(10 * time.Minute)
		if n := asked.Load(); n > 60 {
			t.Errorf("it was asked %d times", n)
		}
	})
}

// TestWhatWasNotAskedBeforeARestart is asked after it, though the ledger has filled the gap meanwhile.
func TestWhatWasNotAskedBeforeARestart(t *testing.T) {
	theirs, _ := open(t, t.TempDir(), history.Limits{})
	put(t, theirs, "c", 2, upTo(60)...)
	var bodies []ledger.Body
	for n := uint64(1); n <= 60; n++ {
		bodies = append(bodies, ledger.Round{Contract: "c", Run: 2, Round: n, Attempt: 1, Model: "m", Participants: []ledger.Participant{{Node: "sl-0", Weight: 3}}})
	}
	all := records(t, bodies...)
	for _, leads := range []bool{true, false} {
		dir := t.TempDir()
		run := func(works bool) (part history.Part) {
			synctest.Test(t, func(t *testing.T) {
				store, _ := open(t, dir, history.Limits{})
				on := newSN()
				on.leads, on.ledger = leads, all
				_, _, stop := recording(t, store, on, sources{"sn-1": func(contract string, q history.Query) (history.Part, bool, error) {
					if !works {
						return history.Part{}, false, errors.New("it answers other SNs just now")
					}
					part, err := theirs.Read(contract, q)
					return part, true, err
				}})
				on.show(committed(60, "sl-0"))
				time.Sleep(30 * time.Second)
				stop()
				_, part = rounds(t, store, "c", history.Query{})
				store.Close()
			})
			return part
		}
		run(false)
		if part := run(true); len(part.Rounds) != 60 || part.Rounds[10].Peers[0].Loss == nil || part.Rounds[50].Peers[0].Weight == nil {
			t.Errorf("leads %v: %d rounds are kept, round 11 is %+v", leads, len(part.Rounds), part.Rounds[10])
		}
	}
}

// TestTheLedgerFillsGaps: those between what was kept and what the first look shows, and one of a contract whose records were read already.
func TestTheLedgerFillsGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := open(t, t.TempDir(), history.Limits{})
		put(t, store, "c", 2, 1, 2, 5) // 3 and 4 are missing since before
		on := newSN()
		var bodies []ledger.Body
		for n := uint64(1); n <= 9; n++ {
			for _, name := range []string{"c", "d"} {
				bodies = append(bodies, ledger.Round{Contract: name, Run: 2, Round: n, Attempt: 1, Model: fmt.Sprint("m", n), Participants: []ledger.Participant{{Node: "sl-1", Weight: 3}}})
			}
		}
		all := records(t, bodies...)
		both := func(c, d uint64, n int) {
			on.mu.Lock()
			defer on.mu.Unlock()
			on.ledger = all[:n]
			on.view = &state.State{SwarmID: "s", Ledger: &ledger.Head{Length: uint64(n)}, Contracts: map[string]*state.Contract{"c": committed(c, "sl-1"), "d": committed(d, "sl-1")}}
			close(on.changed)
			on.changed = make(chan struct{})
		}
		both(6, 6, 12)
		_, _, _ = recording(t, store, on, sources{})
		time.Sleep(time.Second)
		for _, name := range []string{"c", "d"} {
			if got, part := rounds(t, store, name, history.Query{}); !cmp.Equal(got, upTo(6)) || *part.Rounds[3].Peers[0].Weight != 3 || part.Rounds[3].Digest != "m4" {
				t.Errorf("of %s are kept %v", name, got)
			}
		}
		on.mu.Lock()
		on.hold = make(chan struct{}) // the recorder reads for a gap of c
		on.mu.Unlock()
		both(8, 7, 15)
		synctest.Wait()
		both(9, 9, 18)
		close(on.hold)
		time.Sleep(time.Second)
		for name, n := range map[string]uint64{"c": 9, "d": 9} {
			if got, _ := rounds(t, store, name, history.Query{}); !cmp.Equal(got, upTo(n)) {
				t.Errorf("of %s are kept %v", name, got)
			}
		}
	})
}
