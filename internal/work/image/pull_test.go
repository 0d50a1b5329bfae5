package image_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	dockerimage "github.com/docker/docker/api/types/image"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/image"
)

// pull is a task on a registry.
func pull(address, outcome, tag, auth string) work.Job {
	t := &task.Task{
		Name: "fetch", Type: task.PullImage, Prereq: task.Root, Outcome: outcome,
		Definition: fmt.Appendf(nil, "OrgAndReg: %s/org\nRepoName: image\nTag: %q\nAuth: %s\n", address, tag, auth),
	}
	t.Digest = t.Sum()
	return work.Job{Label: work.Label{Assignment: "7", Epoch: 1}, Task: t}
}

type lab struct {
	t        *testing.T
	engine   *engine.Engine
	registry *enginetest.Registry
	puller   *image.Puller
	outcome  string
	digests  []string // of images that the registry had
}

// newLab has a registry, and an engine from which the images of the test go with it.
func newLab(t *testing.T) *lab {
	e, r := enginetest.Engine(t), enginetest.NewRegistry(t)
	l := &lab{t: t, engine: e, registry: r, outcome: "outcome-" + strings.ReplaceAll(r.Address, ":", "-") + ":2", digests: []string{r.Digest}}
	l.puller = &image.Puller{Open: engine.Open, Log: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() {
		names := []string{l.outcome, r.Address + "/org/image:1.0"}
		for _, d := range l.digests {
			names = append(names, r.Address+"/org/image@"+d)
		}
		for _, name := range names {
			_, _ = e.ImageRemove(context.Background(), name, dockerimage.RemoveOptions{}) // it may not be there
		}
	})
	return l
}

// move gives the registry's tag to another image, and returns the digests of the one that had it and of the one that has it.
func (l *lab) move() (was, is string) {
	l.registry.Move(l.t)
	l.digests = append(l.digests, l.registry.Digest)
	return l.digests[len(l.digests)-2], l.registry.Digest
}

// found is the image of a task.
func (l *lab) found(t *task.Task) *policy.Image {
	l.t.Helper()
	got, err := l.puller.Image(l.t.Context(), t)
	if err != nil || got.Check() != nil {
		l.t.Fatal(got, err)
	}
	return got
}

// digestsThere are those that the engine has for the outcome.
func (l *lab) digestsThere() string {
	l.t.Helper()
	got, err := l.engine.ImageInspect(l.t.Context(), l.outcome)
	if err != nil {
		l.t.Fatal(err)
	}
	return strings.Join(got.RepoDigests, " ")
}

// fetch carries a job out, of which everybody thinks well.
func (l *lab) fetch(ctx context.Context, j work.Job) (work.Status, error) {
	var err error
	if j.Image, err = l.puller.Image(ctx, j.Task); err != nil {
		return work.Status{}, err
	}
	if err := l.puller.Prepare(ctx, j); err != nil {
		return work.Status{}, err
	}
	return l.puller.Start(ctx, j)
}

func (l *lab) there() bool {
	_, err := l.engine.ImageInspect(l.t.Context(), l.outcome)
	return err == nil
}

func said(err error) string {
	var with interface{ Remedy() string }
	if errors.As(err, &with) {
		return fmt.Sprintf("%v: %s", err, with.Remedy())
	}
	return fmt.Sprint(err)
}

func TestAnImageIsFetchedAndNamed(t *testing.T) {
	l := newLab(t)
	for _, tag := range []string{"1.0", "1.0", l.registry.Digest, "1.0@" + l.registry.Digest, "of-old@" + l.registry.Digest} {
		got, err := l.fetch(t.Context(), pull(l.registry.Address, l.outcome, tag, "null"))
		if err != nil || got.State != task.Exited || got.Code != 0 || !strings.Contains(got.Text, "image "+l.outcome+" is there: sha256:") || !l.there() {
			t.Errorf("%s: %+v, %v", tag, got, err)
		}
	}
}

