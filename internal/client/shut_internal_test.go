package client

import (
	"context"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestWhoRefusesOnceMayBeAboutToStart: a port that refused is dialled again by itself, and counts as shut only if it refuses then too.
func TestWhoRefusesOnceMayBeAboutToStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const addr = "10.0.0.2:30304"
		up, dials := false, 0
		c := &connections{cfg: Config{Dial: func(context.Context, string, string) (net.Conn, error) {
			if dials++; !up {
				return nil, syscall.ECONNREFUSED
			}
			here, there := net.Pipe()
			_ = there.Close()
			return here, nil
		}}}
		shut := func(after time.Duration) bool {
			time.Sleep(after)
			synctest.Wait()
			return c.shut(addr).Err != nil
		}
		c.look(addr)
		if shut(time.Second) || shut(againAfter) {
			t.Error("what has refused once is told at once")
		}
		if !shut(time.Second) || dials != 2 {
			t.Errorf("what refuses for seconds is not told; dialled %d times", dials)
		}
		up = true
		if !shut(againAfter) || shut(time.Second) || dials != 3 {
			t.Errorf("what is there again is shut still; dialled %d times", dials)
		}
		if shut(time.Minute) || dials != 3 {
			t.Errorf("what is reached is dialled again, %d times in all", dials)
		}
	})
}
