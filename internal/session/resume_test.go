package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/merge"
)

const floats = 2

// restarted is a node whose daemon is killed and started again while its program lives on.
type restarted struct {
	t      *testing.T
	dir    string
	w      *ledSwarm
	files  map[string]*memory // the weight files, which outlive the daemon
	killAt int                // the event at which the daemon dies; 0: never

	mu          sync.Mutex
	events      int
	incarnation *incarnation
	signed      map[[2]uint64]int // the last incarnation that took part in an attempt, by round and number
	fresh       chan struct{}     // closed and replaced when a new incarnation has begun
	old         sync.WaitGroup

	numbers map[string]uint64 // of the last report, by session
}

// incarnation is one daemon. It reaches the swarm until it is killed.
type incarnation struct {
	*restarted
	number int
	engine *session.Engine
	cancel context.CancelFunc
	dead   bool
	spoke  bool // it has reported
}

func newRestarted(t *testing.T, w *ledSwarm, killAt int) *restarted {
	l := &restarted{t: t, dir: t.TempDir(), w: w, killAt: killAt, files: map[string]*memory{}, signed: map[[2]uint64]int{}, fresh: make(chan struct{}), numbers: map[string]uint64{}}
	for _, name := range []string{"local", "merged-0", "merged-1"} {
		l.files[name] = &memory{make([]byte, 4*floats)}
	}
	l.begin(0)
	t.Cleanup(func() {
		l.current().cancel()
		l.old.Wait()
	})
	return l
}

func (l *restarted) record(number int) string {
	return filepath.Join(l.dir, fmt.Sprintf("session-%d.json", number))
}

// begin starts a daemon on what the one before has left.
func (l *restarted) begin(number int) {
	n := &incarnation{restarted: l, number: number}
	log := slog.New(slog.DiscardHandler)
	journal := session.OpenJournal(l.record(number), log)
	open := func(turn int) (models.Slots, error) { return &turning{files: l.files, turn: turn}, nil }
	n.engine = session.New(session.Config{
		Peer: "me", Control: n, Explainer: n, Exchange: n, Log: log, Journal: journal, Isolation: "container, no network",
		Swarm:    func() string { return l.w.name },
		Sign:     func(msg []byte) ([]byte, error) { return msg[:8], nil },
		NewSlots: func(int64) (models.Slots, error) { return open(0) },
		OpenSlots: func(_ int64, local, committed string) (models.Slots, error) {
			if local != "local" {
				return nil, fmt.Errorf("no %s here", local)
			}
			return open(slices.Index([]string{"", "merged-0", "merged-1"}, committed))
		},
	})
	if rec := journal.Record(); rec.Session != nil {
		n.engine.Resume(rec.Session)
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	n.cancel = cancel
	l.old.Go(func() { _ = n.engine.Run(ctx) }) // never fails
	<-n.engine.Running()
	l.mu.Lock()
	l.incarnation = n
	close(l.fresh)
	l.fresh = make(chan struct{})
	l.mu.Unlock()
}

func (l *restarted) current() *incarnation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.incarnation
}

