package stopfile

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/work"
)

// slow is a file system of which each look takes a while.
type slow struct {
	mu    sync.Mutex
	takes time.Duration
	files map[string]bool
	err   error
	looks int
}

func (s *slow) lstat(name string) (fs.FileInfo, error) {
	s.mu.Lock()
	is, takes, err := s.files[filepath.Base(name)], s.takes, s.err // as it was when it was asked
	s.looks++
	s.mu.Unlock()
	time.Sleep(takes)
	switch {
	case err != nil:
		return nil, err
	case !is:
		return nil, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
	}
	return nil, nil //nolint:nilnil // nobody asks what it is
}

func (s *slow) make(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = true
}

func labelled(member uint32) work.Label { return work.Label{Assignment: "7", Epoch: 1, Member: member} }

// TestLastWordBesideAnotherMember: a member that ended while its folder was looked at for another one says what is there by then, and both share a look.
func TestLastWordBesideAnotherMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &slow{takes: 100 * time.Millisecond, files: map[string]bool{}}
		s := &Looks{Lstat: fake.lstat}
		var all sync.WaitGroup
		all.Go(func() {
			if asks := s.Asks(t.Context(), slog.New(slog.DiscardHandler), "/run", true); asks != "" {
				t.Errorf("before there is a file: %s", asks)
			}
		})
		time.Sleep(150 * time.Millisecond) // it has asked for both
		fake.make(Fail)
		for i := range uint32(2) {
			all.Go(func() {
				x := s.Last(t.Context(), slog.New(slog.DiscardHandler), labelled(i), "/run", work.Status{State: task.Exited})
				if x.State != task.Exited || x.Asks != task.AskFail || x.Code != failedCode || x.Text != failWords {
					t.Errorf("member %d has ended beside stop_fail: %+v", i, x)
				}
			})
		}
		all.Wait()
		if fake.looks != 4 {
			t.Errorf("%d looks at files, want two at each", fake.looks)
		}
		if len(s.looks) != 0 {
			t.Errorf("looks go on: %v", s.looks)
		}
	})
}

// TestAMembersEndWaitsForASlowFolder: until it is known which files there are the member is said to run, and not for longer than a host waits for that.
func TestAMembersEndWaitsForASlowFolder(t *testing.T) {
	for name, tt := range map[string]struct {
		takes time.Duration
		err   error
		want  work.Status
		after time.Duration
	}{
		"in the end it answers": {5 * time.Second, nil, work.Status{State: task.Exited, Code: failedCode, Text: failWords, Asks: task.AskFail}, 10 * time.Second},
		"it never does":         {time.Hour, nil, work.Status{State: task.Exited, Text: unseenWords}, lastLook},
		"it can't be read":      {0, errors.New("stale"), work.Status{State: task.Exited, Text: unseenWords}, lastLook},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := &slow{takes: tt.takes, err: tt.err, files: map[string]bool{Fail: true}}
				said := &strings.Builder{}
				s, log := &Looks{Lstat: fake.lstat}, slog.New(slog.NewTextHandler(said, nil))
				began := time.Now()
				for {
					x := s.Last(t.Context(), log, labelled(0), "/run", work.Status{State: task.Exited})
					if x.State == task.Exited {
						if x != tt.want {
							t.Errorf("it ended as %+v, want %+v", x, tt.want)
						}
						break
					}
					if x.State != task.Started || x.Text != waitsWords {
						t.Fatalf("until then it is %+v", x)
					}
					time.Sleep(2 * time.Second)
				}
				if took := time.Since(began); took < tt.after || took > tt.after+3*time.Second {
					t.Errorf("its end was known after %v, want %v", took, tt.after)
				}
				if n := strings.Count(said.String(), "does not answer"); n > 2 {
					t.Errorf("said %d times that the folder does not answer:\n%s", n, said)
				}
				s.Forget(labelled(0))
				if len(s.ended) != 0 {
					t.Errorf("it is remembered: %v", s.ended)
				}
				time.Sleep(5 * time.Hour) // no look outlives the test
			})
		})
	}
}

// TestAMembersFailureWaitsForNoFolder: its exit code is said though nobody can see yet whether there is a file.
func TestAMembersFailureWaitsForNoFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Looks{Lstat: (&slow{takes: time.Minute, files: map[string]bool{Stop: true}}).lstat}
		began := time.Now()
		x := s.Last(t.Context(), slog.New(slog.DiscardHandler), labelled(0), "/run", work.Status{State: task.Exited, Code: 3, Text: "why"})
		if want := (work.Status{State: task.Exited, Code: 3, Text: "why"}); x != want {
			t.Errorf("it ended as %+v, want %+v", x, want)
		}
		if took := time.Since(began); took > stopLook {
			t.Errorf("its end was known after %v, want %v at most", took, stopLook)
		}
		time.Sleep(time.Hour) // no look outlives the test
	})
}
