package upload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/work"
)

var label = work.Label{Swarm: "s", Node: "h", Assignment: "7", Epoch: 1}

// shelf is what members leave: so many files, and so much that is no file.
type shelf struct {
	files, left int
	err         error
}

func (s shelf) Snapshot(context.Context, work.Label) (string, int, int, error) {
	return "/snapshot", s.files, s.left, s.err
}

func (shelf) Drop(work.Label) error { return nil }

// remote is where copies go to. It notes when each began.
type remote struct {
	began time.Time
	fails func(copied int) error // of the copy so many came before; nil: none fails
	takes time.Duration          // as long as ctx lets it

	mu    sync.Mutex
	times []string
}

func (r *remote) copy(ctx context.Context, x Copy) error {
	r.mu.Lock()
	n, takes, fails := len(r.times), r.takes, r.fails
	what := ""
	if x.All {
		what = " all"
	}
	if x.First {
		what += " first"
	}
	r.times = append(r.times, fmt.Sprintf("%v %s %s%s", time.Since(r.began), x.From, x.To, what))
	r.mu.Unlock()
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if fails != nil {
		return fails(n)
	}
	return nil
}

// from has copies take that long and fail so from now on.
func (r *remote) from(takes time.Duration, fails func(int) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takes, r.fails = takes, fails
}

func (r *remote) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.times)
}

// begun is a Copier with a member that was started now.
func begun(t *testing.T, r *remote, change ...func(*Order)) *Copier {
	t.Helper()
	r.began = time.Now()
	c := &Copier{
		Dir: t.TempDir(), Left: shelf{files: 1}, Log: slog.New(slog.DiscardHandler), Run: r.copy,
		Target: func(name string) string { return map[string]string{"bucket": "lab:models", "nas": "nas:"}[name] },
	}
	o := Order{Target: "bucket", Under: "x-7/0/node/0", Every: time.Minute}
	for _, f := range change {
		f(&o)
	}
	if err := c.Begin(label, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Forget(label); err != nil {
			t.Error(err)
		}
	})
	return c
}

var (
	runs = work.Status{State: task.Started, Text: "not ready"}
	well = work.Status{State: task.Exited}
)

// is holds what a member's status comes to when all that can be done now is.
func is(t *testing.T, c *Copier, s work.Status, want string) {
	t.Helper()
	c.Status(label, s)
	synctest.Wait()
	got := c.Status(label, s)
	if words := strings.TrimSpace(fmt.Sprintf("%s %d %s | %s", got.State, got.Code, got.Text, got.Said)); words != want {
		t.Errorf("%q, want %q", words, want)
	}
}

// TestCopiesUntilTheEnd: at the start, each time that was asked for, and once more when the program has ended, which is waited for.
func TestCopiesUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{}
		c := begun(t, r, func(o *Order) { o.Target = "nas" })
		is(t, c, work.Status{State: task.Prepared}, "prepared 0  |")
		if r.count() > 0 {
			t.Error("it was copied before it has started")
		}
		is(t, c, runs, "started 0 not ready |")
		time.Sleep(150 * time.Second)
		r.from(20*time.Second, nil)
		is(t, c, well, "ready 0 its program has ended with code 0, and what it has left is copied to target nas |")
		time.Sleep(21 * time.Second)
		is(t, c, well, "exited 0  |")
		if err := c.Finish(t.Context(), label); err != nil {
			t.Error(err)
		}
		const to = " /snapshot nas:x-7/0/node/0"
		if got, want := strings.Join(r.times, ","), "0s"+to+" first,1m0s"+to+",2m0s"+to+",2m30s"+to+" all"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if err := c.Forget(label); err != nil {
			t.Error(err)
		}
		is(t, c, well, "exited 0  |")
		if left, err := os.ReadDir(c.Dir); len(left) > 0 || err != nil {
			t.Error(left, err)
		}
	})
}

