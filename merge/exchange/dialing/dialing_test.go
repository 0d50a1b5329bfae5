package dialing_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/merge/exchange/dialing"
)

const stall = 10 * time.Second

func TestPlacesFollowHowQuicklyPeersAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		took     []time.Duration
		answered bool
		want     int64
	}{
		"at first":              {nil, true, 4},
		"quick":                 {[]time.Duration{time.Millisecond, time.Millisecond}, true, 6},
		"all alike":             {[]time.Duration{3 * time.Second, 3 * time.Second}, true, 4},
		"slower than the first": {[]time.Duration{time.Second, 3 * time.Second, 3 * time.Second}, true, 3},
		"no answer":             {[]time.Duration{stall, stall}, false, 2},
		"no answer for long":    {[]time.Duration{stall, stall, stall}, false, 1},
		"quick for long":        {slices.Repeat([]time.Duration{time.Millisecond}, 60), true, 32},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, taken := dialing.NewLimiter(stall), atomic.Int64{}
				for range 200 {
					go func() {
						if l.Enter(t.Context()) == nil {
							taken.Add(1)
						}
					}()
				}
				for _, took := range c.took {
					synctest.Wait()
					l.Leave(took, c.answered)
					taken.Add(-1)
				}
				synctest.Wait()
				if got := taken.Load(); got != c.want {
					t.Errorf("%d places are taken, want %d", got, c.want)
				}
			})
		})
	}
}

// TestWhoGivesUpLeavesNoPlaceTaken: whoever waits behind it comes next.
func TestWhoGivesUpLeavesNoPlaceTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := dialing.NewLimiter(stall)
		for range 4 {
			if err := l.Enter(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Enter(ctx); err == nil {
			t.Error("there is a fifth place")
		}
		if l.Queued() {
			t.Error("somebody is queued who has given up")
		}
		done := make(chan error, 1)
		go func() { done <- l.Enter(t.Context()) }()
		synctest.Wait()
		if !l.Queued() {
			t.Error("nobody is queued")
		}
		l.Leave(time.Second, true)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestStreamsAreDueAfterTheNewestSignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		few, many := dialing.NewClock(stall, 5), dialing.NewClock(stall, 64)
		if few.Many || !many.Many || !few.End.Equal(began.Add(stall)) || !many.End.Equal(began.Add(16*stall)) {
			t.Errorf("few: %v until %v, many: %v until %v", few.Many, few.End, many.Many, many.End)
		}
		time.Sleep(5 * time.Second)
		few.Opened()
		many.Opened()
		time.Sleep(time.Second)
		if many.Quiet() != time.Second {
			t.Errorf("quiet for %v", many.Quiet())
		}
		for name, c := range map[string]struct {
			clock       *dialing.Clock
			since, life time.Duration
			want        time.Duration
		}{
			"few have their stall time":         {few, 0, 0, stall},
			"but from when they are waited for": {few, 3 * time.Second, 0, 13 * time.Second},
			"a handshake":                       {many, 0, 0, 15 * time.Second},
			"a sign of life":                    {many, 0, 20 * time.Second, 30 * time.Second},
			"at most until the end":             {many, 0, time.Hour, 160 * time.Second},
		} {
			if got := c.clock.Due(began.Add(c.since), began.Add(c.life)).Sub(began); got != c.want {
				t.Errorf("%s: due after %v, want %v", name, got, c.want)
			}
		}
	})
}