// step counts an event, kills the daemon at the chosen one, and reports whether this daemon is dead.
func (n *incarnation) step(ctx context.Context) error {
	n.mu.Lock()
	n.events++
	dies := n.events == n.killAt
	if dies {
		n.dead = true
		b, err := os.ReadFile(n.record(n.number)) // what lies on disk at this moment
		if err == nil {
			err = os.WriteFile(n.record(n.number+1), b, 0o600)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			n.t.Error(err)
		}
	}
	dead := n.dead
	n.mu.Unlock()
	if dies {
		n.cancel()
		n.old.Go(func() {
			time.Sleep(3 * time.Second) // as a supervisor takes
			n.begin(n.number + 1)
		})
	}
	if dead {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (n *incarnation) Open(ctx context.Context, req *round.Open) (*round.View, error) {
	if err := n.step(ctx); err != nil {
		return nil, err
	}
	v, err := n.w.Open(ctx, req)
	return v, errors.Join(err, n.step(ctx))
}

func (n *incarnation) Close(ctx context.Context, req round.Close) (*round.View, error) {
	if err := n.step(ctx); err != nil {
		return nil, err
	}
	v, err := n.w.Close(ctx, req)
	return v, errors.Join(err, n.step(ctx))
}

func (n *incarnation) End(ctx context.Context, req round.End) error {
	if err := n.step(ctx); err != nil {
		return err
	}
	return errors.Join(n.w.End(ctx, req), n.step(ctx))
}

func (n *incarnation) Report(ctx context.Context, r *round.Report) (round.Answer, error) {
	if err := n.step(ctx); err != nil {
		return round.Answer{}, err
	}
	if r.Session != "" { // a leader drops what is older than what it has heard
		n.mu.Lock()
		first := !n.spoke
		if last := n.numbers[r.Session]; r.Number < last || first && r.Number == last {
			n.t.Errorf("incarnation %d of the daemon numbers a report %d, after %d", n.number, r.Number, last)
		}
		n.numbers[r.Session], n.spoke = r.Number, true
		n.mu.Unlock()
	}
	res, err := n.w.Report(ctx, r)
	return res, errors.Join(err, n.step(ctx))
}

func (n *incarnation) Watch(ctx context.Context, contract string, fn func(*round.View)) error {
	return n.w.Watch(ctx, contract, func(v *round.View) {
		if n.step(ctx) == nil {
			fn(v)
		}
	})
}

func (n *incarnation) Waiting(ctx context.Context, c string) (string, error) {
	return n.w.Waiting(ctx, c)
}
func (n *incarnation) Forget(string)              {}
func (n *incarnation) Traffic() (uint64, uint64)  { return 0, 0 }
func (n *incarnation) Planned(session.Job) string { return "plan" }

func (n *incarnation) VerifySeals(job session.Job) *round.Failed { return n.w.VerifySeals(job) }

func (n *incarnation) Merge(ctx context.Context, job session.Job) (*round.Done, *round.Failed) {
	n.signs([2]uint64{job.Plan.Round, job.Plan.Attempt})
	b := make([]byte, job.Layout.Bytes())
	_, _ = job.Source.ReadAt(b, 0)
	half := len(b) / 2
	for _, at := range []int{0, half} { // a daemon can die in the middle of it
		if n.step(ctx) != nil {
			return nil, nil
		}
		_, _ = job.Merging.WriteAt(b[at:at+half], int64(at))
	}
	if n.step(ctx) != nil {
		return nil, nil
	}
	return &round.Done{Round: job.Plan.Round, Attempt: job.Plan.Attempt, ModelDigest: digestOf(b)}, nil
}

// signs notes that this incarnation takes part in an attempt, and what it is given by then it signs.
func (n *incarnation) signs(attempt [2]uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead { // a killed process would not have come here
		return
	}
	if before, ok := n.signed[attempt]; ok && before != n.number {
		n.t.Errorf("attempt %d of round %d: incarnation %d takes part, and incarnation %d did", attempt[1], attempt[0], n.number, before)
	}
	n.signed[attempt] = n.number
}

func (n *incarnation) Fetch(ctx context.Context, from *round.Session, m round.Ref, bytes int64, dst io.WriterAt) error {
	if err := n.step(ctx); err != nil {
		return err
	}
	return n.w.Fetch(ctx, from, m, bytes, dst)
}

// turning are the weight files as one daemon uses them.
type turning struct {
	files map[string]*memory
	turn  int // 0: nothing is committed, 1: merged-0 is, 2: merged-1
}

func (s *turning) Local() models.Slot { return s.files["local"] }
func (s *turning) LocalName() string  { return "local" }
func (s *turning) Merging() models.Slot {
	return s.files[[]string{"merged-0", "merged-1", "merged-0"}[s.turn]]
}

func (s *turning) Committed() models.Slot {
	return s.files[[]string{"", "merged-0", "merged-1"}[s.turn]]
}

func (s *turning) Merged(string) {}

func (s *turning) Commit() string {
	s.turn = []int{1, 2, 1}[s.turn]
	return []string{"", "merged-0", "merged-1"}[s.turn]
}
func (s *turning) Close() error { return nil }

// ledSwarm is a swarm whose leader plans and commits by itself.
type ledSwarm struct {
	*swarm
	isolation string
	name      string // as the node names it
}

func (w *ledSwarm) Open(_ context.Context, req *round.Open) (*round.View, error) {
	w.update(func(v *round.View) {
		w.isolation = req.Isolation
		v.Sessions = []*round.Session{
			{ID: req.Session, Node: "me", Live: true, State: "open"},
			{ID: "other", Node: "other", Live: true, State: "open"},
		}
	})
	return w.now(), nil
}

func (w *ledSwarm) End(ctx context.Context, req round.End) error {
	w.update(func(v *round.View) {
		for _, s := range v.Sessions { // the other node has finished too
			s.State, s.EndReason = "ended", req.Reason
		}
	})
	return w.swarm.End(ctx, req)
}

func (w *ledSwarm) Report(ctx context.Context, r *round.Report) (round.Answer, error) {
	v := w.now()
	if r.Session == "" || len(v.Sessions) == 0 || v.Sessions[0].ID != r.Session {
		return round.Answer{}, nil
	}
	switch {
	case r.Done != nil && v.Plan != nil && r.Done.Round == v.Plan.Round:
		w.update(func(v *round.View) {
			commit(v, r.Done.Round, v.Plan.Participants[0].Seq, r.Done.ModelDigest)
			v.Committed.Attempt = r.Done.Attempt
			v.Plan = nil
			v.Over = v.Sessions[0].State == "closed"
		})
	case r.Failed != nil && v.Plan != nil && r.Failed.Round == v.Plan.Round && r.Failed.Attempt == v.Plan.Attempt:
		w.update(func(v *round.View) {
			plan(v, v.Plan.Round, v.Plan.Attempt+1, v.Plan.Participants[0].Seq)
		})
	case r.Ready != nil && v.Plan == nil && !v.Over && r.Ready.BaseRound == v.Committed.Round:
		w.update(func(v *round.View) {
			plan(v, v.Committed.Round+1, 1, r.Ready.Seq)
		})
	}
	return w.swarm.Report(ctx, r)
}

// call makes a program's call until a daemon has answered it.
func call[T any](l *restarted, fn func(ctx context.Context, e *session.Engine) (T, error)) (T, error) {
	for {
		l.mu.Lock()
		n, fresh := l.incarnation, l.fresh
		l.mu.Unlock()
		poll, cancel := context.WithTimeout(l.t.Context(), 20*time.Second)
		v, err := fn(poll, n.engine)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			continue
		}
		l.mu.Lock()
		dead := n.dead
		l.mu.Unlock()
		if !dead {
			return v, err
		}
		select { // what a dead daemon has to say nobody hears
		case <-fresh:
		case <-l.t.Context().Done():
			return v, err
		}
	}
}

// train is the program: three syncs, then the end. It returns the digests that it was given.
func train(t *testing.T, l *restarted) []string {
	t.Helper()
	layout, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{floats}}})
	if err != nil {
		t.Fatal(err)
	}
	opened, err := call(l, func(ctx context.Context, e *session.Engine) (*session.Opened, error) {
		return e.Open(ctx, round.Open{
			Contract: "c", Terms: round.Terms{MinPeers: 1, Method: "mean"}, SyncFrequency: 4, CheckinMode: "snapshot", Weight: 1,
		}, layout)
	})
	if err != nil {
		t.Fatal("open:", err)
	}
	var digests []string
	take := func(what string, r *wire.SyncResponse, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		f := l.files[r.Slot]
		if f == nil || digestOf(f.b) != r.Digest {
			t.Fatalf("%s: slot %q does not hold the model of round %d", what, r.Slot, r.Round)
		}
		digests = append(digests, fmt.Sprintf("%d %s", r.Round, r.Digest))
	}
	for seq := uint64(1); seq <= 3; seq++ {
		copy(l.files["local"].b, fmt.Sprintf("%d---%d--", seq, seq))
		r, err := call(l, func(ctx context.Context, e *session.Engine) (*wire.SyncResponse, error) {
			return e.Sync(ctx, opened.Session, seq, 1)
		})
		take(fmt.Sprintf("sync %d", seq), r, err)
		_, err = call(l, func(_ context.Context, e *session.Engine) (any, error) {
			return nil, e.Report(opened.Session, round.Progress{Round: r.Round, Loss: 0.5, HasLoss: true})
		})
		if err != nil {
			t.Fatal("report:", err)
		}
		time.Sleep(time.Second)
	}
	copy(l.files["local"].b, "the  end")
	r, err := call(l, func(ctx context.Context, e *session.Engine) (*wire.SyncResponse, error) {
		return e.Close(ctx, opened.Session, "")
	})
	take("close", r, err)
	return digests
}

