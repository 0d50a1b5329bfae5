package session_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/merge"
)

func TestMethodIsCanonical(t *testing.T) {
	for _, tt := range []struct{ given, want, refusal string }{
		{"", "", ""},
		{" Mean", "mean", ""},
		{"KRUM( F = 2 )", "krum(f=2)", ""},
		{"average", "", "use one of"},
		{"trimmedmean(share=0.7)", "", "share"},
		{"krum(f=1,k=2)", "", "no parameter"},
	} {
		t.Run(tt.given, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSwarm()
				w.method = tt.given
				if tt.refusal == "" {
					start(t, w)
					if got := w.opened.Terms.Method; got != tt.want {
						t.Errorf("the contract was asked for %q, want %q", got, tt.want)
					}
					return
				}
				_, err := tryStart(t, w)
				var why *session.Error
				if !errors.As(err, &why) || why.Code != "BAD_METHOD" || !strings.Contains(why.Message, tt.refusal) || why.Help == "" || strings.Contains(why.Message, "\n") {
					t.Errorf("got %v", err)
				}
				if w.opened != nil {
					t.Error("the contract was asked all the same")
				}
			})
		})
	}
}

// stepping merges as a method with an optimiser does: it writes a state behind the model.
func stepping(_ context.Context, job session.Job) (*round.Done, *round.Failed) {
	n := job.Layout.Bytes()
	b := make([]byte, n)
	_, _ = job.Source.ReadAt(b, 0)
	state := []byte("state000")
	if job.Base != nil { // the state goes on from the one before
		_, _ = job.Base.ReadAt(state, n)
		state[7]++
	}
	_, _ = job.Merging.WriteAt(append(append([]byte{}, b...), state...), 0)
	return &round.Done{Round: job.Plan.Round, Attempt: job.Plan.Attempt, ModelDigest: digestOf(b), StateDigest: digestOf(state)}, nil
}

// onceMore takes a Sync through a round of its own.
func onceMore(t *testing.T, w *swarm, e *session.Engine, id string, number uint64) *round.Done {
	t.Helper()
	got := syncCall(t, e, id, number)
	w.update(func(v *round.View) { plan(v, number, 1, number) })
	synctest.Wait()
	done := w.said().Done
	w.update(func(v *round.View) {
		commit(v, number, number, done.ModelDigest)
		v.Committed.StateDigest = done.StateDigest
	})
	if a := <-got; a.err != nil || a.r.Round != number {
		t.Fatalf("round %d: %+v, %v", number, a.r, a.err)
	}
	synctest.Wait()
	return done
}

// TestOptimiserStateGoesAlong holds that the state turns with the model, is given out with it and kept with it, and that the
// program sees neither.
func TestOptimiserStateGoesAlong(t *testing.T) {
	models, scratch := t.TempDir(), t.TempDir()
	var last *round.Done
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.method, w.mergeFn, w.modelDir, w.scratchDir = "fedavgm", stepping, models, scratch
		e, id, s := start(t, w)
		copy(s.local.b, "round 01")
		first := onceMore(t, w, e, id, 1)
		copy(s.local.b, "round 02")
		last = onceMore(t, w, e, id, 2)
		if first.StateDigest != digestOf([]byte("state000")) || last.StateDigest != digestOf([]byte("state001")) {
			t.Fatal("the second round did not go on from the state of the first")
		}
		time.Sleep(time.Second) // until its next heartbeat
		held := w.said().Held
		if len(held) == 0 || held[0].Round != 2 || held[0].Digest != last.ModelDigest || held[0].State != last.StateDigest {
			t.Errorf("holds %v", held)
		}
		for state, want := range map[string]string{last.StateDigest: "round 02state001", "": "round 02"} {
			r, n, err := e.OpenModel(round.Ref{Contract: "c", Run: 1, Model: round.Model{Round: 2, Digest: last.ModelDigest, State: state}})
			if err != nil || n != int64(len(want)) {
				t.Fatal(n, err)
			}
			b := make([]byte, n)
			if _, err := r.Read(b); err != nil || string(b) != want {
				t.Errorf("gives out %q, %v", b, err)
			}
		}
		if _, _, err := e.OpenModel(round.Ref{Contract: "c", Run: 1, Model: round.Model{Round: 2, Digest: last.ModelDigest, State: first.StateDigest}}); err == nil {
			t.Error("gave out a model with another's state")
		}
	})
	if left, _ := filepath.Glob(filepath.Join(scratch, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	// The next session of this node starts from its copy, state and all.
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.method, w.mergeFn, w.modelDir, w.scratchDir = "fedavgm", stepping, models, scratch
		e, id, s := start(t, w)
		w.update(func(v *round.View) {
			commit(v, 2, 0, last.ModelDigest)
			v.Committed.StateDigest = last.StateDigest
		})
		if a := <-syncCall(t, e, id, 1); a.err != nil || a.r.Round != 2 {
			t.Fatalf("got %+v, %v", a.r, a.err)
		}
		copy(s.local.b, "round 03")
		syncCall(t, e, id, 2)
		w.update(func(v *round.View) { plan(v, 3, 1, 2) })
		synctest.Wait()
		if got := w.said().Done.StateDigest; got != digestOf([]byte("state002")) {
			t.Error("the third round did not go on from the state that was kept")
		}
		w.update(func(v *round.View) { v.Run = 2 }) // lets the program go
	})
}