// TestWhatWasDecidedOnIsFetched: the registry's tag moves after the host has found the image. The one that was found is fetched, and is an
// error once the registry has it no longer.
func TestWhatWasDecidedOnIsFetched(t *testing.T) {
	l := newLab(t)
	j := pull(l.registry.Address, l.outcome, "1.0", "null")
	waits := l.registry.Hold() // no layer is sent
	j.Image = l.found(j.Task)
	select {
	case <-waits:
		t.Error("before anybody has decided the image is fetched")
	default:
		l.registry.Release()
	}
	was, is := l.move()
	if want := was + " (" + l.registry.Address + "/org/image:1.0)"; j.Image.String() != want || j.Image.ID != "" {
		t.Errorf("found %s, want %s", j.Image, want)
	}
	for range 2 { // the host may be restarted in between
		if got, err := l.puller.Start(t.Context(), j); err != nil || got.State != task.Exited || !strings.Contains(l.digestsThere(), was) || strings.Contains(l.digestsThere(), is) {
			t.Fatalf("%+v, %v: %s", got, err, l.digestsThere())
		}
	}
	if again := l.found(j.Task); again.Digests[0] != is {
		t.Errorf("the next look finds %s", again)
	}
	j.Image = l.found(j.Task)
	l.registry.Forget(is)
	if _, err := l.puller.Start(t.Context(), j); err == nil || !strings.Contains(said(err), "has it no longer: correct the task's Tag, or assign the task anew") {
		t.Error(said(err))
	}
	j.Image = nil
	if _, err := l.puller.Start(t.Context(), j); err == nil || !strings.Contains(said(err), "nobody has decided") {
		t.Error(said(err))
	}
}

// TestWhatARegistryDoesNotTell: the image is not known, with the reason, and may be fetched by its name. A name with a digest asks nobody.
func TestWhatARegistryDoesNotTell(t *testing.T) {
	l := newLab(t)
	l.registry.Protect("ann", "of:3")
	j := pull(l.registry.Address, l.outcome, "1.0", "null")
	j.Image = l.found(j.Task)
	if !strings.Contains(j.Image.Unknown, "give the task Auth for registry "+l.registry.Address) {
		t.Errorf("%+v", j.Image)
	}
	l.registry.Protect("", "")
	if _, err := l.puller.Start(t.Context(), j); err != nil || !strings.Contains(l.digestsThere(), l.registry.Digest) {
		t.Error(err)
	}
	l.puller.Open = func(context.Context) (*engine.Engine, error) { return nil, errors.New("no engine") }
	for _, tag := range []string{l.registry.Digest, "1.0@" + l.registry.Digest} {
		if got := l.found(pull(l.registry.Address, l.outcome, tag, "null").Task); got.Digests[0] != l.registry.Digest {
			t.Errorf("%s is found as %+v", tag, got)
		}
	}
}