// TestDaemonKilledAtEveryStep: wherever the daemon dies, the next one takes the session up and the program is given the very
// models that it would have been given.
func TestDaemonKilledAtEveryStep(t *testing.T) {
	var want []string
	steps, killed := 0, 0
	once := func(t *testing.T, killAt int) {
		synctest.Test(t, func(t *testing.T) {
			w := &ledSwarm{swarm: newSwarm()}
			l := newRestarted(t, w, killAt)
			got := train(t, l)
			if _, err := call(l, func(ctx context.Context, e *session.Engine) (any, error) { return nil, e.Linger(ctx) }); err != nil {
				t.Errorf("linger: %v", err)
			}
			if o, err := l.current().engine.Outcome(); o != session.Finished || w.told() != "finished" {
				t.Errorf("outcome %v, %v, the contract was told %q", o, err, w.told())
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if want == nil {
				want, steps = got, l.events
			}
			if !slices.Equal(got, want) {
				t.Errorf("got models\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if w.isolation != "container, no network" {
				t.Errorf("isolation %q", w.isolation)
			}
			killed += l.incarnation.number
		})
	}
	once(t, 0)
	if len(want) != 4 || steps < 20 {
		t.Fatalf("%d events gave %v", steps, want)
	}
	for killAt := 1; killAt <= steps; killAt++ {
		t.Run(fmt.Sprint(killAt), func(t *testing.T) { once(t, killAt) })
	}
	if killed < steps*3/4 { // how many events there are depends on how goroutines take turns
		t.Errorf("in %d of %d runs the daemon was not killed", steps-killed, steps)
	}
}

// recorded is a session that was left after its first round.
func recorded(t *testing.T, w *ledSwarm) (*restarted, *session.Saved, *wire.SyncResponse) {
	t.Helper()
	l := newRestarted(t, w, 0)
	layout, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{floats}}})
	if err != nil {
		t.Fatal(err)
	}
	e := l.current().engine
	opened, err := e.Open(t.Context(), round.Open{Contract: "c", Terms: round.Terms{MinPeers: 1, Method: "mean"}, SyncFrequency: 4, CheckinMode: "snapshot", Weight: 1}, layout)
	if err != nil {
		t.Fatal(err)
	}
	copy(l.files["local"].b, "round  1")
	r, err := e.Sync(t.Context(), opened.Session, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(l.record(0))
	if err != nil {
		t.Fatal(err)
	}
	l.kill(b)
	rec, err := session.ParseRecord(b)
	if err != nil {
		t.Fatal(err)
	}
	return l, rec.Session, r
}

