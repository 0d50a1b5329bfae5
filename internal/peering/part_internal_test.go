package peering

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
)

// TestPartEndsWithItsLease holds that what a host has started ends a lease after the last heartbeat that was answered with that it is wanted,
// and that an end of its own is its own.
func TestPartEndsWithItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = task.LeaseMS * time.Millisecond
		begun := time.Now()
		p := NewPart(task.Part{Host: "h", Assignment: "7", Epoch: 1}, slog.New(slog.DiscardHandler))
		_, err := p.Within(t.Context(), func(ctx context.Context) (int, error) {
			for range 100 {
				p.heard(time.Now(), true)
				time.Sleep(time.Second)
			}
			last := time.Now()
			p.heard(last, true)
			for ctx.Err() == nil {
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
				p.heard(last.Add(-time.Second), true) // an answer that was long on its way
				p.heard(time.Now(), false)
			}
			if took := time.Since(last); took != lease || time.Since(begun) != 100*time.Second+lease {
				t.Errorf("it ended %v after it was wanted", took)
			}
			return 0, ctx.Err()
		})
		if err == nil || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "a part of assignment 7 on h") {
			t.Errorf("ended with %v", err)
		}
		own := errors.New("its own")
		code, err := NewPart(task.Part{Host: "h", Assignment: "7", Epoch: 1}, slog.New(slog.DiscardHandler)).Within(t.Context(), func(context.Context) (int, error) { return 3, own })
		if code != 3 || err != own { //nolint:errorlint // that very one
			t.Errorf("ended with %d, %v", code, err)
		}
		stopped, cancel := context.WithCancel(t.Context())
		cancel()
		for _, finished := range []bool{false, true} {
			p := NewPart(task.Part{Host: "h", Assignment: "7", Epoch: 1}, slog.New(slog.DiscardHandler))
			_, err = p.Within(stopped, func(ctx context.Context) (int, error) {
				if finished {
					p.Finish()
				}
				<-ctx.Done()
				return 0, nil
			})
			if (err == nil) != finished {
				t.Errorf("one that was stopped, finished: %t, ended with %v", finished, err)
			}
		}
	})
}

// TestTheFirstLease: a node that has yet to register has longer, and none that a leader does not want.
func TestTheFirstLease(t *testing.T) {
	for refused, want := range map[bool]time.Duration{false: firstLease, true: task.LeaseMS * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			p := NewPart(task.Part{Host: "h", Assignment: "7", Epoch: 1}, slog.New(slog.DiscardHandler))
			_, err := p.Within(t.Context(), func(ctx context.Context) (int, error) {
				time.Sleep(30 * time.Second)
				if refused {
					p.heard(time.Now(), false)
				}
				<-ctx.Done()
				return 0, ctx.Err()
			})
			if took := time.Since(begun); err == nil || took != want {
				t.Errorf("it ended after %v with %v", took, err)
			}
		})
	}
}

// TestNoPartHasNoEnd holds that nodes that no host of tasks has started say and heed nothing.
func TestNoPartHasNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPart(task.Part{}, slog.New(slog.DiscardHandler))
		p.heard(time.Now(), false)
		_, err := p.Within(t.Context(), func(ctx context.Context) (int, error) {
			time.Sleep(time.Hour)
			return 0, ctx.Err()
		})
		if err != nil || p.String() != "" {
			t.Errorf("ended with %v, says %q", err, p)
		}
	})
}
