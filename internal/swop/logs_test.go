package swop_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/swop"
	"github.com/swarmd/swarmd/internal/work"
)

// printer is an executor with members that print. One that is followed prints until it is cleaned up.
type printer struct {
	executor

	mu      sync.Mutex
	said    map[work.Label][]string
	cleaned chan struct{}
}

func (p *printer) Print(ctx context.Context, l work.Label, tail int, follow bool, emit func(from, line string) error) error {
	p.mu.Lock()
	said := p.said[l]
	p.mu.Unlock()
	for _, line := range said[max(len(said)-tail, 0):] {
		if err := emit(fmt.Sprint("sl-", l.Member), line); err != nil {
			return err
		}
	}
	if follow {
		select {
		case <-ctx.Done():
		case <-p.cleaned:
			return emit(fmt.Sprint("sl-", l.Member), "the end")
		}
	}
	return nil
}

func (p *printer) Find(ctx context.Context) ([]work.Found, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.executor.Find(ctx)
}

func (p *printer) Clean(ctx context.Context, l work.Label) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.said, l)
	select {
	case <-p.cleaned:
	default:
		close(p.cleaned)
	}
	return p.executor.Clean(ctx, l)
}

func labelled(assignment string, epoch, member uint32) work.Label {
	return work.Label{Swarm: "s", Node: "h-0", Assignment: assignment, Epoch: epoch, Member: member}
}

func newPrinter(labels ...work.Label) *printer {
	p := &printer{said: map[work.Label][]string{}, cleaned: make(chan struct{})}
	for _, l := range labels {
		p.found = append(p.found, work.Found{Label: l})
		p.said[l] = []string{"one", "two", fmt.Sprintf("of %s %d %d", l.Assignment, l.Epoch, l.Member)}
	}
	return p
}

// hostLogs are those of a host with one executor, which is also how it cleans up.
func hostLogs(t *testing.T, p work.Executor, hosted ...string) (l swop.Logs, clean func(work.Label) error) {
	t.Helper()
	kept := &swop.Kept{Dir: t.TempDir() + "/logs", Log: slog.New(slog.DiscardHandler)}
	l = swop.Logs{Node: "h-0", SwarmID: func() string { return "s" }, View: swop.NewView(), Types: map[string]work.Type{task.RunSwarm: {Executor: p}}, Kept: kept}
	var all []task.Hosted
	for _, id := range hosted {
		all = append(all, task.Hosted{Request: task.Request{ID: id}, Members: []task.HostedMember{{Index: 0}}})
	}
	l.View.Take(all)
	return l, func(label work.Label) error {
		return kept.Of(l.Types[task.RunSwarm]).Executor.Clean(t.Context(), label)
	}
}

func read(ctx context.Context, l swop.Logs, w logs.Wanted) (got []string, err error) {
	var mu sync.Mutex
	err = l.Log(ctx, w, func(line logs.Line) error {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, strings.TrimPrefix(line.From+": ", ": ")+line.Text)
		return nil
	})
	slices.Sort(got)
	return got, err
}

// TestLogsOfATask holds what a host hands out of a task that runs, and once it is gone.
func TestLogsOfATask(t *testing.T) {
	first, second, other := labelled("7", 2, 0), labelled("7", 2, 1), labelled("8", 1, 0)
	p := newPrinter(labelled("7", 1, 0), first, second, other)
	l, clean := hostLogs(t, p, "7", "8", "9")
	want := []string{"sl-0: of 7 2 0", "sl-0: two", "sl-1: of 7 2 1", "sl-1: two"}
	if got, err := read(t.Context(), l, logs.Wanted{Assignment: "7", Tail: 2}); err != nil || !slices.Equal(got, want) {
		t.Errorf("while it runs: %q, %v", got, err)
	}
	if err := errors.Join(clean(labelled("7", 1, 0)), clean(first), clean(second), clean(second), clean(other)); err != nil {
		t.Fatal(err)
	}
	if len(p.found) > 0 {
		t.Errorf("left: %v", p.found)
	}
	if got, err := read(t.Context(), l, logs.Wanted{Assignment: "7", Tail: 2}); err != nil || !slices.Equal(got, want) {
		t.Errorf("once it is gone: %q, %v", got, err)
	}
	for id, says := range map[string]string{"9": "has started nothing of assignment 9 yet", "10": "has no log of assignment 10", "../7": "has no log", "7_": "has no log", "": "keeps no log of its own"} {
		if got, err := read(t.Context(), l, logs.Wanted{Assignment: id, Tail: 2}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %q, %v", id, got, err)
		}
	}
}