// kill ends the daemon and leaves b to the next one.
func (l *restarted) kill(b []byte) {
	l.t.Helper()
	n := l.current()
	l.mu.Lock()
	n.dead = true
	l.mu.Unlock()
	n.cancel()
	l.old.Wait()
	if err := os.WriteFile(l.record(n.number+1), b, 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// TestChangedModelIsFetchedAgain: what lies in the weight file is held to the record.
func TestChangedModelIsFetchedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &ledSwarm{swarm: newSwarm()}
		l, rec, first := recorded(t, w)
		w.models[first.Digest] = []byte("round  1")
		copy(l.files[first.Slot].b, "tampered")
		l.begin(1)
		r, err := l.current().engine.Sync(t.Context(), rec.ID, 1, 1)
		if err != nil || r.Digest != first.Digest || digestOf(l.files[r.Slot].b) != first.Digest {
			t.Errorf("got %+v, %v, want the model of round 1 again", r, err)
		}
	})
}

func TestResetWhileTheDaemonWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &ledSwarm{swarm: newSwarm()}
		l, rec, _ := recorded(t, w)
		w.update(func(v *round.View) { v.Run, v.Sessions, v.Committed = 2, nil, state.CommittedRound{} })
		l.begin(1)
		_, err := l.current().engine.Sync(t.Context(), rec.ID, 2, 1)
		if own, ok := errors.AsType[*session.Error](err); !ok || own.Code != "RESET" {
			t.Errorf("got %v, want RESET", err)
		}
	})
}

