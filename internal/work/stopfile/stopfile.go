// Package stopfile sees the files in the folder of a job's run that ask for its end, or say that it has failed. A folder of a network may not answer: only the end
// of a member waits for it, and not for long.
package stopfile

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/work"
)

// Stop ends a run when it is in its folder, whatever it has: whoever can write there can make it. Fail has one fail whose members' exits count, as with
// compat: oci.
const (
	Stop = "stop"
	Fail = "stop_fail"
)

// stopLook is how long a host waits for a folder of a network to say whether it is there, and lastLook for how long a member that has ended is said to run
// where its end waits for that.
const (
	stopLook = 500 * time.Millisecond
	lastLook = 30 * time.Second
)

// Looks are those of a host at the folders of runs, each time that their members are looked at. The zero value has none. All methods are safe for concurrent
// use.
type Looks struct {
	Lstat func(name string) (fs.FileInfo, error) // os.Lstat if it is nil

	mu    sync.Mutex
	looks map[string]*folderLook    // that go on, by their folders: one at a time
	ended map[work.Label]*endedPart // members whose exits count
}

// endedPart is a member that has ended.
type endedPart struct {
	seen time.Time   // first
	look *folderLook // that began after that
}

// folderLook is one at the folder of a run, for all who ask meanwhile.
type folderLook struct {
	began time.Time     // or when somebody began to wait for it
	over  chan struct{} // closed when the folder has answered
	next  *folderLook   // begins then; nil: nobody waits for one
	late  bool          // it was said that it does not answer

	stop, fail bool  // which files there are
	err        error // it could not be seen
}

// Asks is what a member's host asks of its job: its end, if there is a stop file in the folder of its run, or with exits that count that it has failed. A
// folder that does not answer in time says nothing.
func (s *Looks) Asks(ctx context.Context, log *slog.Logger, folder string, exits bool) string {
	if folder == "" {
		return ""
	}
	asks, _ := s.await(ctx, log, folder, s.current(folder), exits)
	return asks
}

// Last is how a member ended whose exit counts where there is such a file: it says so with its end, and has failed if the file says that. A look that began
// after the end tells. Until there was one a member that ended with 0 is said to run, as its end is the last that anybody hears of it; one that has failed is
// not.
func (s *Looks) Last(ctx context.Context, log *slog.Logger, l work.Label, folder string, x work.Status) work.Status {
	if folder == "" {
		return x
	}
	end := s.lastOf(l, folder)
	asks, known := s.await(ctx, log, folder, end.look, true)
	switch {
	case !known && x.Code != 0: // no file makes it another end, and the grace of the others may be over before the folder answers
		return x
	case !known && time.Since(end.seen) < lastLook:
		return work.Status{State: task.Started, Text: waitsWords}
	case !known:
		log.WarnContext(ctx, "a member has ended, and nobody could see whether there is a stop file in the folder of its run: its exit code stands", "folder", folder, "assignment", l.Assignment, "code", x.Code)
		if x.Text == "" {
			x.Text = unseenWords
		}
	case asks == task.AskFail && x.Code == 0:
		x.Code, x.Text = failedCode, failWords
	}
	x.Asks = asks
	return x
}

// failedCode is the exit code of a member that ended with 0 and has failed.
const failedCode = -1

const (
	failWords   = "there is a file " + Fail + " in the folder of its run"
	waitsWords  = "its program has ended, and its host waits for the folder of its run to say whether there is a file " + Stop
	unseenWords = "its host could not see whether there is a file " + Stop + " in the folder of its run: see the disk or the server that it is on"
)

// current returns the look that goes on, or one that begins now.
func (s *Looks) current(folder string) *folderLook {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begin(folder, false)
}

// begin returns the look that goes on, or one that begins now if there is none. A fresh one begins after the call: when the one that goes on is over. Its
// caller has the lock.
func (s *Looks) begin(folder string, fresh bool) *folderLook {
	now := s.looks[folder]
	switch {
	case now != nil && fresh:
		if now.next == nil {
			now.next = newLook()
		}
		return now.next
	case now != nil:
		return now
	}
	if s.looks == nil {
		s.looks = map[string]*folderLook{}
	}
	first := newLook()
	s.looks[folder] = first
	go func() { // it outlives the call if the folder does not answer
		for next := first; next != nil; {
			next = s.look(folder, next)
		}
	}()
	return first
}

func newLook() *folderLook { return &folderLook{began: time.Now(), over: make(chan struct{})} }

// failed reports whether it is over, and could not be done.
func (l *folderLook) failed() bool {
	select {
	case <-l.over:
		return l.err != nil
	default:
		return false
	}
}

// look does so, and returns the next one, if somebody waits for that.
func (s *Looks) look(folder string, l *folderLook) *folderLook {
	var lost error
	l.stop, l.err = s.has(folder, Stop)
	l.fail, lost = s.has(folder, Fail)
	l.err = errors.Join(l.err, lost)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.next == nil {
		delete(s.looks, folder)
	} else {
		s.looks[folder] = l.next
	}
	close(l.over)
	return l.next
}

func (s *Looks) has(folder, name string) (bool, error) {
	lstat := os.Lstat
	if s.Lstat != nil {
		lstat = s.Lstat
	}
	_, err := lstat(filepath.Join(folder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// await waits for a look, and returns what it has a host ask; known is false if that can't be said.
func (s *Looks) await(ctx context.Context, log *slog.Logger, folder string, l *folderLook, exits bool) (asks string, known bool) {
	late := time.NewTimer(time.Until(l.began.Add(stopLook))) // one for which others have waited in vain keeps nobody
	defer late.Stop()
	select {
	case <-l.over:
	case <-ctx.Done():
		return "", false
	case <-late.C:
		select {
		case <-l.over:
		default:
			s.tellLate(ctx, log, folder, l)
			return "", false
		}
	}
	switch {
	case l.fail && exits:
		return task.AskFail, true
	case l.stop:
		return task.AskStop, l.err == nil
	}
	return "", l.err == nil
}

// tellLate tells once of a look that the folder does not answer.
func (s *Looks) tellLate(ctx context.Context, log *slog.Logger, folder string, l *folderLook) {
	s.mu.Lock()
	told := l.late
	l.late = true
	s.mu.Unlock()
	if !told {
		log.WarnContext(ctx, "the folder of a run does not answer: nobody sees a stop file there", "folder", folder)
	}
}

// lastOf returns when a member was first seen to have ended, and the look that tells how: another one if it could not be seen.
func (s *Looks) lastOf(l work.Label, folder string) endedPart {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = map[work.Label]*endedPart{}
	}
	x := s.ended[l]
	if x == nil {
		x = &endedPart{seen: time.Now()}
		s.ended[l] = x
	}
	if x.look == nil || x.look.failed() {
		x.look = s.begin(folder, true)
	}
	return *x
}

// Forget forgets a member.
func (s *Looks) Forget(l work.Label) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ended, l)
}