// TestHolderWithoutStateIsNone holds that both digests of what is fetched are checked.
func TestHolderWithoutStateIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.method, w.scratchDir = "fedavgm", t.TempDir()
		e, id, _ := start(t, w)
		model, state := []byte("round 07"), []byte("state007")
		w.mu.Lock()
		w.models[digestOf(model)] = model // without its state
		w.mu.Unlock()
		w.update(func(v *round.View) {
			commit(v, 7, 0, digestOf(model))
			v.Committed.StateDigest = digestOf(state)
		})
		got := syncCall(t, e, id, 1)
		select {
		case a := <-got:
			t.Fatalf("took a model without its state: %+v, %v", a.r, a.err)
		case <-time.After(time.Minute):
		}
		w.mu.Lock()
		w.models[digestOf(model)] = append(model[:8:8], state...)
		w.mu.Unlock()
		if a := <-got; a.err != nil || a.r.Round != 7 {
			t.Fatalf("got %+v, %v", a.r, a.err)
		}
	})
}

func floatsOf(v ...float32) []byte {
	var b []byte
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

// TestUpdateNormIsDeclared holds that a node is ready only with the norm of what it offers, from the model that it says.
func TestUpdateNormIsDeclared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.method = "normclip"
		e, id, s := start(t, w)
		copy(s.local.b, floatsOf(3, 4))
		got := syncCall(t, e, id, 1)
		if r := w.said().Ready; r.UpdateNorm != 5 || r.BaseRound != 0 {
			t.Fatalf("first round: %v, want norm 5 from nothing", r)
		}
		w.round(1)
		<-got
		copy(s.local.b, floatsOf(3, 16))
		got = syncCall(t, e, id, 2)
		if r := w.said().Ready; r.UpdateNorm != 12 || r.BaseRound != 1 {
			t.Fatalf("second round: %v, want norm 12 from round 1", r)
		}
		w.round(2)
		<-got
		// As snapshot it contributes its last weights whatever the base, so each commit changes the norm.
		copy(s.local.b, floatsOf(3, 10))
		go func() { _, _ = e.Close(t.Context(), id, "") }()
		synctest.Wait()
		if r := w.said().Ready; r.UpdateNorm != 6 || r.BaseRound != 2 {
			t.Fatalf("closed: %v, want norm 6 from round 2", r)
		}
		next := floatsOf(0, 10)
		w.mu.Lock()
		w.models[digestOf(next)] = next
		w.mu.Unlock()
		w.update(func(v *round.View) { commit(v, 3, 0, digestOf(next)) })
		synctest.Wait()
		if r := w.said().Ready; r.UpdateNorm != 3 || r.BaseRound != 3 {
			t.Fatalf("after another commit: %v, want norm 3 from round 3", r)
		}
		w.update(func(v *round.View) { v.Run = 2 }) // lets the program go
	})
}

// TestUpdateNormIsThatOfWhatTravels: what owners measure has been rounded on the wire, so the declared norm is too.
func TestUpdateNormIsThatOfWhatTravels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.method = "normclip(wire=bfloat16)"
		e, id, s := start(t, w)
		copy(s.local.b, floatsOf(3, 4.01))
		got := syncCall(t, e, id, 1)
		if norm := w.said().Ready.UpdateNorm; math.Abs(norm-math.Hypot(3, 4.01)) > 1e-6 {
			t.Fatalf("first round: norm %g, where weights travel as they are", norm)
		}
		w.round(1)
		<-got
		copy(s.local.b, floatsOf(3, 16.03)) // 12.02 from the model, of which there is none: its neighbours are 12 and 12.0625
		syncCall(t, e, id, 2)
		if norm := w.said().Ready.UpdateNorm; math.Abs(norm-12) > 1e-5 {
			t.Fatalf("second round: norm %g, want 12", norm)
		}
		w.update(func(v *round.View) { v.Run = 2 }) // lets the program go
	})
}

