package exchange

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/merge/exchange/dialing"
	"github.com/swarmd/swarmd/merge/exchange/leafio"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// fourOf is an attempt of four of whom this node is the first, and nobody has sealed anything.
func fourOf(t *testing.T) (*lifecycle, *judge) {
	t.Helper()
	plan := &assignment{Attempt: Attempt{Participants: []Participant{{Node: "us"}, {Node: "b"}, {Node: "c"}, {Node: "d"}}}}
	cfg := Config{}.withDefaults()
	life := newLifecycle(t.Context(), plan, cfg.Grace)
	return life, &judge{
		plan: plan, lifecycle: life, sealing: &sealing{seals: make([][]byte, 4)}, clock: dialing.NewClock(cfg.StallTimeout, 4), cfg: &cfg, began: time.Now(),
		unopened: func(i int) bool { return i == 3 }, untrue: make([]error, 4),
	}
}

// TestWhatIsBelievedOfFailures: participant 1 says why it failed.
func TestWhatIsBelievedOfFailures(t *testing.T) {
	for name, c := range map[string]struct {
		said          wire.Fail
		after         time.Duration // since the attempt began
		untrue        bool          // what this node has seen of participant 2
		blamed, heard int
		says          string
	}{
		"that it refuses":              {said: wire.Fail{Blamed: -1, Code: wire.CodeDenied, Reason: "x"}, blamed: 1, heard: -1, says: "refused the stream: x"},
		"that weights are not finite":  {said: wire.Fail{Blamed: 2, Code: wire.CodeContents, Reason: "x"}, blamed: 2, heard: 1, says: "x (says b)"},
		"that we are to blame":         {said: wire.Fail{Blamed: 0, Code: wire.CodeFailed, Reason: "x"}, blamed: 1, heard: -1, says: "lays the failure to us: x"},
		"that another one is":          {said: wire.Fail{Blamed: 2, Code: wire.CodeFailed, Reason: "x"}, blamed: 2, heard: 1, says: "x (says b)"},
		"what we have seen":            {said: wire.Fail{Blamed: 2, Code: wire.CodeFailed, Reason: "x"}, untrue: true, blamed: 2, heard: -1, says: "untrue"},
		"of one that is early":         {said: wire.Fail{Blamed: 3, Code: wire.CodeFailed, Reason: "x"}, after: 4 * time.Second, blamed: 3, heard: 1, says: "x (says b)"},
		"of one that is silent here":   {said: wire.Fail{Blamed: 3, Code: wire.CodeFailed, Reason: "x"}, after: 5 * time.Second, blamed: 3, heard: -1, says: "nothing comes here either"},
		"that somebody else said so":   {said: wire.Fail{Blamed: 3, Code: wire.CodeHeard, Reason: "x"}, after: 5 * time.Second, blamed: 3, heard: 1, says: "x"},
		"that it knows no more itself": {said: wire.Fail{Blamed: -1, Code: wire.CodeHeard, Reason: "x"}, blamed: -1, heard: 1, says: "b left the attempt: x"},
		"that it is elsewhere":         {said: wire.Fail{Blamed: -1, Code: wire.CodeSuperseded, Reason: "x"}, blamed: -1, heard: 1, says: "b left the attempt: x"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				life, j := fourOf(t)
				time.Sleep(c.after)
				if c.untrue {
					j.untrue[2] = errors.New("untrue")
				}
				j.weigh(1, c.said)
				f := life.failed()
				if f == nil || f.Blamed != c.blamed || f.HeardFrom != c.heard || !strings.Contains(f.Reason, c.says) {
					t.Errorf("got %+v, want blame of %d, heard from %d, for %q", f, c.blamed, c.heard, c.says)
				}
			})
		})
	}
}

// TestConvictionsWaitForOthers: they are to see for themselves what can't be true.
func TestConvictionsWaitForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, j := fourOf(t)
		began, why := time.Now(), errors.New("two things")
		j.convict(2, why)
		f := life.failed()
		if f == nil || f.Blamed != 2 || f.HeardFrom != -1 || !errors.Is(f, why) || time.Since(began) != j.cfg.Grace/4 {
			t.Errorf("after %v: %+v", time.Since(began), f)
		}
	})
}

// TestTheFirstReasonCounts: and no stream joins afterwards, while those that are there have the grace time to tell.
func TestTheFirstReasonCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, _ := fourOf(t)
		near, far := newEnds()
		c := wire.NewConn(near, time.Minute)
		if !life.attach(1, c) || life.over() {
			t.Fatal("a stream may not join")
		}
		life.fail(2, "first", nil)
		life.endedBy(1, 3, "second")
		if f := life.failed(); f.Blamed != 2 || f.Node != "c" || f.Reason != "first" || life.ctx.Err() == nil {
			t.Errorf("got %+v", f)
		}
		if life.attach(2, wire.NewConn(near, time.Minute)) {
			t.Error("a stream has joined an attempt that failed")
		}
		began := time.Now()
		if _, err := c.Next(true); err == nil || time.Since(began) != life.grace {
			t.Errorf("a silent stream ended after %v: %v", time.Since(began), err)
		}
		told := make(chan []byte, 1)
		go func() {
			b := make([]byte, 100)
			n, _ := far.Read(b)
			told <- b[:n]
		}()
		c2 := wire.NewConn(near, time.Minute)
		life.sendFailure(c2)
		if got, want := string(<-told), string(life.failed().frame().Append(nil)); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
		if f := life.close(); f == nil {
			t.Error("the reason is gone")
		}
	})
}

// TestFaultsAreBlamedOnWhoseTheyAre: a disk of this node's, met while a peer was read, is not the peer's.
func TestFaultsAreBlamedOnWhoseTheyAre(t *testing.T) {
	cause := errors.New("disk")
	for name, c := range map[string]struct {
		err    error
		blamed int
		reason string
	}{
		"the peer's": {cause, 2, "sends no more"},
		"ours":       {&leafio.Fault{What: "read", Cause: cause}, 0, "read: disk"},
		"nobody's":   {&leafio.Fault{Nobody: true, What: "step", Cause: cause}, -1, "step: disk"},
	} {
		life, _ := fourOf(t)
		life.failFor(2, "sends no more", c.err)
		if f := life.failed(); f.Blamed != c.blamed || f.Reason != c.reason || !errors.Is(f, cause) {
			t.Errorf("%s: got %+v", name, f)
		}
	}
}

func TestAWatchdogFindsWorkThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchdog(time.Second)
		busy, idle := w.task(), w.task()
		for range 10 {
			time.Sleep(time.Second)
			busy.busy()
		}
		idle.busy()
		idle.idle()
		time.Sleep(standstill*time.Second - 1)
		if err := w.check(); err != nil {
			t.Errorf("too early: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if err := w.check(); err == nil {
			t.Error("nothing was found")
		}
		busy.idle()
		if err := w.check(); err != nil {
			t.Errorf("while nothing is done: %v", err)
		}
	})
}
