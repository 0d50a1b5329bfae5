package session_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	"github.com/swarmd/swarmd/internal/trust"
	"github.com/swarmd/swarmd/merge"
)

// memory is a weight file.
type memory struct{ b []byte }

func (m *memory) ReadAt(p []byte, off int64) (int, error)  { return copy(p, m.b[off:]), nil }
func (m *memory) WriteAt(p []byte, off int64) (int, error) { return copy(m.b[off:], p), nil }

type slots struct {
	local  memory
	merged [2]memory
	turn   int
	sumUp  func()
}

func newSlots(n int64) (models.Slots, error) {
	return &slots{local: memory{make([]byte, n)}, merged: [2]memory{{make([]byte, n)}, {make([]byte, n)}}}, nil
}
func (s *slots) Local() models.Slot     { return &s.local }
func (s *slots) LocalName() string      { return "local" }
func (s *slots) Merging() models.Slot   { return &s.merged[s.turn%2] }
func (s *slots) Committed() models.Slot { return &s.merged[(s.turn+1)%2] }
func (s *slots) Merged(string) {
	if s.sumUp != nil {
		s.sumUp()
	}
}
func (s *slots) Commit() string { s.turn++; return []string{"merged-1", "merged-0"}[s.turn%2] }
func (s *slots) Close() error   { return nil }

// swarm is a contract of one node's session, moved by the test.
type swarm struct {
	mu      sync.Mutex
	view    *round.View
	changed chan struct{}
	report  *round.Report
	reports int
	ended   string
	models  map[string][]byte // by digest: what other nodes hold
	refuses bool              // other nodes say that they do not hold what is asked for
	merges  int
	signed  int
	removed bool // no SN knows the contract any more
	log     bytes.Buffer

	modelDir      string
	scratchDir    string
	timeouts      session.Timeouts
	trust         *trust.Guard
	method        string // that the program asks for; start's default is the mean
	weights       string // what the weights are
	opened        *round.Open
	closed        round.Close
	slowOpen      time.Duration // how long the answer to Open takes
	compare       func(same func(*round.View) bool)
	mergeFn       func(ctx context.Context, job session.Job) (*round.Done, *round.Failed)
	closeFn       func(ctx context.Context) error
	endFn         func(ctx context.Context) error
	answerFn      func(r *round.Report) round.Answer  // with mu held
	verifySealsFn func(job session.Job) *round.Failed // likewise
	verified      int
	returned      int      // merges that have returned
	forgotten     []string // what was dropped of contracts, and when
	unreached     []round.Unreached
	asked         []string // of whom a model was
}

func newSwarm() *swarm {
	return &swarm{method: "mean", view: &round.View{Name: "c", Run: 1, Index: 1}, changed: make(chan struct{}), models: map[string][]byte{}}
}

func (w *swarm) update(fn func(v *round.View)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := clone(w.view)
	fn(v)
	v.Index++
	w.view = v
	close(w.changed)
	w.changed = make(chan struct{})
}

// clone copies a view, with all that tests change in it.
func clone(v *round.View) *round.View {
	out := *v
	out.Sessions = nil
	for _, m := range v.Sessions {
		other := *m
		out.Sessions = append(out.Sessions, &other)
	}
	if v.Plan != nil {
		p := *v.Plan
		p.Participants = nil
		for _, m := range v.Plan.Participants {
			other := *m
			p.Participants = append(p.Participants, &other)
		}
		out.Plan = &p
	}
	return &out
}

// now is the newest view.
func (w *swarm) now() *round.View {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.view
}

func (w *swarm) Open(_ context.Context, req *round.Open) (*round.View, error) {
	w.mu.Lock()
	w.opened = req
	w.mu.Unlock()
	w.update(func(v *round.View) {
		v.Sessions = append(v.Sessions, &round.Session{ID: req.Session, Node: "me", Live: true, State: "open"},
			&round.Session{ID: "other", Node: "other", Live: true, State: "open"})
	})
	time.Sleep(w.slowOpen)
	return w.now(), nil
}

func (w *swarm) Close(ctx context.Context, req round.Close) (*round.View, error) {
	w.mu.Lock()
	w.closed = req
	fn := w.closeFn
	w.mu.Unlock()
	if fn != nil {
		if err := fn(ctx); err != nil {
			return nil, err
		}
	}
	w.update(func(v *round.View) { v.Sessions[0].State = "closed" })
	return w.now(), nil
}