// TestLogsThatAreFollowed holds that a log that is followed begins with what is started later, and ends with the task.
func TestLogsThatAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrinter()
		l, clean := hostLogs(t, p, "7")
		label := labelled("7", 1, 0)
		time.AfterFunc(10*time.Second, func() {
			started := newPrinter(label)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.found, p.said = started.found, started.said
		})
		time.AfterFunc(60*time.Second, func() {
			if err := clean(label); err != nil {
				t.Error(err)
			}
			l.View.Take(nil)
		})
		begun := time.Now()
		got, err := read(t.Context(), l, logs.Wanted{Assignment: "7", Tail: 1, Follow: true})
		if took := time.Since(begun); err != nil || !slices.Equal(got, []string{"sl-0: of 7 1 0", "sl-0: the end"}) || took != time.Minute {
			t.Errorf("%q, %v after %v", got, err, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l.View.Take([]task.Hosted{{Request: task.Request{ID: "9"}, Members: []task.HostedMember{{}}}})
		if got, err := read(ctx, l, logs.Wanted{Assignment: "9", Follow: true}); err != nil || len(got) > 0 {
			t.Errorf("of an operator who goes: %q, %v", got, err)
		}
	})
}

// TestLogsOfMembersThatFollowEachOther holds that a log that is followed has members that are started later, and those that were gone before
// they could be seen.
func TestLogsOfMembersThatFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, third := labelled("7", 2, 0), labelled("7", 2, 1), labelled("7", 2, 2)
		p := newPrinter(labelled("7", 1, 1), labelled("7", 1, 3), first, second)
		l, clean := hostLogs(t, p, "7")
		if err := errors.Join(clean(labelled("7", 1, 1)), clean(labelled("7", 1, 3))); err != nil {
			t.Fatal(err)
		}
		p.cleaned = make(chan struct{})
		p.found[1].State = task.Prepared
		said := p.said[second]
		p.said[second] = nil
		time.AfterFunc(10*time.Second, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.found[1].State, p.said[second] = task.Started, said
		})
		time.AfterFunc(60*time.Second, func() {
			more := newPrinter(third)
			p.mu.Lock()
			p.said[third] = more.said[third]
			p.mu.Unlock()
			if err := errors.Join(clean(third), clean(first), clean(second)); err != nil {
				t.Error(err)
			}
			l.View.Take(nil)
		})
		got, err := read(t.Context(), l, logs.Wanted{Assignment: "7", Tail: 1, Follow: true})
		if want := []string{"sl-0: of 7 2 0", "sl-0: the end", "sl-1: of 7 2 1", "sl-1: the end", "sl-2: of 7 2 2"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v", got, err)
		}
		running := labelled("7", 3, 1)
		p.found, p.said = newPrinter(running).found, newPrinter(running).said
		if got, err := read(t.Context(), l, logs.Wanted{Assignment: "7", Tail: 1}); err != nil || !slices.Equal(got, []string{"sl-1: of 7 3 1"}) {
			t.Errorf("of the next epoch: %q, %v", got, err)
		}
	})
}

// TestKeptIsBounded holds how much a host keeps of what has ended.
func TestKeptIsBounded(t *testing.T) {
	p := newPrinter()
	l, clean := hostLogs(t, p)
	for i := range 70 {
		label := labelled(fmt.Sprint(i), 1, 0)
		p.said[label] = slices.Repeat([]string{strings.Repeat("x", 1000)}, 500)
		if err := clean(label); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(l.Kept.Dir)
	if err != nil || len(entries) != 64 {
		t.Errorf("%d files, %v", len(entries), err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Size() > 300<<10 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %d bytes, %v, %v", e.Name(), info.Size(), info.Mode(), err)
		}
	}
	if got, err := read(t.Context(), l, logs.Wanted{Assignment: "69", Tail: 10_000}); err != nil || len(got) < 250 || len(got) > 262 {
		t.Errorf("%d lines, %v", len(got), err)
	}
}
