package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// sight is what an executor has found last.
type sight struct {
	found   []Found
	ok      bool // it has, at least once
	at      int  // the host's count when that look began
	looking bool
	last    time.Time // when the last look ended
	failing time.Time // since when looks are in vain; zero: the last one was not
	err     error     // of the last look
}

// unanswered is the error of a look that was given no answer for as long as it may take.
type unanswered struct{ err error }

// Error implements error.
func (u *unanswered) Error() string { return fmt.Sprintf("no answer within %v: %v", lookLimit, u.err) }

// Unwrap returns what the executor said.
func (u *unanswered) Unwrap() error { return u.err }

// mute reports whether a look was in vain because nobody answered. An engine may answer pings, and nothing else.
func mute(err error) bool {
	_, late := errors.AsType[*unanswered](err)
	return late || engine.OutOfReach(err)
}

// look has executors look for what there is, where it is time.
func (h *Host) look(ctx context.Context, now time.Time) {
	pause := look
	if len(h.members) == 0 {
		pause = lookIdle
	}
	for kind, s := range h.sights {
		if s.looking || now.Sub(s.last) < pause {
			continue
		}
		s.looking = true
		at, executor := h.count, h.cfg.Types[kind].Executor
		h.workers.Go(func() {
			own, cancel := context.WithTimeout(ctx, lookLimit)
			defer cancel()
			found, err := executor.Find(own)
			if err != nil && own.Err() != nil {
				err = &unanswered{err}
			}
			select {
			case <-ctx.Done():
			case h.done <- func() { h.saw(kind, at, found, err) }:
			}
		})
	}
}

// saw takes what was found.
func (h *Host) saw(kind string, at int, found []Found, err error) {
	now, s := time.Now(), h.sights[kind]
	s.looking, s.last, s.err = false, now, err
	found = slices.DeleteFunc(found, func(f Found) bool { return f.Swarm != h.cfg.SwarmID || f.Node != h.cfg.Node })
	if tell := h.cfg.Types[kind].Saw; tell != nil {
		tell(found, err)
	}
	if err != nil {
		if s.failing.IsZero() {
			s.failing = now
			h.cfg.Log.Warn("can't see what runs of the swarm's tasks on this host", "task_type", kind, "err", err)
		}
		return
	}
	if !s.failing.IsZero() {
		h.cfg.Log.Info("what runs of the swarm's tasks on this host can be seen again", "task_type", kind)
	}
	s.found, s.ok, s.at, s.failing = found, true, at, time.Time{}
	for _, f := range found {
		m := h.member(f.Label, now)
		if m.kind == "" {
			m.kind = kind
		}
		if m.gone && at >= m.due.since {
			m.gone, m.cleaned = false, false // it came late, such as from an engine that was asked before
		}
	}
}

// seen returns what was found of a member; sure says that a nil is no matter of not having looked.
func (h *Host) seen(m *member) (found *Found, sure bool) {
	sure = true
	for kind, s := range h.sights {
		if m.kind != "" && m.kind != kind {
			continue
		}
		if !s.ok || s.at < m.due.since {
			sure = false
			continue
		}
		if i := slices.IndexFunc(s.found, func(f Found) bool { return f.Label == m.label }); i >= 0 {
			return &s.found[i], true
		}
	}
	return nil, sure
}

// blind returns why it was in vain for long to look for members of a type, of any type for the empty one; nil: it was not.
func (h *Host) blind(kind string, now time.Time) error {
	for name, s := range h.sights {
		if (kind == "" || kind == name) && !s.failing.IsZero() && now.Sub(s.failing) >= blindLimit {
			return s.err
		}
	}
	return nil
}