func (w *swarm) End(ctx context.Context, req round.End) error {
	if w.endFn != nil {
		if err := w.endFn(ctx); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = req.Reason
	return nil
}

// told is the reason of the last end that the contract heard of.
func (w *swarm) told() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

func (w *swarm) Report(_ context.Context, r *round.Report) (round.Answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports++
	if r.Session != "" {
		w.report = r
	}
	if w.answerFn != nil {
		return w.answerFn(r), nil
	}
	return round.Answer{}, nil
}

func (w *swarm) VerifySeals(job session.Job) *round.Failed {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.verified++
	if w.verifySealsFn != nil {
		return w.verifySealsFn(job)
	}
	return nil
}

// sign stands in for the node key.
func (w *swarm) sign(msg []byte) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.signed++
	d := merge.Sum(msg)
	return d[:], nil
}

// signs is how many signatures were made.
func (w *swarm) signs() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.signed
}

// count is how many reports have come.
func (w *swarm) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reports
}

// said is the newest report of the session; it says nothing before the first.
func (w *swarm) said() *round.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	return cmp.Or(w.report, &round.Report{})
}

func (w *swarm) Watch(ctx context.Context, _ string, fn func(*round.View)) error {
	for {
		w.mu.Lock()
		v, changed, removed := w.view, w.changed, w.removed
		w.mu.Unlock()
		if removed {
			return &session.Error{Code: "CONTRACT_UNKNOWN", Message: `no contract "c"`}
		}
		fn(v)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// remove deletes the contract.
func (w *swarm) remove() {
	w.mu.Lock()
	w.removed = true
	w.mu.Unlock()
	w.update(func(*round.View) {})
}

func (w *swarm) Waiting(context.Context, string) (string, error) { return "1 more peer", nil }
func (w *swarm) Forget(contract string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgotten = append(w.forgotten, fmt.Sprintf("%s after %d merges", contract, w.returned))
}
func (w *swarm) Traffic() (uint64, uint64) { return 7, 9 }
func (w *swarm) Planned(job session.Job) string {
	said := fmt.Append(nil, job.Plan.Witnesses)
	for _, p := range job.Plan.Participants {
		said = fmt.Append(said, *p)
	}
	d := merge.Sum(said)
	return d.String()
}

func (w *swarm) Merge(ctx context.Context, job session.Job) (*round.Done, *round.Failed) {
	w.mu.Lock()
	w.merges++
	fn := w.mergeFn
	w.mu.Unlock()
	if fn != nil {
		return fn(ctx, job)
	}
	b := make([]byte, job.Layout.Bytes())
	_, _ = job.Source.ReadAt(b, 0)
	_, _ = job.Merging.WriteAt(b, 0)
	return &round.Done{Round: job.Plan.Round, Attempt: job.Plan.Attempt, ModelDigest: digestOf(b), Leaves: []merge.Digest{merge.Sum(b)}}, nil
}

func (w *swarm) Fetch(_ context.Context, from *round.Session, m round.Ref, _ int64, dst io.WriterAt) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, from.Node)
	b, ok := w.models[m.Digest]
	if !ok && w.refuses {
		return refusal{}
	}
	if !ok {
		return errors.New("not here")
	}
	_, err := dst.WriteAt(b, 0)
	return err
}

// refusal is the answer of a holder that does not have a model.
type refusal struct{}

func (refusal) Error() string { return "refused by the peer: not here" }
func (refusal) Refused() bool { return true }

func digestOf(b []byte) string { return merge.Combine([]merge.Digest{merge.Sum(b)}).String() }

// start runs an engine with one open session in the bubble of a synctest.
func start(t *testing.T, w *swarm) (*session.Engine, string, *slots) {
	t.Helper()
	e, opened, err := launch(t, w)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := opened.Slots.(*slots)
	return e, opened.Session, s
}

// tryStart is start for sessions that are refused.
func tryStart(t *testing.T, w *swarm) (*session.Opened, error) {
	t.Helper()
	_, opened, err := launch(t, w)
	return opened, err
}

func launch(t *testing.T, w *swarm) (*session.Engine, *session.Opened, error) {
	t.Helper()
	e := session.New(session.Config{
		ModelDir: w.modelDir, ScratchDir: w.scratchDir,
		Peer: "me", Control: w, Explainer: w, Exchange: w, NewSlots: newSlots, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		Timeouts: w.timeouts, Sign: w.sign, Trust: w.trust, Unreached: func(string) []round.Unreached { return w.unreached },
		Compare: func(_ context.Context, _ string, same func(*round.View) bool, _ bool) string {
			if w.compare != nil {
				w.compare(same)
			}
			return ""
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- e.Run(ctx) }()
	synctest.Wait()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	layout, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{2}}})
	if err != nil {
		t.Fatal(err)
	}
	opened, err := e.Open(t.Context(), round.Open{
		Contract: "c", Terms: round.Terms{MinPeers: 1, Method: w.method, Weights: w.weights}, SyncFrequency: 4, CheckinMode: "snapshot", Weight: 1,
	}, layout)
	return e, opened, err
}