// TestCopiesThatFail end the member with their reason where none has succeeded, and at the end; those between are told, and tried for ever.
func TestCopiesThatFail(t *testing.T) {
	why := &failure{words: "rclone ended with code 1", said: "wrong key"}
	const ends = "what it has left could not be copied to target bucket: rclone ended with code 1 | wrong key"
	synctest.Test(t, func(t *testing.T) {
		r := &remote{fails: func(int) error { return why }}
		c := begun(t, r)
		is(t, c, runs, "started 0 not ready; a copy of what it has left to target bucket has failed, and others follow: rclone ended with code 1 |")
		time.Sleep(11 * time.Second)
		is(t, c, runs, "exited -1 "+ends)
		is(t, c, work.Status{State: task.Exited, Code: 3, Text: "its own"}, "exited 3 its own |")
		if err := c.Finish(t.Context(), label); err != nil || r.count() != 3 {
			t.Errorf("%d tries, %v", r.count(), err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := &remote{fails: func(n int) error {
			if n == 0 {
				return nil
			}
			return why
		}}
		c := begun(t, r)
		is(t, c, runs, "started 0 not ready |")
		time.Sleep(61 * time.Second)
		is(t, c, runs, "started 0 not ready; a copy of what it has left to target bucket has failed, and others follow: rclone ended with code 1 |")
		is(t, c, work.Status{State: task.Ready}, "ready 0 a copy of what it has left to target bucket has failed, and others follow: rclone ended with code 1 |")
		time.Sleep(5 * time.Hour)
		before := r.count()
		again := &Copier{Dir: c.Dir, Left: c.Left, Log: c.Log, Run: c.Run, Target: c.Target} // a SWOP that was restarted knows that it went well
		is(t, again, runs, "started 0 not ready; a copy of what it has left to target bucket has failed, and others follow: rclone ended with code 1 |")
		time.Sleep(5 * time.Hour)
		if n := r.count() - before; n < 300 || n > 2*310 { // each minute, and a few times soon
			t.Errorf("copied %d times in 5 hours", n)
		}
		r.from(0, nil)
		time.Sleep(2 * time.Minute) // the swarm takes few words: those of the first failure stay
		is(t, again, runs, "started 0 not ready; a copy of what it has left to target bucket has failed, and others follow: rclone ended with code 1 |")
		is(t, again, well, "exited 0  |")
		if err := again.Forget(label); err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := &remote{fails: func(n int) error { return map[bool]error{true: why}[n > 0] }}
		c := begun(t, r)
		is(t, c, runs, "started 0 not ready |")
		is(t, c, well, "ready 0 its program has ended with code 0, and what it has left is copied to target bucket |")
		time.Sleep(11 * time.Second)
		is(t, c, well, "exited -1 its program has ended with code 0, and "+ends)
		again := &Copier{Dir: c.Dir, Left: c.Left, Log: c.Log, Run: c.Run, Target: c.Target} // a SWOP that was restarted
		is(t, again, well, "exited -1 its program has ended with code 0, and "+ends)
		if r.count() != 4 {
			t.Errorf("copied %d times", r.count())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := &remote{}
		c := begun(t, r, func(o *Order) { o.Target = "gone" })
		is(t, c, runs, "started 0 not ready; a copy of what it has left to target gone has failed, and others follow: the policy of its host has no target of that name any more: add it to targets there |")
		time.Sleep(time.Minute)
		is(t, c, runs, "exited -1 what it has left could not be copied to target gone: the policy of its host has no target of that name any more: add it to targets there |")
	})
	synctest.Test(t, func(t *testing.T) {
		c := begun(t, &remote{})
		c.Left = shelf{err: &work.Lasting{Words: "it has left too many files", Err: errors.New("too many")}}
		is(t, c, runs, "started 0 not ready; a copy of what it has left to target bucket has failed, and others follow: it has left too many files |")
		time.Sleep(time.Minute)
		is(t, c, runs, "exited -1 what it has left could not be copied to target bucket: it has left too many files |")
	})
	synctest.Test(t, func(t *testing.T) {
		r := &remote{}
		c := begun(t, r)
		c.Left = shelf{err: errors.New("link model: too many links")}
		is(t, c, runs, "started 0 not ready; a copy of what it has left to target bucket has failed, and others follow: its host can't read what it has left: see its SWOP's log |")
		time.Sleep(time.Minute)
		is(t, c, runs, "exited -1 what it has left could not be copied to target bucket: its host can't read what it has left: see its SWOP's log | link model: too many links")
	})
}

// TestACopyThatTakesTooLong is tried again, and one that is under way when the program ends does not keep the last one waiting.
func TestACopyThatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{takes: 100 * time.Hour}
		c := begun(t, r)
		is(t, c, runs, "started 0 not ready |")
		time.Sleep(61 * time.Minute)
		is(t, c, runs, "started 0 not ready; a copy of what it has left to target bucket has failed, and others follow: it was not done within 1h0m0s |")
		r.from(time.Minute, nil)
		time.Sleep(61 * time.Minute)
		is(t, c, runs, "started 0 not ready; a copy of what it has left to target bucket has failed, and others follow: it was not done within 1h0m0s |")
		r.from(50*time.Minute, nil)
		time.Sleep(5 * time.Minute)
		is(t, c, well, "ready 0 its program has ended with code 0, and what it has left is copied to target bucket |")
		time.Sleep(51 * time.Minute)
		is(t, c, well, "exited 0  |")
	})
}

