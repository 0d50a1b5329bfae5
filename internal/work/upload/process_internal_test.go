package upload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/work"
)

// TestFewCopiesAtATime: members wait for their turn, last copies for no others, and not for those to another target.
func TestFewCopiesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{takes: 10 * time.Minute}
		c := begun(t, r)
		member := func(i int, target string) work.Label {
			l := label
			l.Member = uint32(i)
			if err := c.Begin(l, Order{Target: target, Under: fmt.Sprint(i), Every: time.Hour}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Forget(l) })
			return l
		}
		copied := func(want int) {
			t.Helper()
			if synctest.Wait(); r.count() != want {
				t.Errorf("after %v: %d copies were begun, want %d", time.Since(r.began), r.count(), want)
			}
		}
		for i := range 5 {
			c.Status(member(i, "bucket"), runs)
		}
		copied(2)
		for i := 5; i < 8; i++ {
			c.Status(member(i, "bucket"), well)
		}
		copied(2 + 2)
		for i := 8; i < 11; i++ {
			c.Status(member(i, "nas"), well)
		}
		copied(2 + 2 + 2)
		time.Sleep(11 * time.Minute)
		copied(4 + 3 + 3)
		time.Sleep(10 * time.Minute)
		copied(5 + 3 + 3)
	})
}

// TestAnotherProcessGoesOn with what a killed one has begun.
func TestAnotherProcessGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{takes: 30 * time.Minute}
		c := begun(t, r)
		is(t, c, well, "ready 0 its program has ended with code 0, and what it has left is copied to target bucket |")
		again := &Copier{Dir: c.Dir, Left: c.Left, Log: c.Log, Run: (&remote{}).copy, Target: c.Target}
		is(t, again, well, "exited 0  |")
	})
}

// TestAMemberThatServesOthers is told to have ended when no last copy of any goes on: it may have been ended by a program that has ended too.
func TestAMemberThatServesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begun(t, &remote{}, func(o *Order) { o.Serves = true })
		is(t, c, runs, "started 0 not ready |")
		time.Sleep(time.Minute)
		is(t, c, well, "ready 0 its program has ended with code 0, and what it has left is copied to target bucket |")
		if err := c.Finish(t.Context(), label); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		is(t, c, well, "exited 0  |")
		is(t, c, work.Status{State: task.Exited, Code: 1}, "exited 1  |")
	})
}

// TestNothingIsCopied of members without an order, or that have left nothing; and a damaged note says so.
func TestNothingIsCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{}
		c := begun(t, r)
		c.Left = shelf{err: os.ErrNotExist}
		if err := c.Finish(t.Context(), label); err != nil || r.count() > 0 {
			t.Error(r.times, err)
		}
		var none *Copier
		if got := none.Status(label, well); got != well || none.Finish(t.Context(), label) != nil || none.Forget(label) != nil || none.Begin(label, Order{}) == nil {
			t.Error(got)
		}
		other := label
		other.Member = 1
		if got := c.Status(other, well); got != well {
			t.Error(got)
		}
	})
}

// TestANoteThatCantBeRead: what is damaged has failed; what can't be read for now is known when it can, and a member without an order never fails.
func TestANoteThatCantBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{}
		begins := begun(t, r)
		c := &Copier{Dir: begins.Dir, Left: begins.Left, Log: begins.Log, Run: begins.Run, Target: begins.Target}
		other := label
		other.Member = 1
		if err := os.WriteFile(c.file(other), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := c.Status(other, runs); got.Code != failed || !strings.Contains(got.Text, "what its host noted of them is damaged") {
			t.Errorf("%+v", got)
		}
		other.Member = 2
		away := c.Dir + ".away" // with a file in its place, which is no folder
		if err := errors.Join(os.Rename(c.Dir, away), os.WriteFile(c.Dir, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		for _, l := range []work.Label{label, other} {
			if got := c.Status(l, runs); got != runs {
				t.Errorf("%+v", got)
			}
			if got := c.Status(l, work.Status{State: task.Exited, Code: 3}); got.Code != 3 {
				t.Errorf("%+v", got)
			}
			if got := c.Status(l, well); got.State != task.Started || !strings.Contains(got.Text, "can't read yet whether") {
				t.Errorf("%+v", got)
			}
			if c.Finish(t.Context(), l) == nil || c.Over(l) == nil {
				t.Error("it is as if there was nothing to be copied")
			}
		}
		if err := errors.Join(os.Remove(c.Dir), os.Rename(away, c.Dir)); err != nil {
			t.Fatal(err)
		}
		is(t, c, runs, "started 0 not ready |")
		if r.count() != 1 {
			t.Errorf("%d copies", r.count())
		}
		if got := c.Status(other, well); got != well {
			t.Errorf("%+v", got)
		}
		if err := c.Forget(label); err != nil {
			t.Error(err)
		}
	})
}

// TestNothingIsCopiedBeforeItMayGoOn: a SWOP that was restarted asks its owner about what another process has begun, which goes on meanwhile.
func TestNothingIsCopiedBeforeItMayGoOn(t *testing.T) {
	for _, may := range []work.May{work.Yes, work.No} {
		synctest.Test(t, func(t *testing.T) {
			r := &remote{}
			begins := begun(t, r)
			var answer atomic.Int64
			answer.Store(int64(work.NotYet))
			c := &Copier{Dir: begins.Dir, Left: begins.Left, Log: begins.Log, Run: begins.Run, Target: begins.Target, Stays: func(context.Context, work.Label) work.Answer {
				return work.Answer{May: work.May(answer.Load()), Why: "h refuses it"}
			}}
			is(t, c, runs, "started 0 not ready |")
			time.Sleep(time.Hour)
			is(t, c, well, "ready 0 its program has ended with code 0, and what it has left is copied to target bucket |")
			if r.count() > 0 {
				t.Errorf("%d copies", r.count())
			}
			time.Sleep(time.Hour)
			answer.Store(int64(may))
			if err := c.Finish(t.Context(), label); err != nil {
				t.Error(err)
			}
			want, copies := "exited 0  |", 1
			if may == work.No {
				want, copies = "exited -1 its program has ended with code 0, and what it has left could not be copied to target bucket: its host was restarted, and does not let it go on: h refuses it |", 0
			}
			if is(t, c, well, want); r.count() != copies {
				t.Errorf("%d copies, want %d", r.count(), copies)
			}
		})
	}
}