func plan(v *round.View, number, attempt, seq uint64) {
	v.Plan = &round.Plan{Run: 1, Round: number, Attempt: attempt, Participants: []*round.Participant{{Session: v.Sessions[0].ID, Node: "me", Seq: seq}}}
}

// round plans one of the node's offer of the same number, lets it merge, and commits what it reports.
func (w *swarm) round(number uint64) {
	w.update(func(v *round.View) { plan(v, number, 1, number) })
	synctest.Wait()
	w.update(func(v *round.View) { commit(v, number, number, w.report.Done.ModelDigest) })
}

func commit(v *round.View, number, seq uint64, digest string) {
	v.Committed = state.CommittedRound{Round: number, Attempt: 1, Digest: digest, NextInterval: 4, Participants: []string{"other"}}
	if seq > 0 {
		v.Committed.Participants = append(v.Committed.Participants, "me")
		v.Sessions[0].LastRound, v.Sessions[0].LastSeq = number, seq
	}
	v.Plan = nil
}

type answer struct {
	r   *wire.SyncResponse
	err error
}

func syncCall(t *testing.T, e *session.Engine, id string, seq uint64) <-chan answer {
	t.Helper()
	c := make(chan answer, 1)
	go func() {
		r, err := e.Sync(t.Context(), id, seq, 1)
		c <- answer{r, err}
	}()
	synctest.Wait()
	return c
}

func TestRoundIsHandedOverOnlyWhenCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, s := start(t, w)
		copy(s.local.b, "12345678")
		got := syncCall(t, e, id, 1)
		if w.said().Ready.Seq != 1 {
			t.Fatalf("report says %v, want ready with seq 1", w.said())
		}
		w.update(func(v *round.View) { plan(v, 1, 1, 1) })
		synctest.Wait()
		select {
		case a := <-got:
			t.Fatalf("answered before the commit: %v", a)
		default:
		}
		if w.said().Done.ModelDigest != digestOf([]byte("12345678")) {
			t.Fatalf("report says %v, want done", w.said())
		}
		digest := w.said().Done.ModelDigest
		w.update(func(v *round.View) { commit(v, 1, 1, digest) })
		a := <-got
		if a.err != nil || a.r.Round != 1 || !a.r.Contributed || a.r.Slot != "merged-0" || a.r.Interval != 4 {
			t.Fatalf("got %+v, %v", a.r, a.err)
		}
		again, err := e.Sync(t.Context(), id, 1, 1)
		if err != nil || again != a.r {
			t.Fatalf("repeated Sync: got %+v, %v; want the same answer", again, err)
		}
		if _, err := e.Sync(t.Context(), id, 7, 1); err == nil || !strings.Contains(err.Error(), "want 2") {
			t.Fatalf("gap in seq: got %v", err)
		}
	})
}

// TestRoundTakesTwoReports holds that only what the leader acts on is said at once, and the rest soon.
func TestRoundTakesTwoReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, _ := start(t, w)
		onceMore(t, w, e, id, 1)
		before := w.count()
		onceMore(t, w, e, id, 2)
		if n := w.count() - before; n != 2 {
			t.Errorf("a round took %d reports, want one that the node is ready and one that it is done", n)
		}
		if err := e.Report(id, round.Progress{Round: 2, Loss: 0.5, HasLoss: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if said := w.said(); w.count()-before != 3 || said.Ready != nil || said.Progress.Loss != 0.5 || said.Progress.SentBytes != 7 || said.Progress.ReceivedBytes != 9 {
			t.Errorf("report %d of the round says %v, want one more that says what has changed since", w.count()-before, said)
		}
	})
}

// TestAMetricHasTheNameOfItsReport: it is told with the metric, stays with it, and is none where the program does not say.
func TestAMetricHasTheNameOfItsReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, _ := start(t, w)
		onceMore(t, w, e, id, 1)
		for _, test := range []struct {
			told round.Progress
			want string
		}{
			{round.Progress{Round: 1, Metric: 0.5, HasMetric: true, MetricName: "f1"}, "f1"},
			{round.Progress{Loss: 0.5, HasLoss: true, MetricName: "of nothing"}, "f1"},
			{round.Progress{Round: 1, Metric: 0.6, HasMetric: true}, ""},
		} {
			if err := e.Report(id, test.told); err != nil {
				t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
			if said := w.said().Progress; said.MetricName != test.want {
				t.Errorf("after %+v it says %q", test.told, said.MetricName)
			}
		}
	})
}