// TestTakenUpAndLostByTheSNs: SNs that were restored from a backup, or recovered from one that lagged, do not know a session that was taken
// up. It is opened anew, as any other is.
func TestTakenUpAndLostByTheSNs(t *testing.T) {
	lost := func(index uint64) func(w *ledSwarm) {
		return func(w *ledSwarm) {
			w.update(func(v *round.View) { v.Index, v.Sessions, v.Plan = index, nil, nil })
		}
	}
	for _, tt := range []struct {
		name           string
		away, there    func(w *ledSwarm)
		before, after  string // the swarm, as the node names it
		opened, closed bool
	}{
		{"restored once it was adopted", nil, lost(1 << 40), "s", "s", true, false},
		{"recovered once it was adopted", nil, lost(1), "s", "s.2.x", true, false},
		{"recovered while the daemon was away", lost(1), nil, "s", "s.2.x", true, false},
		{"ended while the daemon was away", lost(1 << 40), nil, "s", "s", false, true},
		{"an SN that lags", lost(1), nil, "s", "s", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &ledSwarm{swarm: newSwarm()}
				w.name = tt.before
				l, rec, _ := recorded(t, w)
				if tt.away != nil {
					tt.away(w)
				}
				w.name = tt.after
				l.begin(1)
				time.Sleep(time.Second)
				if tt.there != nil {
					tt.there(w)
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
				_, err := l.current().engine.Outcome()
				own, ended := errors.AsType[*session.Error](err)
				if ended = ended && own.Code == "SESSION_ENDED"; ended != tt.closed {
					t.Errorf("outcome: %v; want it ended: %t", err, tt.closed)
				}
				opened := slices.ContainsFunc(w.now().Sessions, func(m *round.Session) bool { return m.ID == rec.ID && m.State == "open" })
				if opened != tt.opened {
					t.Errorf("open: %t, want %t", opened, tt.opened)
				}
			})
		})
	}
}

// TestDeletedWhileTheDaemonWasAway: no SN knows the contract any more.
func TestDeletedWhileTheDaemonWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &ledSwarm{swarm: newSwarm()}
		l, rec, _ := recorded(t, w)
		w.remove()
		l.begin(1)
		_, err := l.current().engine.Sync(t.Context(), rec.ID, 2, 1)
		if own, ok := errors.AsType[*session.Error](err); !ok || own.Code != "DELETED" || own.Help == "" {
			t.Errorf("got %v, want DELETED and what to do", err)
		}
	})
}

func TestForgottenWhileTheDaemonWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &ledSwarm{swarm: newSwarm()}
		l, rec, _ := recorded(t, w)
		w.update(func(v *round.View) { v.Sessions = v.Sessions[1:] })
		l.begin(1)
		_, err := l.current().engine.Sync(t.Context(), rec.ID, 2, 1)
		if own, ok := errors.AsType[*session.Error](err); !ok || own.Code != "SESSION_ENDED" {
			t.Errorf("got %v, want SESSION_ENDED", err)
		}
	})
}

// TestFinishedSessionsAreReadAgain: a node that has finished is started as often as one likes, though its weight files went with its program,
// and its contract too.
func TestFinishedSessionsAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &ledSwarm{swarm: newSwarm()}
		l := newRestarted(t, w, 0)
		train(t, l)
		synctest.Wait()
		b, err := os.ReadFile(l.record(0))
		if err != nil {
			t.Fatal(err)
		}
		l.current().cancel()
		l.old.Wait()
		if err := os.WriteFile(l.record(1), []byte(strings.Replace(string(b), `"local":"local"`, `"local":"/elsewhere/local"`, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		w.remove()
		l.begin(1)
		if err := l.current().engine.Linger(t.Context()); err != nil {
			t.Errorf("linger: %v", err)
		}
		synctest.Wait()
		if b, err = os.ReadFile(l.record(1)); err != nil {
			t.Fatal(err)
		}
		if r, err := session.ParseRecord(b); err != nil || r.Session == nil || !r.Session.Finished {
			t.Errorf("the record of a run after the end: %v", err)
		}
	})
}

// TestWeightFilesAreGone: the program is told, and so is the contract.
func TestWeightFilesAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &ledSwarm{swarm: newSwarm()}
		l, rec, _ := recorded(t, w)
		b, err := os.ReadFile(l.record(1))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(l.record(1), []byte(strings.Replace(string(b), `"local":"local"`, `"local":"/elsewhere/local"`, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		l.begin(1)
		_, err = l.current().engine.Sync(t.Context(), rec.ID, 2, 1)
		if own, ok := errors.AsType[*session.Error](err); !ok || own.Code != "SLOTS_LOST" {
			t.Errorf("got %v, want SLOTS_LOST", err)
		}
		synctest.Wait()
		if !strings.Contains(w.told(), "weight files") {
			t.Errorf("the contract was told %q", w.told())
		}
	})
}

// TestViewsOfBeforeAreOld: an SN that lags must not take a model back that the previous run had.
func TestViewsOfBeforeAreOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &ledSwarm{swarm: newSwarm()}
		l, _, _ := recorded(t, w)
		old := w.now()
		w.mu.Lock()
		w.view = &round.View{Name: "c", Run: 1, Index: 1} // before the session was opened
		w.mu.Unlock()
		l.begin(1)
		synctest.Wait()
		if o, err := l.current().engine.Outcome(); o != session.Open {
			t.Fatalf("an old view ended the session: %v, %v", o, err)
		}
		w.mu.Lock()
		w.view = old
		w.mu.Unlock()
		w.update(func(*round.View) {})
		synctest.Wait()
		if v := l.current().engine.View(); v.Index <= old.Index {
			t.Errorf("view %v, want the newest", v)
		}
	})
}

// TestALieAboutTheIndexEndsWithTheDaemon: what an SN said once stands in the record; the session must hear the others all the
// same.
func TestALieAboutTheIndexEndsWithTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &ledSwarm{swarm: newSwarm()}
		l, _, _ := recorded(t, w)
		b, err := os.ReadFile(l.record(1))
		if err != nil {
			t.Fatal(err)
		}
		rec, err := session.ParseRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		rec.Session.Index = math.MaxUint64
		if b, err = json.Marshal(rec); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(l.record(1), b, 0o600); err != nil {
			t.Fatal(err)
		}
		l.begin(1)
		synctest.Wait()
		w.update(func(v *round.View) { v.Sessions[0].Host = "newest" })
		synctest.Wait()
		if v := l.current().engine.View(); v.Sessions[0].Host != "newest" {
			t.Errorf("view %v, want the newest", v)
		}
	})
}
