package swop

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/swarmd/swarmd/internal/work"
)

// Lines says what a host does in the lines of the original's SWOP, which scripts wait for. It is safe for concurrent use.
type Lines struct {
	Log *slog.Logger

	mu   sync.Mutex
	now  map[work.Label]string // tasks that are carried out
	done int
}

// Ready says that the host takes tasks.
func (l *Lines) Ready() { l.say("Ready for Task Execution!") }

// Of has what an executor does said.
func (l *Lines) Of(t work.Type) work.Type {
	if t.Executor != nil {
		t.Executor = spoken{t.Executor, l}
	}
	return t
}

func (l *Lines) say(format string, args ...any) { l.Log.Info(fmt.Sprintf(format, args...)) } //nolint:sloglint // contractual text

// begins says that the host begins with a task, and ends that it knows whether it can.
func (l *Lines) begins(j work.Job) (ends func()) {
	l.mu.Lock()
	if l.now == nil {
		l.now = map[work.Label]string{}
	}
	l.now[j.Label] = j.Task.Name
	l.mu.Unlock()
	enrol := fmt.Sprintf("ENROLL TO Task : %s , opId : %s - ", j.Task.Name, j.Label.Assignment)
	l.say("%sBegins", enrol)
	return func() { l.say("%sEnds", enrol) }
}

// over says that nothing of a task is left, if it was said that the host begins with it.
func (l *Lines) over(label work.Label) {
	l.mu.Lock()
	name, was := l.now[label]
	if was {
		delete(l.now, label)
		l.done++
	}
	done, idle := l.done, len(l.now) == 0
	l.mu.Unlock()
	if !was {
		return
	}
	l.say("Stopping Task")
	l.say("Total Tasks: %d , Current Task : %s Done", done, name)
	if idle {
		l.Ready()
	}
}

// spoken is an executor whose work is said.
type spoken struct {
	work.Executor

	lines *Lines
}

// Prepare implements work.Executor.
func (s spoken) Prepare(ctx context.Context, j work.Job) error {
	defer s.lines.begins(j)()
	return s.Executor.Prepare(ctx, j)
}

// Clean implements work.Executor.
func (s spoken) Clean(ctx context.Context, l work.Label) error {
	err := s.Executor.Clean(ctx, l)
	if _, left := work.PartingOf(err); left == nil {
		s.lines.over(l)
	}
	return err
}