// TestBadWeightsAreFoundBeforeTheyAreOffered: with a method that bounds updates each node looks at its own first.
func TestBadWeightsAreFoundBeforeTheyAreOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.method = "normclip"
		e, id, s := start(t, w)
		copy(s.local.b, floatsOf(1, float32(math.NaN())))
		a := <-syncCall(t, e, id, 1)
		var why *session.Error
		if !errors.As(a.err, &why) || why.Code != "NOT_FINITE" || !strings.Contains(why.Message, `tensor "w" element 1 is NaN`) {
			t.Fatalf("program got %v", a.err)
		}
		if w.said().Ready != nil || !strings.Contains(w.told(), "NaN") {
			t.Errorf("the swarm heard %v, %q", w.said(), w.told())
		}
	})
}

// TestMethodThatDoesNotFitIsRefused before the first round, with the place that lacks room.
func TestMethodThatDoesNotFitIsRefused(t *testing.T) {
	for _, method := range []string{"krum(f=1)", "fedadam"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSwarm()
				file := filepath.Join(t.TempDir(), "file")
				if err := os.WriteFile(file, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				w.method, w.scratchDir = method, file // no directory: nothing fits
				_, err := tryStart(t, w)
				var why *session.Error
				if !errors.As(err, &why) || why.Code != "NO_SPACE" || !strings.Contains(why.Message, file) || !strings.Contains(why.Message, "method "+method[:4]) {
					t.Fatalf("got %v", err)
				}
				time.Sleep(time.Minute)
				if w.told() == "" {
					t.Error("the contract goes on waiting for the session")
				}
			})
		})
	}
}

// TestStashReservesNothing holds that a file for what may come has its length, and takes space as it is written.
func TestStashReservesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.scratchDir = t.TempDir()
		w.mergeFn = func(_ context.Context, job session.Job) (*round.Done, *round.Failed) {
			const size = 1 << 36
			f, err := job.Stash(size)
			if err != nil {
				t.Error(err)
				return nil, &round.Failed{Round: 1, Attempt: 1, Reason: err.Error()}
			}
			defer func() { _ = f.Close() }()
			_, err = f.WriteAt([]byte("x"), size-1)
			b := make([]byte, 2)
			if _, readErr := f.ReadAt(b, size-2); err != nil || readErr != nil || b[0] != 0 || b[1] != 'x' {
				t.Error(err, readErr, b)
			}
			var st unix.Stat_t
			if err := unix.Fstat(int(f.(*os.File).Fd()), &st); err != nil || st.Blocks > 1<<10 {
				t.Errorf("%v, %d blocks are taken", err, st.Blocks)
			}
			if left, _ := os.ReadDir(w.scratchDir); len(left) > 0 {
				t.Errorf("the file has a name: %v", left)
			}
			return nil, &round.Failed{Round: 1, Attempt: 1, Reason: "enough"}
		}
		e, id, _ := start(t, w)
		syncCall(t, e, id, 1)
		w.update(func(v *round.View) { plan(v, 1, 1, 1) })
		synctest.Wait()
		w.update(func(v *round.View) { v.Run = 2 }) // lets the program go
	})
}

// TestSpoolIsScratch holds that an attempt gets a file of the length it asks for.
func TestSpoolIsScratch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.method, w.scratchDir = "krum(f=1)", t.TempDir()
		w.mergeFn = func(_ context.Context, job session.Job) (*round.Done, *round.Failed) {
			f, err := job.Spool(3 * merge.MaxLeafSize)
			if err != nil {
				t.Error(err)
				return nil, &round.Failed{Round: 1, Attempt: 1, Reason: err.Error()}
			}
			defer func() { _ = f.Close() }()
			_, err = f.WriteAt([]byte("x"), 3*merge.MaxLeafSize-1)
			b := make([]byte, 1)
			if _, readErr := f.ReadAt(b, 3*merge.MaxLeafSize-1); err != nil || readErr != nil || b[0] != 'x' {
				t.Error(err, readErr, b)
			}
			if _, err := job.Spool(1 << 60); err == nil || !strings.Contains(err.Error(), "method krum(f=1) needs 1048576.0 TiB of scratch") {
				t.Errorf("too much: %v", err)
			}
			return nil, &round.Failed{Round: 1, Attempt: 1, Reason: "enough"}
		}
		e, id, _ := start(t, w)
		syncCall(t, e, id, 1)
		w.update(func(v *round.View) { plan(v, 1, 1, 1) })
		synctest.Wait()
		w.update(func(v *round.View) { v.Run = 2 }) // lets the program go
	})
}
