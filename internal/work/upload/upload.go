// Package upload has rclone copy what members of jobs leave to where their hosts' owners say, while they run and when they have ended. A member has ended
// for the swarm when the last copy is made, or was given up: then it has failed.
package upload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/work"
)

const (
	// limit bounds the last copy, from the end of the program on, and any other.
	limit = time.Hour
	// tries is how often the first copy and the last one are tried: what is wrong with a target is seen at the first. Those between are tried for ever, so
	// often soon.
	tries    = 3
	pauseFor = 5 * time.Second  // between two tries
	askPause = 10 * time.Second // between two questions whether a member goes on
	// atOnce is how many copies of a host are made at a time to a target while programs run, and how many last ones: a target that does not answer keeps
	// no other waiting.
	atOnce = 2
)

// failed is the exit code of a member that has failed for its artifacts.
const failed = -1

// Copier copies what members leave. It is safe for concurrent use; nil copies nothing.
type Copier struct {
	Dir  string // keeps what is to be copied, so that another process goes on
	Left Left
	// Target is what rclone calls the target of a name, by the host's owner; empty: there is none.
	Target func(name string) string
	// Stays says whether the owner still lets an assignment be carried out that another process has begun: nothing of it is copied before that is known.
	// Nil: it may.
	Stays func(ctx context.Context, l work.Label) work.Answer
	Log   *slog.Logger
	// Run makes a copy; nil: rclone does.
	Run func(ctx context.Context, x Copy) error

	mu    sync.Mutex
	all   map[work.Label]*member // nil: there is no order for it
	blind error                  // of the last note that could not be read
	turns map[string]chan struct{}
}

// Copy is one copy of a folder.
type Copy struct {
	From, To string
	All      bool // also what seems to be there already
	First    bool // nothing was copied there yet: a small file is put there before, so that a copy of nothing fails too where nobody may write
}

// Left has what members leave.
type Left interface {
	// Snapshot makes a folder with the files that a member has left, and counts them, and what is left out.
	Snapshot(ctx context.Context, l work.Label) (dir string, files, left int, err error)
	// Drop removes that folder.
	Drop(l work.Label) error
}

// member is one whose artifacts are copied. The Copier's mu guards it.
type member struct {
	note

	begun bool // by this process
	now   course
}

// course is how the copies of a member go on.
type course struct {
	stop  context.CancelFunc
	over  chan struct{} // closed when no copy follows; nil: none has begun
	ended chan struct{} // closed when its program has ended
	at    time.Time     // when that was; zero: it runs
	fails string        // why the first copy failed that did, while it runs; empty: none has
}

// Begin notes what is to be copied of a member that is about to start.
func (c *Copier) Begin(l work.Label, o Order) error {
	if c == nil {
		return errors.New("this host copies no artifacts")
	}
	if err := errors.Join(c.Forget(l), atomicfile.Sweep(c.Dir, sweepAfter), sweepFailed(c.Dir, time.Now())); err != nil {
		return err
	}
	n := note{Order: o}
	if err := n.write(c.file(l)); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(l, n).begun = true
	return nil
}

// add has a member be known.
func (c *Copier) add(l work.Label, n note) *member {
	if c.all == nil {
		c.all = map[work.Label]*member{}
	}
	m := &member{note: n, now: course{ended: make(chan struct{})}}
	c.all[l] = m
	return m
}

// Forget ends what copies a member's artifacts, and forgets it.
func (c *Copier) Forget(l work.Label) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	m := c.all[l]
	delete(c.all, l)
	c.mu.Unlock()
	if m != nil && m.now.over != nil {
		m.now.stop()
		<-m.now.over
	}
	return removed(c.file(l))
}

// Over forgets a member of which nothing else is left. An error that is a [work.Parting] says that its last copy was given up, or not of all; whoever
// knows of the member as ended already was told so. The note of one that was given up stays for a while: who is told of it may be the next process.
func (c *Copier) Over(l work.Label) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	m, err := c.member(l)
	var p *work.Parting
	switch {
	case err != nil:
		c.mu.Unlock()
		return err
	case m == nil:
	case m.Failed != "":
		p = &work.Parting{Code: failed, Text: m.words(false), Said: m.Said}
		delete(c.all, l) // no copy of it goes on
		c.mu.Unlock()
		return p
	case m.Left > 0:
		p = &work.Parting{Text: m.leftOut()}
	}
	c.mu.Unlock()
	if err := c.Forget(l); err != nil || p == nil {
		return err
	}
	return p
}

