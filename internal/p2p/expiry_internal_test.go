package p2p

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

func TestExpiryHappensOnceAndForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &expiry{expires: time.Now().Add(time.Hour)}
		time.Sleep(59 * time.Minute)
		if left := l.left(); left != time.Minute {
			t.Errorf("%s left, want a minute", left)
		}
		if err := l.extend(time.Now().Add(time.Second)); err == nil {
			t.Error("an earlier end was taken")
		}
		if err := l.extend(time.Now().Add(time.Hour)); err != nil || l.left() != time.Hour {
			t.Errorf("a later end was not taken: %v", err)
		}
		time.Sleep(time.Hour)
		l.refused(errors.New("wrong number"))
		if l.left() != 0 {
			t.Error("time is left at the very end")
		}
		if err := l.extend(time.Now().Add(time.Hour)); !errors.Is(err, ErrExpired) || l.left() != 0 {
			t.Errorf("a connection that is being closed was prolonged: %v", err)
		}
		gone := &network.StreamError{ErrorCode: 1}
		err := l.explain(gone)
		if !errors.Is(err, ErrExpired) || !errors.Is(err, gone) || err.Error() != "connection closed: SVID expired: the peer's ended at 2000-01-01T01:59:00Z and it has shown no newer one; the last one was refused: wrong number: stream reset (local): code: 0x1" {
			t.Errorf("explained as %v", err)
		}
	})
}

func TestExpiryAdmitsAFewPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &expiry{}
		served := 0
		for range 1000 { // one second
			if done, err := l.admit(); err == nil {
				served++
				done()
			}
			time.Sleep(time.Millisecond)
		}
		if served != 4 {
			t.Errorf("%d were admitted in a second, want 4", served)
		}
		time.Sleep(time.Second)
		done, err := l.admit()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := l.admit(); err == nil {
			t.Error("two at a time")
		}
		done()
		if _, err := l.admit(); err != nil {
			t.Error(err)
		}
	})
}

func TestUsable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, own := spiffeid.RequireFromString("spiffe://x/swarm/sl"), spiffeid.RequireFromString("spiffe://x/swarm/sl/a")
		soon, later := time.Now().Add(time.Second), time.Now().Add(time.Hour)
		tests := map[string]struct {
			l    *expiry
			own  spiffeid.ID
			want bool
		}{
			"both valid":               {&expiry{expires: later, shown: shownSVID{id: shared, expires: later}}, shared, true},
			"peer's ended":             {&expiry{expires: soon, shown: shownSVID{id: shared, expires: later}}, shared, false},
			"ours ended":               {&expiry{expires: later, shown: shownSVID{id: shared, expires: soon}}, shared, false},
			"our identity changed":     {&expiry{expires: later, shown: shownSVID{id: shared, expires: later}}, own, false},
			"the peer's identity too":  {&expiry{expires: later, passing: true, shown: shownSVID{id: shared, expires: later}}, shared, false},
			"about to be closed":       {&expiry{expires: later, ended: ErrExpired, shown: shownSVID{id: shared, expires: later}}, shared, false},
			"no identity of ours left": {&expiry{expires: later, shown: shownSVID{id: shared, expires: later}}, spiffeid.ID{}, false},
		}
		time.Sleep(time.Minute)
		for name, tt := range tests {
			if got := tt.l.usable(tt.own); got != tt.want {
				t.Errorf("%s: %t", name, got)
			}
		}
	})
}