// TestTheLastCopyHasItsTime: it is broken off after that, and Finish waits for it as long as it may.
func TestTheLastCopyHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{takes: 100 * time.Hour}
		c := begun(t, r)
		fails := work.Status{State: task.Exited, Code: 3}
		is(t, c, fails, "exited 3  |")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := c.Finish(ctx, label); err == nil || !strings.Contains(err.Error(), "what it has left is still copied to target bucket") {
			t.Error(err)
		}
		is(t, c, well, "ready 0 its program has ended with code 0, and what it has left is copied to target bucket |")
		if err := c.Finish(t.Context(), label); err != nil || time.Since(r.began) != time.Hour {
			t.Errorf("after %v: %v", time.Since(r.began), err)
		}
		is(t, c, well, "exited -1 its program has ended with code 0, and what it has left could not be copied to target bucket: it was not done within 1h0m0s |")
	})
}

// TestALastCopyThatFails is told when nothing is left of the member, also by another process.
func TestALastCopyThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{}
		c := begun(t, r)
		is(t, c, runs, "started 0 not ready |")
		r.from(0, func(int) error { return &failure{words: "rclone ended with code 1", said: "bucket is full"} })
		if err := c.Finish(t.Context(), label); err != nil {
			t.Error(err)
		}
		again := &Copier{Dir: c.Dir, Left: c.Left, Log: c.Log, Run: c.Run, Target: c.Target}
		p, err := work.PartingOf(again.Over(label))
		if want := (work.Parting{Code: -1, Text: "what it has left could not be copied to target bucket: rclone ended with code 1", Said: "bucket is full"}); err != nil || p == nil || *p != want {
			t.Errorf("%+v, %v", p, err)
		}
		later := &Copier{Dir: c.Dir, Left: c.Left, Log: c.Log, Run: c.Run, Target: c.Target} // of a SWOP that was stopped before it could tell
		if p, err := work.PartingOf(later.Over(label)); err != nil || p == nil || p.Code != -1 {
			t.Errorf("of the next process: %+v, %v", p, err)
		}
		time.Sleep(failedFor)
		other, damaged := label, label
		other.Assignment, damaged.Assignment = "8", "9"
		old := time.Now().Add(-failedFor)
		if err := errors.Join(os.WriteFile(c.file(damaged), []byte("{"), 0o600), os.Chtimes(c.file(label), old, old), os.Chtimes(c.file(damaged), old, old)); err != nil {
			t.Error(err)
		}
		if err := errors.Join(later.Begin(other, Order{}), later.Over(label), later.Over(damaged)); err != nil {
			t.Error("a day later:", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := begun(t, &remote{})
		if err := errors.Join(c.Finish(t.Context(), label), c.Over(label)); err != nil {
			t.Error(err)
		}
	})
}

// TestAPartOfWhatWasLeft that can't be had fails the member, and the rest of it is copied, once: also where nothing else is there.
func TestAPartOfWhatWasLeft(t *testing.T) {
	for _, files := range []int{1, 0} {
		synctest.Test(t, func(t *testing.T) {
			r := &remote{}
			c := begun(t, r)
			c.Left = shelf{files: files, err: &work.Partial{Words: "its host can't read 1 files"}}
			for range 10 {
				is(t, c, runs, "started 0 not ready; a copy of what it has left to target bucket has failed, and others follow: its host can't read 1 files |")
				time.Sleep(time.Minute)
			}
			before := r.count()
			if err := c.Finish(t.Context(), label); err != nil {
				t.Error(err)
			}
			if n := r.count() - before; before < 5 || n != 1 {
				t.Errorf("%d copies before its end, %d last ones", before, n)
			}
			is(t, c, well, "exited -1 its program has ended with code 0, and what it has left could not be copied to target bucket: its host can't read 1 files |")
		})
	}
}

// TestWhatIsLeftOut of a copy is said where the member has ended well, or was ended, and once in the log.
func TestWhatIsLeftOut(t *testing.T) {
	const says = "3 entries of what it has left were not copied to target bucket: links, or what is no file"
	synctest.Test(t, func(t *testing.T) {
		c, lines := begun(t, &remote{}), &strings.Builder{}
		c.Left, c.Log = shelf{files: 1, left: 3}, slog.New(slog.NewTextHandler(lines, nil))
		is(t, c, runs, "started 0 not ready |")
		time.Sleep(10 * time.Minute)
		is(t, c, well, "exited 0 "+says+" |")
		if n := strings.Count(lines.String(), "entries=3"); n != 1 {
			t.Errorf("%d times in the log: %s", n, lines)
		}
		if p, err := work.PartingOf(c.Over(label)); err != nil || p == nil || *p != (work.Parting{Text: says}) {
			t.Errorf("%+v, %v", p, err)
		}
	})
}
