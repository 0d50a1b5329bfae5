package content_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/content"
	"github.com/swarmd/swarmd/internal/work/volume"
)

// outage is an engine that goes away at one of its calls: it does what it was asked, nobody hears of that, and nothing is done from then on.
type outage struct {
	mu    sync.Mutex
	calls int // until it goes away
	away  bool
}

var errGone = errors.New("gone")

func (o *outage) ask(*http.Request) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away {
		return errGone
	}
	return nil
}

func (o *outage) answer(r *http.Response) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := r.Request.URL.Path; strings.HasSuffix(p, "/info") || strings.HasSuffix(p, "/_ping") { // somebody else's watch
		return nil
	}
	if o.calls--; o.calls == 0 {
		o.away = true
	}
	if o.away {
		return errGone
	}
	return nil
}

// goesAway has the engine go away at the call of a number; 0: never.
func (o *outage) goesAway(call int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls, o.away = call, false
}

// TestAnEngineThatGoesAwayWhileItFills, at whatever call (every sixth): another try fills the volumes, and nothing else is left.
func TestAnEngineThatGoesAwayWhileItFills(t *testing.T) {
	l, o := newLab(t), &outage{}
	s, _ := served(t)
	address := enginetest.Between(t, l.engine, enginetest.Faults{Ask: o.ask, Answer: o.answer})
	l.cfg.Open = func(ctx context.Context) (*engine.Engine, error) { return engine.OpenAt(ctx, address) }
	f, j := content.New(l.cfg), job(making(l.name, "SWARMCONTENT", "[{Operation: DOWNLOAD, Target: '"+s.URL+"/file', Options: null}]"))
	failed := 0
	for call := 1; ; call += enginetest.Step() {
		o.goesAway(call)
		_, err := f.Start(t.Context(), j)
		o.goesAway(0)
		if err == nil {
			break
		}
		failed++
		if _, passes := errors.AsType[*work.Passing](err); !passes {
			t.Errorf("call %d: %v", call, err)
		}
		if got, err := f.Start(t.Context(), j); err != nil || got.State != task.Exited || got.Code != 0 {
			t.Fatalf("after call %d: %+v, %v", call, got, err)
		}
		want := []string{"volume " + l.name + "-0", "volume " + l.name + "-1"}
		left := enginetest.Left(t, l.engine, l.scope)
		if slices.Sort(left); !slices.Equal(want, left) {
			t.Fatalf("after call %d: %q", call, left)
		}
		if d := cmp.Diff([]string{"file 644 "}, l.has(l.name+"-1")); d != "" { // it is filled last
			t.Errorf("after call %d: %s", call, d)
		}
		for _, name := range []string{l.name + "-0", l.name + "-1"} {
			if err := l.engine.VolumeRemove(t.Context(), name, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	if failed < 12/enginetest.Step() { // two volumes that are looked for, opened, filled and closed
		t.Errorf("it went away at %d calls", failed)
	}
}

// TestAnEngineThatGoesAwayAgain, at whatever call that removes what a try before has filled in part: that is known as such, and is nothing
// that another task may use, until it is removed and filled anew.
func TestAnEngineThatGoesAwayAgain(t *testing.T) {
	l, o := newLab(t), &outage{}
	s, _ := served(t)
	address := enginetest.Between(t, l.engine, enginetest.Faults{Ask: o.ask, Answer: o.answer})
	l.cfg.Open = func(ctx context.Context) (*engine.Engine, error) { return engine.OpenAt(ctx, address) }
	f, j := content.New(l.cfg), job(making(l.name, "BUILDCONTENT", "[{Operation: DOWNLOAD, Target: '"+s.URL+"/file', Options: null}]"))
	other := j
	other.Assignment.ID, other.Label.Assignment = "8", "8"
	labels := volume.Labels(j.Label, engine.RoleContent, l.scope)
	labels[engine.LabelTask] = j.Task.Digest
	known := 0
	for call := 1; ; call++ {
		v, err := volume.Open(t.Context(), l.engine, l.name, false, labels)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Put(t.Context(), bytes.NewReader(archive(t, tar.Header{Name: "half", Typeflag: tar.TypeDir, Mode: 0o755}))); err != nil {
			t.Fatal(err)
		}
		o.goesAway(call)
		_, err = f.Start(t.Context(), j)
		o.goesAway(0)
		if err == nil {
			t.Fatal("it went away at no call")
		}
		if _, err := l.engine.VolumeInspect(t.Context(), l.name); err == nil {
			known++
			for what, err := range map[string]error{"use": volume.Check(t.Context(), l.engine, l.name, []string{l.name}), "fill": f.Prepare(t.Context(), other)} {
				if err == nil || !strings.Contains(err.Error(), "is not filled yet, by assignment \"7\"") {
					t.Errorf("after call %d another task may %s it: %v", call, what, err)
				}
			}
		}
		if err := f.Prepare(t.Context(), j); err != nil {
			t.Errorf("after call %d: %v", call, err)
		}
		if _, err := f.Start(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"file 644 "}, l.has(l.name)); d != "" {
			t.Errorf("after call %d: %s", call, d)
		}
		if err := volume.Check(t.Context(), l.engine, l.name, nil); err != nil {
			t.Error(err)
		}
		if err := l.engine.VolumeRemove(t.Context(), l.name, false); err != nil {
			t.Fatal(err)
		}
		if call > known+2 { // it was removed, and its mark after it
			break
		}
	}
	if known < 4 { // it was looked for, closed, and looked at
		t.Errorf("it was there after %d calls", known)
	}
}

// TestAServerThatIsAwayIsNoEngine: what can't be fetched ends the member, and the engine is not blamed.
func TestAServerThatIsAwayIsNoEngine(t *testing.T) {
	l := newLab(t)
	s, _ := served(t)
	tt := making(l.name, "BUILDCONTENT", "[{Operation: DOWNLOAD, Target: '"+s.URL+"/file', Options: null}]")
	s.Close()
	_, err := content.New(l.cfg).Start(t.Context(), job(tt))
	if _, passes := errors.AsType[*work.Passing](err); passes || err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
}