// Status is what has become of a member whose program has come to s: it runs on until the last copy is made.
func (c *Copier) Status(l work.Label, s work.Status) work.Status {
	if c == nil {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.State != task.Started && s.State != task.Ready && s.State != task.Exited {
		return s
	}
	m, err := c.member(l)
	switch {
	case err != nil && s.State == task.Exited && s.Code == 0: // it may have an order: the next look tells
		return work.Status{State: task.Started, Text: "its program has ended with code 0, and its host can't read yet whether what it has left is to be copied: see its SWOP's log"}
	case m == nil:
		return s
	}
	if s.State == task.Exited {
		m.end()
	}
	if m.Failed == "" {
		c.goOn(l, m)
	}
	switch {
	case s.State == task.Exited && s.Code != 0: // which says more
		return s
	case m.Failed != "":
		return work.Status{State: task.Exited, Code: failed, Text: m.words(s.State == task.Exited), Said: m.Said}
	case s.State != task.Exited:
		if m.now.fails != "" { // in words that stay: the swarm takes few, and none of a member that is ready
			s.Text = strings.TrimPrefix(s.Text+"; ", "; ") + fmt.Sprintf("a copy of what it has left to target %s has failed, and others follow: %s", m.Target, m.now.fails)
		}
		return s
	case m.Done && (!m.Serves || time.Since(m.now.at) >= limit):
		if s.Text == "" {
			s.Text = m.leftOut()
		}
		return s
	}
	return work.Status{State: task.Ready, Text: "its program has ended with code 0, and what it has left is copied to target " + m.Target}
}

// Finish makes the last copy of what a member has left, whose program has ended, unless it is made or was given up, which Over says. It blocks until
// then: an error is that ctx ended before, and the copy goes on, or that nobody can say now whether there is to be one.
func (c *Copier) Finish(ctx context.Context, l work.Label) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	m, err := c.member(l)
	if m == nil || m.Done || m.Failed != "" {
		c.mu.Unlock()
		return err
	}
	m.end()
	c.goOn(l, m)
	c.mu.Unlock()
	select {
	case <-m.now.over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("what it has left is still copied to target %s: %w", m.Target, ctx.Err())
	}
}

// member is one that is known, or was noted by a process before; nil: nothing of it is copied. An error is that this is not to be known now: what
// can't be read for now is read again. A note that is damaged stays so, and the member has failed.
func (c *Copier) member(l work.Label) (*member, error) {
	if m, known := c.all[l]; known {
		return m, nil
	}
	n, err := noteIn(c.file(l))
	_, damaged := errors.AsType[*damage](err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if c.all == nil {
			c.all = map[work.Label]*member{}
		}
		c.all[l] = nil
		return nil, nil
	case err != nil && !damaged:
		if c.blind == nil {
			c.Log.Warn("what was noted of artifacts that are to be copied can't be read, and is tried again", "err", err)
		}
		c.blind = err
		return nil, err
	case damaged:
		c.Log.Warn("what was noted of artifacts that are to be copied is damaged: see the disk", "err", err)
		n.Failed = "what its host noted of them is damaged: see its SWOP's log"
	}
	c.blind = nil
	return c.add(l, n), nil
}

// end says that the member's program has ended.
func (m *member) end() {
	if m.now.at.IsZero() {
		m.now.at = time.Now()
		close(m.now.ended)
	}
}

// words say why a member has failed for its artifacts.
func (m *member) words(ended bool) string {
	s := fmt.Sprintf("what it has left could not be copied to target %s: %s", m.Target, m.Failed)
	if ended {
		s = "its program has ended with code 0, and " + s
	}
	return s
}

// leftOut says what the last copy was made without; empty: nothing.
func (m *member) leftOut() string {
	if m.Left == 0 {
		return ""
	}
	many := fmt.Sprintf("%d entries of what it has left were", m.Left)
	if m.Left == 1 {
		many = "1 entry of what it has left was"
	}
	return fmt.Sprintf("%s not copied to target %s: links, or what is no file", many, m.Target)
}

// goOn has a member's artifacts copied, unless they are.
func (c *Copier) goOn(l work.Label, m *member) {
	if m.now.over != nil || m.Done {
		return
	}
	var ctx context.Context
	ctx, m.now.stop = context.WithCancel(context.Background()) // until it is forgotten
	m.now.over = make(chan struct{})
	go func() {
		defer close(m.now.over)
		c.copyAll(ctx, l, m)
	}()
}

// file has the note of a member.
func (c *Copier) file(l work.Label) string {
	return filepath.Join(c.Dir, fmt.Sprintf("%s_%010d_%010d.json", l.Assignment, l.Epoch, l.Member))
}
