package session

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestHeartbeatsThatFailAreToldOnce: however often they do, as long as they are not taken for half a minute.
func TestHeartbeatsThatFailAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		b := heartbeatLog{log: slog.New(slog.NewTextHandler(&said, nil))}
		const begin, end = "heartbeat was not taken; trying again", "heartbeats are taken again"
		late := errors.New("timed out")
		for i, step := range []struct {
			err        error
			wait       time.Duration
			begun, end int // lines by then
		}{
			{nil, time.Hour, 0, 0},
			{late, 5 * time.Second, 1, 0},
			{late, time.Hour, 1, 0},
			{nil, time.Second, 1, 1}, // as soon as one is taken, if the last that was not is long ago
			{late, 5 * time.Second, 2, 1},
			{nil, 20 * time.Second, 2, 1},
			{late, 5 * time.Second, 2, 1},
			{nil, 20 * time.Second, 2, 1},
			{nil, 5 * time.Second, 2, 1},
			{nil, time.Second, 2, 2},
			{nil, time.Hour, 2, 2},
		} {
			b.note(step.err)
			if got, gotEnd := strings.Count(said.String(), begin), strings.Count(said.String(), end); got != step.begun || gotEnd != step.end {
				t.Errorf("step %d: said %d times that they fail and %d times that they do not, want %d and %d", i, got, gotEnd, step.begun, step.end)
			}
			time.Sleep(step.wait)
		}
		if want := `msg="heartbeats are taken again" failed=2`; strings.Count(said.String(), want) != 2 {
			t.Errorf("want twice %q:\n%s", want, said.String())
		}
	})
}