// TestPodmanTellsNoDigest: its socket can't ask a registry, which is no reason to fetch nothing.
func TestPodmanTellsNoDigest(t *testing.T) {
	r := enginetest.NewRegistry(t)
	t.Setenv("DOCKER_HOST", enginetest.Podman(t))
	p := &image.Puller{Open: engine.Open, Log: slog.New(slog.DiscardHandler)}
	got, err := p.Image(t.Context(), pull(r.Address, "outcome", "1.0", "null").Task)
	if err != nil || got.Check() != nil || !strings.Contains(got.Unknown, "can't ask registries for digests: give the task a digest as its Tag") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWhatCantBeFetchedIsExplained(t *testing.T) {
	l := newLab(t)
	config := filepath.Join(t.TempDir(), "config.json")
	text := fmt.Sprintf(`{"auths":{"https://%s/v2/":{"auth":%q}},"credsStore":"none"}`, l.registry.Address, base64.StdEncoding.EncodeToString([]byte("ann:of:3")))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		tag      string
		auth     string
		protect  bool
		allow    bool // the file's directory is SWOP's
		want     string
		password string
	}{
		{name: "wrong tag", tag: "9.9", auth: "null", want: "/org/image:9.9: manifest unknown: registry " + l.registry.Address + " has no such image"},
		{name: "no password", tag: "1.0", auth: "null", protect: true, want: "give the task Auth for registry " + l.registry.Address},
		{name: "wrong password", tag: "1.0", auth: "{Username: ann, Password: four}", protect: true, want: "does not let these credentials fetch it"},
		{name: "password", tag: "1.0", auth: "{Username: ann, Password: 'of:3'}", protect: true},
		{name: "file that nobody allowed", tag: "1.0", auth: config, protect: true, want: "which is not in this host's --usr-dir"},
		{name: "file", tag: "1.0", auth: config, protect: true, allow: true},
		{name: "file by its path in the directory", tag: "1.0", auth: "config.json", protect: true, allow: true},
		{name: "file as in a SWOP's container", tag: "1.0", auth: "/platform/swarm/usr/config.json", protect: true, allow: true},
		{name: "file that is not there", tag: "1.0", auth: "other.json", protect: true, allow: true, want: "put a config.json there, or correct Auth"},
		{name: "bad name", tag: "a b", auth: "null", want: "bad image name"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l.registry.Protect("", "")
			if test.protect {
				l.registry.Protect("ann", "of:3")
			}
			l.puller.UsrDir = t.TempDir()
			if test.allow {
				l.puller.UsrDir = filepath.Dir(config)
			}
			_, err := l.fetch(t.Context(), pull(l.registry.Address, l.outcome, test.tag, test.auth))
			t.Log(said(err))
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(said(err), test.want)) {
				t.Errorf("want %q", test.want)
			}
			if strings.Contains(said(err), "of:3") || strings.Contains(said(err), "four") || strings.Contains(said(err), "\n") {
				t.Error("it tells a password, or several lines")
			}
		})
	}
	t.Run("no registry", func(t *testing.T) {
		if _, err := l.fetch(t.Context(), pull("127.0.0.1:1", l.outcome, "1.0", "null")); err == nil || !strings.Contains(said(err), "see that this host reaches registry 127.0.0.1:1") {
			t.Error(said(err))
		}
	})
	t.Run("no engine", func(t *testing.T) {
		t.Setenv("DOCKER_HOST", "unix:///no/such/socket")
		if _, err := l.fetch(t.Context(), pull(l.registry.Address, l.outcome, "1.0", "null")); err == nil || !strings.Contains(said(err), "start the engine") {
			t.Error(said(err))
		}
	})
	t.Run("bad outcome", func(t *testing.T) {
		for _, outcome := range []string{"", "A B", "image@" + l.registry.Digest} {
			if _, err := l.fetch(t.Context(), pull(l.registry.Address, outcome, "1.0", "null")); err == nil || !strings.Contains(said(err), "bad Outcome") {
				t.Errorf("%q: %s", outcome, said(err))
			}
		}
	})
}

// swarm is what the host of the test is shown.
type swarm struct {
	mu      sync.Mutex
	h       task.Hosted
	changed chan struct{}
	t       *task.Task
	image   *policy.Image
}

func (s *swarm) Hosted() ([]task.Hosted, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []task.Hosted{s.h}, true
}

func (s *swarm) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// show replaces the member.
func (s *swarm) show(m task.HostedMember) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.Members = []task.HostedMember{m}
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *swarm) Task(context.Context, string) (*task.Task, error) { return s.t, nil }
func (s *swarm) Tells(string) bool                                { return true }
func (s *swarm) Ended(string, uint32, string) error               { return nil }
func (s *swarm) PartEnded(task.Part) error                        { return nil }
func (s *swarm) HasEnded(task.Part) bool                          { return false }
func (s *swarm) AddressOnce(task.Part, string) (string, error)    { return "", nil }
func (s *swarm) Until(string, uint32) (at time.Time, why string)  { return at, why }
func (s *swarm) Consent(context.Context, task.Hosted, *task.Task) work.Answer {
	return work.Answer{May: work.Yes, Image: s.image}
}