func TestLateJoinerFetchesAndDoesNotContribute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, s := start(t, w)
		model := []byte("ABCDEFGH")
		w.update(func(v *round.View) { commit(v, 5, 0, digestOf(model)) })
		got := syncCall(t, e, id, 1)
		select {
		case a := <-got:
			t.Fatalf("answered without the model: %+v", a)
		case <-time.After(3 * time.Second): // nobody holds it yet: it keeps trying
		}
		if w.said().Ready != nil {
			t.Fatalf("ready without the committed model: %v", w.said())
		}
		w.mu.Lock()
		w.models[digestOf(model)] = []byte("forgery!")
		w.mu.Unlock()
		time.Sleep(3 * time.Second)
		w.mu.Lock()
		w.models[digestOf(model)] = model
		w.mu.Unlock()
		a := <-got
		if a.err != nil || a.r.Round != 5 || a.r.Contributed {
			t.Fatalf("got %+v, %v; want round 5, not contributed", a.r, a.err)
		}
		if string(s.merged[(s.turn+1)%2].b) != string(model) {
			t.Fatalf("committed slot holds %q", s.merged[(s.turn+1)%2].b)
		}
	})
}

func TestSupersededAttemptIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		stopped := 0
		w.mergeFn = func(ctx context.Context, _ session.Job) (*round.Done, *round.Failed) {
			<-ctx.Done()
			stopped++
			return nil, nil
		}
		e, id, _ := start(t, w)
		got := syncCall(t, e, id, 1)
		w.update(func(v *round.View) { plan(v, 1, 1, 1) })
		synctest.Wait()
		w.mu.Lock()
		w.mergeFn = nil
		w.mu.Unlock()
		w.update(func(v *round.View) { plan(v, 1, 2, 1) })
		synctest.Wait()
		if stopped != 1 || w.merges != 2 || w.said().Done.Attempt != 2 {
			t.Fatalf("stopped %d, merges %d, report %v", stopped, w.merges, w.said())
		}
		w.update(func(v *round.View) { v.Run = 2 })
		if a := <-got; a.err == nil || !strings.Contains(a.err.Error(), "was reset") {
			t.Fatalf("after a reset: got %v", a.err)
		}
	})
}

// TestWhatAReplacedSessionMergedIsForgotten: when the program of another session takes its place, and its merge has returned.
func TestWhatAReplacedSessionMergedIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.mergeFn = func(ctx context.Context, _ session.Job) (*round.Done, *round.Failed) {
			<-ctx.Done()
			time.Sleep(time.Second)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.returned++
			return nil, nil
		}
		e, id, _ := start(t, w)
		syncCall(t, e, id, 1)
		w.update(func(v *round.View) { plan(v, 1, 1, 1) })
		synctest.Wait()
		layout, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{2}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Open(t.Context(), round.Open{Contract: "d", Terms: round.Terms{MinPeers: 1, Method: "mean"}, SyncFrequency: 4, CheckinMode: "snapshot", Weight: 1}, layout)
		if want := []string{"c after 1 merges"}; err != nil || !slices.Equal(w.forgotten, want) {
			t.Errorf("forgot %q, want %q; %v", w.forgotten, want, err)
		}
	})
}

// TestNobodyWaitsForADeletedContract: neither a program that syncs, nor a node that has its final model and serves it.
func TestNobodyWaitsForADeletedContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, _ := start(t, w)
		got := syncCall(t, e, id, 1)
		w.remove()
		a := <-got
		if own, ok := errors.AsType[*session.Error](a.err); !ok || own.Code != "DELETED" || !strings.Contains(own.Message, "contract c was deleted") {
			t.Errorf("got %v, want DELETED", a.err)
		}
		if o, why := e.Outcome(); o != session.Failed || why == nil {
			t.Errorf("outcome %v, %v", o, why)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, _ := start(t, w)
		w.update(func(v *round.View) { plan(v, 1, 1, 1) })
		got := syncCall(t, e, id, 1)
		digest := w.said().Done.ModelDigest
		w.update(func(v *round.View) { commit(v, 1, 1, digest) })
		<-got
		w.update(func(v *round.View) { v.Over = true })
		if _, err := e.Close(t.Context(), id, "snapshot"); err != nil {
			t.Fatal(err)
		}
		lingered := make(chan error, 1)
		go func() { lingered <- e.Linger(t.Context()) }()
		synctest.Wait()
		w.remove()
		if err := <-lingered; err != nil {
			t.Errorf("linger: %v", err)
		}
		if o, _ := e.Outcome(); o != session.Finished {
			t.Errorf("outcome %v", o)
		}
	})
}

func TestCloseGivesTheFinalModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, _ := start(t, w)
		w.update(func(v *round.View) { plan(v, 1, 1, 1) })
		got := syncCall(t, e, id, 1)
		digest := w.said().Done.ModelDigest
		w.update(func(v *round.View) { commit(v, 1, 1, digest) })
		<-got
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := e.Close(short, id, "snapshot"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("close before the end: got %v, want pending", err)
		}
		if w.said().Ready == nil {
			t.Fatal("a closed session must stay ready")
		}
		w.update(func(v *round.View) { v.Over = true })
		r, err := e.Close(t.Context(), id, "snapshot")
		if err != nil || r.Round != 1 || !r.TrainingOver {
			t.Fatalf("got %+v, %v", r, err)
		}
		synctest.Wait()
		if o, _ := e.Outcome(); o != session.Finished || w.told() != "finished" {
			t.Fatalf("outcome %v, ended %q", o, w.told())
		}
		lingered := make(chan error, 1)
		go func() { lingered <- e.Linger(t.Context()) }()
		synctest.Wait()
		select {
		case <-lingered:
			t.Fatal("left while another session was open")
		default:
		}
		w.update(func(v *round.View) { v.Sessions[1].State = "ended" })
		if err := <-lingered; err != nil {
			t.Fatal(err)
		}
	})
}

func TestCommittedModelsAreKeptOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.modelDir = t.TempDir()
		e, id, s := start(t, w)
		var digests []string
		for n := uint64(1); n <= 5; n++ {
			copy(s.local.b, fmt.Sprintf("round %02d", n))
			got := syncCall(t, e, id, n)
			w.update(func(v *round.View) { plan(v, n, 1, n) })
			synctest.Wait()
			digest := w.said().Done.ModelDigest
			digests = append(digests, digest)
			w.update(func(v *round.View) { commit(v, n, n, digest) })
			<-got
			time.Sleep(5 * time.Second) // rounds that are not in a hurry: each model is copied
		}
		w.update(func(v *round.View) { v.Over = true })
		if _, err := e.Close(t.Context(), id, "snapshot"); err != nil {
			t.Fatal(err)
		}
		kept, err := filepath.Glob(filepath.Join(w.modelDir, "c", "*"))
		if err != nil || len(kept) != 3 {
			t.Fatalf("kept %v, %v; want three models and nothing else", kept, err)
		}
		for _, n := range []uint64{4, 5} { // one from disk, one from the slot
			r, size, err := e.OpenModel(round.Ref{Contract: "c", Run: 1, Model: round.Model{Round: n, Digest: digests[n-1]}})
			if err != nil || size != 8 {
				t.Fatalf("round %d: size %d, %v", n, size, err)
			}
			b, err := io.ReadAll(r)
			if want := fmt.Sprintf("round %02d", n); err != nil || string(b) != want {
				t.Fatalf("round %d: got %q, %v", n, b, err)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for _, digest := range []string{digests[0], "../../../etc/passwd", strings.Repeat("0", 64)} {
			if _, _, err := e.OpenModel(round.Ref{Contract: "c", Run: 1, Model: round.Model{Round: 1, Digest: digest}}); err == nil {
				t.Fatalf("digest %q was served", digest)
			}
		}
	})
}

func TestHurriedRoundsAreNotAllCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.modelDir = t.TempDir()
		e, id, s := start(t, w)
		for n := uint64(1); n <= 20; n++ {
			copy(s.local.b, fmt.Sprintf("round %02d", n))
			got := syncCall(t, e, id, n)
			w.update(func(v *round.View) { plan(v, n, 1, n) })
			synctest.Wait()
			digest := w.said().Done.ModelDigest
			w.update(func(v *round.View) {
				commit(v, n, n, digest)
				v.Over = n == 20
			})
			<-got
		}
		if _, err := e.Close(t.Context(), id, "snapshot"); err != nil {
			t.Fatal(err)
		}
		kept, err := filepath.Glob(filepath.Join(w.modelDir, "c", "1-20-*"))
		all, _ := filepath.Glob(filepath.Join(w.modelDir, "c", "*"))
		if err != nil || len(kept) != 1 || len(all) != 1 {
			t.Fatalf("kept %v, %v; want the final model only", all, err)
		}
	})
}
