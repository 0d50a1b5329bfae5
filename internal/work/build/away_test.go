package build_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/build"
	"github.com/swarmd/swarmd/internal/work/volume"
)

// outage is an engine that goes away at one of its calls: it does what it was asked, nobody hears of that, and nothing is done from then on.
type outage struct {
	mu    sync.Mutex
	calls int // until it goes away
	half  bool
	away  bool
	built bool // it was asked to build
}

var errGone = errors.New("gone")

func (o *outage) ask(r *http.Request) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away {
		return errGone
	}
	o.built = o.built || strings.HasSuffix(r.URL.Path, "/build")
	return nil
}

func (o *outage) answer(r *http.Response) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := r.Request.URL.Path
	if strings.HasSuffix(p, "/info") || strings.HasSuffix(p, "/_ping") { // somebody else's watch
		return nil
	}
	if o.half && strings.HasSuffix(p, "/build") {
		o.away, r.Body = true, &half{ReadCloser: r.Body}
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
func (o *outage) goesAway(call int, half bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls, o.half, o.away, o.built = call, half, false, false
}

// half is an answer that ends amid a message.
type half struct {
	io.ReadCloser

	read bool
}

func (h *half) Read(p []byte) (int, error) {
	if h.read {
		return 0, errGone
	}
	h.read = true
	return h.ReadCloser.Read(p[:min(len(p), 9)])
}

// opened are the containers by which volumes are open for the job.
func (l *lab) opened() int {
	l.t.Helper()
	all, err := l.engine.ContainerList(l.t.Context(), container.ListOptions{All: true, Filters: volume.Filtered(volume.Labels(job(nil).Label, engine.RoleBuild, l.scope))})
	if err != nil {
		l.t.Fatal(err)
	}
	return len(all)
}

// remove removes the outcome, so that it is built again.
func (l *lab) remove() {
	l.t.Helper()
	if _, err := l.engine.ImageRemove(l.t.Context(), l.outcome, image.RemoveOptions{PruneChildren: true}); err != nil {
		l.t.Fatal(err)
	}
}

// through has a lab's engine reached through an outage.
func (l *lab) through(o *outage) {
	address := enginetest.Between(l.t, l.engine, enginetest.Faults{Ask: o.ask, Answer: o.answer})
	l.cfg.Open = func(ctx context.Context) (*engine.Engine, error) { return engine.OpenAt(ctx, address) }
}

// TestAnEngineThatGoesAwayAroundABuild, at whatever call (every sixth): another try makes the image if none was building, and leaves nothing. A build
// that was begun is not done again, and the swarm is told why.
func TestAnEngineThatGoesAwayAroundABuild(t *testing.T) {
	l, o := newLab(t), &outage{}
	l.through(o)
	b, tt := build.New(l.cfg), made(l.outcome, l.volume(map[string]string{"x": "y"}), "FROM "+enginetest.TestImage, "COPY . /c")
	passed, lasted := 0, 0
	for call := 1; ; call += enginetest.Step() {
		o.goesAway(call, false)
		_, err := b.Start(t.Context(), job(tt))
		built := o.built
		o.goesAway(0, false)
		if err == nil {
			break
		}
		if _, lasts := errors.AsType[*work.Lasting](err); lasts {
			if lasted++; !built {
				t.Errorf("call %d: %v", call, err)
			}
		} else if _, passes := errors.AsType[*work.Passing](err); passes {
			passed++
		} else {
			t.Errorf("call %d: %v", call, err)
		}
		if got, err := b.Start(t.Context(), job(tt)); err != nil || got.State != task.Exited || got.Code != 0 {
			t.Fatalf("after call %d: %+v, %v", call, got, err)
		}
		if err := b.Clean(t.Context(), job(tt).Label); err != nil {
			t.Fatal(err)
		}
		if _, there := l.there(); !there || l.opened() > 0 {
			t.Errorf("after call %d: the image is there: %v; %d volumes are open", call, there, l.opened())
		}
		l.remove()
	}
	if passed < 10/enginetest.Step() || lasted == 0 && enginetest.Step() == 1 {
		t.Errorf("it passed %d times, and lasted %d times", passed, lasted)
	}
}

// TestAnEngineThatGoesAwayInABuild, amid its answer.
func TestAnEngineThatGoesAwayInABuild(t *testing.T) {
	l, o := newLab(t), &outage{}
	l.through(o)
	o.goesAway(0, true)
	b, tt := build.New(l.cfg), made(l.outcome, "", "FROM "+enginetest.TestImage, "RUN sleep 0.5")
	_, err := b.Start(t.Context(), job(tt))
	lasting, lasts := errors.AsType[*work.Lasting](err)
	if !lasts || !strings.Contains(lasting.Words, "went away while it built") || !strings.Contains(lasting.Words, "assign the task again") || len(lasting.Words) > task.MaxText {
		t.Errorf("got %v", err)
	}
	o.goesAway(0, false)
	if err := b.Clean(t.Context(), job(tt).Label); err != nil {
		t.Error(err)
	}
	left, err := l.engine.ContainerList(t.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", engine.LabelBuild+"="+mark(l.scope)))})
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestAnEngineThatIsStoppedInABuild, in order, as it is for a restart.
func TestAnEngineThatIsStoppedInABuild(t *testing.T) {
	p := enginetest.Private(t)
	e := p.Engine()
	cfg := config("stopped")
	cfg.Open = func(ctx context.Context) (*engine.Engine, error) { return engine.OpenAt(ctx, p.Host()) }
	b := build.New(cfg)
	ended := make(chan error, 1)
	go func() {
		_, err := b.Start(t.Context(), job(made("outcome-stopped:1", "", "FROM "+enginetest.TestImage, "RUN trap 'exit 143' TERM; sleep 600 & wait")))
		ended <- err
	}()
	running := func() bool {
		all, err := e.ContainerList(t.Context(), container.ListOptions{Filters: filters.NewArgs(filters.Arg("label", engine.LabelBuild+"="+mark("stopped")))})
		return err == nil && len(all) == 1
	}
	for !running() {
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	p.Stop()
	err := <-ended
	if lasting, lasts := errors.AsType[*work.Lasting](err); !lasts || !strings.Contains(lasting.Words, "went away while it built") {
		t.Errorf("got %v", err)
	}
}

// TestAnEngineThatEndsAStepAsItGoesAway, and says still that the step has failed: that is told only where the engine answers.
func TestAnEngineThatEndsAStepAsItGoesAway(t *testing.T) {
	for said, may := range map[string]bool{ // whether an engine that is away may be why
		`{"errorDetail":{"code":143,"message":"returned a non-zero code: 143"},"error":"returned a non-zero code: 143"}`: true,
		`{"errorDetail":{"code":137,"message":"returned a non-zero code: 137"},"error":"returned a non-zero code: 137"}`: true,
		`{"errorDetail":{"message":"context canceled"},"error":"context canceled"}`:                                      true,
		`{"errorDetail":{"code":1,"message":"returned a non-zero code: 1"},"error":"returned a non-zero code: 1"}`:       false,
	} {
		for _, goes := range []bool{true, false} {
			l := newLab(t)
			var gone atomic.Bool
			address := enginetest.Between(t, l.engine, enginetest.Faults{
				Ask: func(*http.Request) error {
					if gone.Load() {
						return errGone
					}
					return nil
				},
				Answer: func(r *http.Response) error {
					if strings.HasSuffix(r.Request.URL.Path, "/build") {
						gone.Store(goes)
						_, _ = io.Copy(io.Discard, r.Body) // the step has ended then
						_ = r.Body.Close()
						r.Body = io.NopCloser(strings.NewReader(said + "\n"))
					}
					return nil
				},
			})
			l.cfg.Open = func(ctx context.Context) (*engine.Engine, error) { return engine.OpenAt(ctx, address) }
			b := build.New(l.cfg)
			s, err := b.Start(t.Context(), job(made(l.outcome, "", "FROM "+enginetest.TestImage, "RUN exit 1")))
			_, lasts := errors.AsType[*work.Lasting](err)
			if lasts != (may && goes) || !lasts && (err != nil || s.State != task.Exited || s.Code == 0) {
				t.Errorf("%s; the engine goes away: %v: %+v, %v", said, goes, s, err)
			}
			gone.Store(false)
			if err := b.Clean(t.Context(), job(nil).Label); err != nil {
				t.Error(err)
			}
		}
	}
}