func (s *swarm) Stays(context.Context, task.Hosted, *task.Task) work.Answer {
	return work.Answer{May: work.Yes}
}

// host runs a host on the swarm until the returned function ends it.
func (l *lab) host(s *swarm) (h *work.Host, end func()) {
	h = work.New(work.Config{
		SwarmID: "swarm", Node: "swop", Swarm: s, Tasks: s, Guard: s, Log: slog.New(slog.DiscardHandler),
		Types: map[string]work.Type{task.PullImage: {Executor: l.puller, Repeats: true}},
	})
	ctx, cancel := context.WithCancel(l.t.Context())
	done := make(chan error)
	go func() { done <- h.Run(ctx) }()
	return h, func() {
		cancel()
		if err := <-done; err != nil {
			l.t.Error(err)
		}
	}
}

// shown is a member of the job in a state.
func (l *lab) shown(m task.HostedMember) *swarm {
	t := pull(l.registry.Address, l.outcome, "1.0", "null").Task
	return &swarm{t: t, image: l.found(t), changed: make(chan struct{}), h: task.Hosted{Request: task.Request{ID: "7", Task: t.Name, Digest: t.Digest}, Epoch: 1, Phase: task.Running, Members: []task.HostedMember{m}}}
}

// await waits until the host's report has a state.
func (l *lab) await(h *work.Host, want task.State, cleaned bool) task.Report {
	l.t.Helper()
	looks := time.NewTicker(10 * time.Millisecond)
	defer looks.Stop()
	for range looks.C {
		h.Heard(time.Now())
		if r := h.Report(); len(r) == 1 && r[0].State == want && r[0].Cleaned == cleaned {
			return r[0].Report
		}
	}
	return task.Report{} // never: the ticker goes on
}

// TestAFetchIsStopped: in the middle of a layer the assignment is cancelled. Nothing is left, and the engine fetches no further.
func TestAFetchIsStopped(t *testing.T) {
	l := newLab(t)
	waits := l.registry.Hold()
	s := l.shown(task.HostedMember{State: task.Prepared, Start: true})
	h, end := l.host(s)
	defer end()
	<-waits
	s.show(task.HostedMember{State: task.Started, Stop: true})
	l.await(h, task.Stopped, true)
	if l.there() {
		t.Error("the image is there")
	}
}

// TestAFetchGoesOnAfterARestart: the host's process ends in the middle of a layer; the next one fetches the image.
func TestAFetchGoesOnAfterARestart(t *testing.T) {
	l := newLab(t)
	waits := l.registry.Hold()
	s := l.shown(task.HostedMember{State: task.Started, Start: true})
	_, end := l.host(s)
	<-waits
	end()
	l.registry.Release()
	h, end := l.host(s)
	defer end()
	if r := l.await(h, task.Exited, true); r.Code != 0 || !l.there() {
		t.Errorf("%+v", r)
	}
}

