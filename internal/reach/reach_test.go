package reach_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/internal/reach"
)

// TestFailuresKnowSinceWhen: tries that fail one after the other are one failure, which a success ends, and a long pause too.
func TestFailuresKnowSinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f reach.Failures
		begun := time.Now()
		fail := func() { f.Note("a:1", reach.Classify("a:1", errors.New("no answer"))) }
		after := func(what string, since, at time.Duration) {
			t.Helper()
			got := f.Last("a:1")
			if got.Err == nil || got.Since.Sub(begun) != since || got.At.Sub(begun) != at {
				t.Errorf("%s: %v since %s, last %s", what, got.Err, got.Since.Sub(begun), got.At.Sub(begun))
			}
		}
		fail()
		time.Sleep(4 * time.Minute)
		fail()
		after("again", 0, 4*time.Minute)
		f.Note("a:1", errors.New("another node answers")) // no word on the way there
		after("an answer that is wrong", 0, 4*time.Minute)
		time.Sleep(6 * time.Minute)
		if f.Lately("a:1") {
			t.Error("a failure of six minutes ago is lately")
		}
		fail()
		after("after a pause", 10*time.Minute, 10*time.Minute)
		f.Note("a:1", nil)
		if got := f.Last("a:1"); got.Err != nil || f.Lately("a:1") {
			t.Errorf("after a success: %v", got)
		}
	})
}
