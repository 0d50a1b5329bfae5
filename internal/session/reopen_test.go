package session_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
)

// TestASessionThatTheSwarmHasLostIsOpenedAnew: and closed anew, if its program has called Close.
func TestASessionThatTheSwarmHasLostIsOpenedAnew(t *testing.T) {
	for name, slow := range map[string]time.Duration{"answered at once": 0, "the view comes before the answer": time.Second} {
		t.Run(name, func(t *testing.T) { openedAnew(t, slow) })
	}
}

func openedAnew(t *testing.T, slow time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.slowOpen = slow
		e, id, _ := start(t, w)
		closed := make(chan answer, 1)
		go func() {
			r, err := e.Close(t.Context(), id, "snapshot")
			closed <- answer{r, err}
		}()
		time.Sleep(time.Second)
		lose := func(run uint64) {
			w.update(func(v *round.View) { v.Run, v.Sessions = run, nil })
			time.Sleep(5 * time.Second)
			v := e.View()
			if len(v.Sessions) == 0 || v.Sessions[0].ID != id || v.Sessions[0].State != "closed" || v.Run != run {
				t.Fatalf("the contract has %v", v)
			}
		}
		lose(1)
		lose(7) // no model of a run is held yet
		lose(2)
		if got := w.said(); got.Run != 2 {
			t.Errorf("reports %v", got)
		}
		w.update(func(v *round.View) { v.Sessions[0].State, v.Sessions[0].EndReason = "ended", "lost" })
		if a := <-closed; a.err == nil {
			t.Errorf("closed with %+v", a.r)
		}
	})
}

// TestAnotherRunThanThatOfAModel: a session that holds a model of a run goes to no other, whatever an SN shows.
func TestAnotherRunThanThatOfAModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, s := start(t, w)
		copy(s.local.b, "12345678")
		onceMore(t, w, e, id, 1)
		w.update(func(v *round.View) { v.Run, v.Sessions = 2, nil })
		time.Sleep(10 * time.Second)
		var why *session.Error
		if a := <-syncCall(t, e, id, 2); !errors.As(a.err, &why) || why.Code != "RESET" {
			t.Errorf("got %+v, %v; want the end of the session", a.r, a.err)
		}
	})
}

// TestADoubtEnds: a contract that was deleted is not opened anew since an SN has lagged once, nor when SNs agree again.
func TestADoubtEnds(t *testing.T) {
	for _, tt := range []struct {
		name  string
		shown []bool // by another SN: the same as the one in use
		want  bool   // that the session is opened anew
	}{
		{"agreed all the time", []bool{true, true}, false},
		{"lagged once", []bool{false, true}, false},
		{"a difference that lasts", []bool{false, false}, true},
		{"a difference that ends", []bool{false, false, true}, false},
		{"a lasting one after a lag", []bool{false, true, false, false}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSwarm()
				var asked atomic.Int32
				w.compare = func(same func(*round.View) bool) { // as a client does, with one other SN
					for range 2 {
						i := int(asked.Add(1)) - 1
						if i >= len(tt.shown) {
							return
						}
						if v := (&round.View{}); tt.shown[i] {
							same(w.now())
							return
						} else if same(v) {
							t.Error("no contract is the same as one")
						}
						time.Sleep(3 * time.Second)
					}
				}
				e, id, _ := start(t, w)
				got := syncCall(t, e, id, 1)
				for int(asked.Load()) < len(tt.shown) {
					time.Sleep(time.Minute)
				}
				w.mu.Lock()
				w.opened = nil
				w.mu.Unlock()
				w.remove()
				time.Sleep(10 * time.Second)
				w.mu.Lock()
				opened := w.opened != nil
				w.mu.Unlock()
				if opened != tt.want || (len(got) == 0) != tt.want {
					t.Errorf("opened anew: %t, want %t; answered: %d", opened, tt.want, len(got))
				}
			})
		})
	}
}