// TestTheHostsOwnImagesStay: nobody has code of another put in the place of what the host starts by itself.
// TestAnEngineThatGoesAwayDuringAFetch is one that passes: the next try fetches the image. What a registry says does not pass.
func TestAnEngineThatGoesAwayDuringAFetch(t *testing.T) {
	l := newLab(t)
	away := map[string]bool{}
	address := enginetest.Between(t, l.engine, enginetest.Faults{Answer: func(r *http.Response) error {
		for _, call := range []string{"/images/create", "/tag"} {
			if strings.HasSuffix(r.Request.URL.Path, call) && !away[call] {
				away[call] = true
				return errors.New("gone")
			}
		}
		return nil
	}})
	j := pull(l.registry.Address, l.outcome, "1.0", "null")
	j.Image = l.found(j.Task)
	var passing *work.Passing
	l.puller.Open = func(ctx context.Context) (*engine.Engine, error) {
		return engine.OpenAt(ctx, "unix://"+filepath.Join(t.TempDir(), "none"))
	}
	if err := l.puller.Prepare(t.Context(), j); !errors.As(err, &passing) {
		t.Errorf("no engine: %v", err)
	}
	l.puller.Open = func(ctx context.Context) (*engine.Engine, error) { return engine.OpenAt(ctx, address) }
	for range 2 {
		if _, err := l.puller.Start(t.Context(), j); !errors.As(err, &passing) {
			t.Errorf("an engine that goes away: %v", err)
		}
	}
	if got, err := l.puller.Start(t.Context(), j); err != nil || got.State != task.Exited || !l.there() {
		t.Errorf("%+v, %v", got, err)
	}
	j = pull(l.registry.Address, l.outcome, "none", "null")
	j.Image = policy.UnknownImage("x", "nobody says")
	if _, err := l.puller.Start(t.Context(), j); err == nil || errors.As(err, &passing) {
		t.Errorf("an image that is not there: %v", err)
	}
}

func TestTheHostsOwnImagesStay(t *testing.T) {
	p := &image.Puller{Own: []string{"", "hospital.example/swarmd:3"}, Log: slog.New(slog.DiscardHandler), Open: func(context.Context) (*engine.Engine, error) {
		t.Error("the engine is reached")
		return nil, errors.New("no engine")
	}}
	for _, outcome := range []string{"swarmd", "swarmd:latest", "docker.io/library/swarmd:9", "swarm-ml-pyt:latest", "swarm-ml-tf", "swarm-ml-tf-legacy", "hospital.example/swarmd"} {
		if err := p.Prepare(t.Context(), pull("registry.example", outcome, "1.0", "null")); err == nil || !strings.Contains(err.Error(), "give the image another name") {
			t.Errorf("outcome %s: %v", outcome, err)
		}
	}
	j := pull("", "fine", "", "null")
	j.Task.Definition = []byte("OrgAndReg: library\nRepoName: swarmd\nTag: latest\nAuth: null\n")
	if _, err := p.Start(t.Context(), j); err == nil || !strings.Contains(err.Error(), "images named swarmd") {
		t.Errorf("from the same name: %v", err)
	}
}

// TestARegistryThatCannotServeIsNoEngine: its words stay, and the engine that passes them on, as some do with its status, is not blamed.
func TestARegistryThatCannotServeIsNoEngine(t *testing.T) {
	address := enginetest.Between(t, enginetest.Engine(t), enginetest.Faults{Answer: func(r *http.Response) error {
		if strings.HasSuffix(r.Request.URL.Path, "/images/create") {
			_ = r.Body.Close()
			const why = `{"message":"received unexpected HTTP status: 503 Service Unavailable: back at noon"}`
			r.StatusCode, r.Body, r.ContentLength = http.StatusServiceUnavailable, io.NopCloser(strings.NewReader(why)), int64(len(why))
			r.Header = http.Header{"Content-Type": {"application/json"}}
		}
		return nil
	}})
	p := &image.Puller{Log: slog.New(slog.DiscardHandler), Open: func(ctx context.Context) (*engine.Engine, error) { return engine.OpenAt(ctx, address) }}
	e, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	j := pull("127.0.0.1:1", "outcome", "1.0", "null")
	j.Image = policy.UnknownImage("x", "nobody says")
	_, started := p.Start(t.Context(), j)
	for what, err := range map[string]error{"a task": started, "a build": work.OfEngine(p.Fetch(t.Context(), e, "127.0.0.1:1/org/image:1.0"))} {
		_, passes := errors.AsType[*work.Passing](err)
		if passes || err == nil || !strings.Contains(said(err), "back at noon: see that registry 127.0.0.1:1 works") {
			t.Errorf("%s: %s; it passes: %v", what, said(err), passes)
		}
	}
}
