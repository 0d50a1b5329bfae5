package upload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/swarmd/swarmd/internal/pause"
	"github.com/swarmd/swarmd/internal/work"
)

// failure is why a copy has failed.
type failure struct {
	words string // tell nothing of the host
	said  string // may: what rclone said last
}

// Error implements error.
func (f *failure) Error() string {
	if f.said == "" {
		return f.words
	}
	return f.words + ": " + f.said
}

// errLate is why copies are broken off.
var errLate = &failure{words: fmt.Sprintf("it was not done within %v", limit)}

// copyAll copies what a member leaves, if its owner lets it, and notes what has become of it.
func (c *Copier) copyAll(ctx context.Context, l work.Label, m *member) {
	err := c.stays(ctx, l, m)
	if err == nil {
		err = c.inTime(ctx, l, m)
	}
	if ctx.Err() != nil {
		return // it was forgotten
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m.Done = err == nil
	if err != nil {
		f := asFailure(err)
		m.Failed, m.Said = f.words, f.said
		c.Log.Warn("gave up copying artifacts of a member", "target", m.Target, "to", m.Under, "assignment", l.Assignment, "member", l.Member, "err", err)
	}
	if err := m.write(c.file(l)); err != nil { // another process copies once more
		c.Log.Warn("can't note that the artifacts of a member were copied", "assignment", l.Assignment, "member", l.Member, "err", err)
	}
}

// stays waits until it is known whether a member that another process has begun may go on, with a new policy perhaps. An error is that it may not, or
// that ctx ended before.
func (c *Copier) stays(ctx context.Context, l work.Label, m *member) error {
	for !m.begun && c.Stays != nil {
		switch a := c.Stays(ctx, l); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case a.May == work.Yes:
			return nil
		case a.May == work.No:
			return &failure{words: "its host was restarted, and does not let it go on: " + a.Why}
		}
		if err := pause.For(ctx, askPause); err != nil {
			return err
		}
	}
	return nil
}

// inTime copies what a member leaves, while it runs and for the last time when it has ended, which has its limit.
func (c *Copier) inTime(ctx context.Context, l work.Label, m *member) error {
	own, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-own.Done():
		case <-m.now.ended:
			_ = pause.For(own, limit)
			cancel(errLate)
		}
	}()
	if err := c.whileRunning(own, l, m); err != nil {
		return err
	}
	return c.lastly(own, l, m)
}

// errEnded is why a copy is broken off that was begun before the program has ended: the last one copies all.
var errEnded = errors.New("its program has ended")

// whileRunning copies again and again until the member's program has ended. An error is that none was ever made: what goes wrong later, as with files
// that are changed while they are read, is told, and ends no program that runs.
func (c *Copier) whileRunning(ctx context.Context, l work.Label, m *member) error {
	select {
	case <-m.now.ended: // before anything was copied
		return nil
	default:
	}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-m.now.ended:
			stop(errEnded)
		case <-running.Done():
		}
	}()
	for inVain := 0; ; {
		wait, err := m.Every, error(nil)
		if running.Err() == nil {
			err = c.once(running, l, m, true)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case running.Err() != nil:
			return nil
		case err == nil:
			inVain = 0
		default:
			if inVain++; inVain == 1 {
				c.Log.Warn("can't copy artifacts of a member, and try again", "target", m.Target, "to", m.Under, "assignment", l.Assignment, "member", l.Member, "err", err)
			}
			if inVain < tries {
				wait = min(wait, pauseFor)
			} else if !m.Well {
				return err
			}
			c.fails(m, err)
		}
		_ = pause.For(running, wait)
	}
}

// fails notes why the first copy failed that did.
func (c *Copier) fails(m *member, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.now.fails == "" {
		m.now.fails = asFailure(err).words
	}
}

// lastly makes the last copy.
func (c *Copier) lastly(ctx context.Context, l work.Label, m *member) (err error) {
	for try := range tries {
		if try > 0 && pause.For(ctx, pauseFor) != nil {
			break
		}
		err = c.once(ctx, l, m, false)
		if p, _ := partialOf(err); err == nil || p != nil { // the next copy would have no more
			return err
		}
		if ctx.Err() != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// once makes one copy. Where nothing was left the target is only tried.
func (c *Copier) once(ctx context.Context, l work.Label, m *member, try bool) error {
	o := m.Order
	target := c.Target(o.Target)
	if target == "" {
		return &failure{words: "the policy of its host has no target of that name any more: add it to targets there"}
	}
	of := o.Target
	if !try {
		of += " last" // no target is called so
	}
	leave, err := c.turn(ctx, of)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLate)
	defer cancel()
	dir, files, left, err := c.Left.Snapshot(ctx, l)
	c.leaves(l, m, left)
	x := Copy{From: dir, To: placeAt(target, o.Under), All: !try, First: try && !m.Well}
	partial, err := partialOf(err)
	switch run := c.Run; {
	case !try && files == 0 && partial == nil && (err == nil || errors.Is(err, fs.ErrNotExist)): // as of a member that was not started
		err = nil
	case err != nil:
	case run == nil:
		err = rclone(ctx, x)
	default:
		err = run(ctx, x)
	}
	if err = errors.Join(err, c.Left.Drop(l)); err == nil && !m.Well {
		c.began(l, m)
	}
	if err == nil && partial != nil {
		return partial
	}
	return err
}

// partialOf takes apart an error of a snapshot: one that has but a part is copied.
func partialOf(err error) (*work.Partial, error) {
	if p, is := errors.AsType[*work.Partial](err); is {
		return p, nil
	}
	return nil, err
}

// turn waits until one of so many copies may be made at a time. Whoever has it calls leave.
func (c *Copier) turn(ctx context.Context, of string) (leave func(), err error) {
	c.mu.Lock()
	turns := c.turns[of]
	if turns == nil {
		if c.turns == nil {
			c.turns = map[string]chan struct{}{}
		}
		turns = make(chan struct{}, atOnce)
		c.turns[of] = turns
	}
	c.mu.Unlock()
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// began notes that a copy was made, also for a process that goes on.
func (c *Copier) began(l work.Label, m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.Well = true // which none but this goroutine looks at
	if err := m.write(c.file(l)); err != nil {
		c.Log.Warn("can't note that artifacts of a member were copied", "assignment", l.Assignment, "member", l.Member, "err", err)
	}
}

// leaves notes how much is left out of a copy, which the log says once.
func (c *Copier) leaves(l work.Label, m *member, left int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Left == 0 && left > 0 {
		c.Log.Warn("some of what a member has left is not copied: links, and what is no file",
			"entries", left, "target", m.Target, "assignment", l.Assignment, "member", l.Member)
	}
	m.Left = left
}

// asFailure is an error in words for the swarm, and in those that are for this host's owner, and for whom logs go to.
func asFailure(err error) *failure {
	if f, is := errors.AsType[*failure](err); is {
		return f
	}
	if p, _ := partialOf(err); p != nil {
		return &failure{words: p.Words}
	}
	if lasting, is := errors.AsType[*work.Lasting](err); is {
		return &failure{words: lasting.Words}
	}
	return &failure{words: "its host can't read what it has left: see its SWOP's log", said: work.LastLines([]string{err.Error()})}
}
