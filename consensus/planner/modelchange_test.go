package planner_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/state"
)

// TestLostModelIsLoggedOnce: an SN that is started again finds the loss in its state, and it was logged when it happened.
func TestLostModelIsLoggedOnce(t *testing.T) {
	b := survivorsOfTwo(t)
	synctest.Test(t, func(t *testing.T) {
		log, words := newFakeLog(), &buffer{}
		log.s = b.s
		log.leader.Store(false)
		life := func(fn func()) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- planner.New(planner.Config{}, log, slog.New(slog.NewTextHandler(words, nil))).Run(ctx) }()
			synctest.Wait()
			fn()
			synctest.Wait()
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		life(func() {
			c := b.contract()
			_, err := log.apply(state.LoseModel{
				Contract: c.Name, Run: c.Run, Round: c.Round(), Digest: c.Committed.Digest, AtMS: time.Now().UnixMilli(),
			})
			if err != nil {
				t.Fatal(err)
			}
		})
		life(func() {})
		if said := words.lines("a committed model was lost"); len(said) != 1 {
			t.Errorf("said %q, want one line", said)
		}
	})
}
