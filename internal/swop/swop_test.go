package swop_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/admission"
	"github.com/swarmd/swarmd/internal/consent"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/swop"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
)

const ann = "spiffe://a.example/swarm/swci/ann"

func TestViewShowsWhatItWasTold(t *testing.T) {
	v := swop.NewView()
	if all, known := v.Hosted(); known || len(all) > 0 {
		t.Errorf("before the first answer: %v, %v", all, known)
	}
	changed := v.Changed()
	v.Take([]task.Hosted{{Epoch: 1}})
	select {
	case <-changed:
	default:
		t.Error("nobody was told")
	}
	if all, known := v.Hosted(); !known || len(all) != 1 || all[0].Epoch != 1 {
		t.Errorf("afterwards: %v, %v", all, known)
	}
	v.Take(nil) // nothing is to run any more, which is known
	if all, known := v.Hosted(); !known || len(all) > 0 {
		t.Errorf("at the end: %v, %v", all, known)
	}
}

func TestATaskIsReadAsItWasMade(t *testing.T) {
	res := &swarmv1.GetTaskResponse{Task: &swarmv1.Task{Name: "t", Type: task.PullImage, Author: "a", Prereq: task.Root, Outcome: "o"}, Definition: []byte("Tag : 1\n")}
	want := task.Task{Name: "t", Type: task.PullImage, Author: "a", Prereq: task.Root, Outcome: "o", Definition: []byte("Tag : 1\n")}
	want.Digest = want.Sum()
	res.Task.Digest = want.Digest
	tasks := swop.Tasks{Get: func(context.Context, string) (*swarmv1.GetTaskResponse, error) { return res, nil }}
	got, err := tasks.Task(t.Context(), "t")
	if diff := cmp.Diff(got, &want); err != nil || diff != "" || got.Sum() != want.Digest {
		t.Errorf("%v (-got +want)\n%s", err, diff)
	}
	res.Definition = make([]byte, task.MaxDefinition+1)
	if _, err := tasks.Task(t.Context(), "t"); err == nil {
		t.Error("a definition that is too large is taken")
	}
	res.Task = nil
	if _, err := tasks.Task(t.Context(), "t"); err == nil {
		t.Error("no task is taken for one")
	}
}

// swarm takes heartbeats, and is a host that says what it is told to say.
type swarm struct {
	mu      sync.Mutex
	beats   []time.Duration // since the first
	first   time.Time
	told    [][]task.MemberReport
	seen    []string // digests of bans
	heard   []time.Time
	renewed int
	says    []task.MemberReport
	news    chan struct{}
	fails   bool
}

func (s *swarm) Report(_ context.Context, req *swarmv1.ReportRequest, members []task.MemberReport) (*swarmv1.ReportResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first.IsZero() {
		s.first = time.Now()
	}
	s.beats, s.told, s.seen = append(s.beats, time.Since(s.first)), append(s.told, members), append(s.seen, req.GetBansSeen())
	if s.fails {
		return nil, errors.New("no SN answers")
	}
	return &swarmv1.ReportResponse{BansDigest: "d"}, nil
}

func (s *swarm) Renew(context.Context) error {
	s.do(func() { s.renewed++ })
	return nil
}

func (s *swarm) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// host is the same as a host.
type host struct{ *swarm }

func (h host) Report() (says []task.MemberReport) {
	h.do(func() { says = h.says })
	return says
}

func (h host) News() (news <-chan struct{}) {
	h.do(func() {
		if h.news == nil {
			h.news = make(chan struct{})
		}
		news = h.news
	})
	return news
}

func (h host) say(says ...task.MemberReport) {
	h.do(func() {
		h.says = says
		close(h.news)
		h.news = nil
	})
}

func (h host) Heard(sent time.Time) { h.do(func() { h.heard = append(h.heard, sent) }) }

// TestHeartbeatsComeEachSecondAndAtOnceWithNews holds the pace of heartbeats, and what hangs on an answer: the lease of what runs.
func TestHeartbeatsComeEachSecondAndAtOnceWithNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &swarm{}
		b := &swop.Beats{API: s, Host: host{s}, Bans: &admission.Bans{}, Log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		time.Sleep(2250 * time.Millisecond) // virtual
		synctest.Wait()
		host{s}.say(task.MemberReport{Assignment: "7"})
		synctest.Wait()
		s.mu.Lock()
		if want := []time.Duration{0, time.Second, 2 * time.Second, 2250 * time.Millisecond}; !slices.Equal(s.beats, want) {
			t.Errorf("heartbeats at %v, want %v", s.beats, want)
		}
		if len(s.told) != 4 || len(s.told[3]) != 1 || len(s.heard) != 4 || !s.heard[3].Equal(s.first.Add(2250*time.Millisecond)) || s.renewed != 4 || s.seen[0] != "" || s.seen[3] != "d" {
			t.Errorf("told %v, heard at %v, renewed %d, bans %q", s.told, s.heard, s.renewed, s.seen)
		}
		s.mu.Unlock()
		s.do(func() { s.fails = true })
		host{s}.say()
		time.Sleep(3 * time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := len(s.beats); n < 6 || n > 8 || len(s.heard) != 4 {
			t.Errorf("%d heartbeats, %d of them heard, while no SN answers", n, len(s.heard))
		}
	})
}

// executor notes what it is asked for.
type executor struct {
	found []work.Found
	says  error // of what it has cleaned up
}

func (*executor) Prepare(context.Context, work.Job) error              { return nil }
func (*executor) Start(context.Context, work.Job) (work.Status, error) { return work.Status{}, nil }
func (e *executor) Find(context.Context) ([]work.Found, error)         { return slices.Clone(e.found), nil }

func (e *executor) Clean(_ context.Context, l work.Label) error {
	e.found = slices.DeleteFunc(e.found, func(f work.Found) bool { return f.Label == l })
	return e.says
}

// TestTheOriginalsLines holds the lines that scripts wait for.
func TestTheOriginalsLines(t *testing.T) {
	var log strings.Builder
	l := &swop.Lines{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.MessageKey {
			return a
		}
		return slog.Attr{}
	}}))}
	parting := &work.Parting{Text: "not copied"} // of a member of which nothing is left
	typed := l.Of(work.Type{Executor: &executor{says: parting}, Repeats: true})
	j := work.Job{Label: work.Label{Assignment: "42", Epoch: 1}, Task: &task.Task{Name: "train"}}
	l.Ready()
	if err := typed.Executor.Prepare(t.Context(), j); err != nil || !typed.Repeats {
		t.Fatal(err, typed.Repeats)
	}
	for range 2 {
		if err := typed.Executor.Clean(t.Context(), j.Label); !errors.Is(err, parting) {
			t.Error(err)
		}
	}
	want := `msg="Ready for Task Execution!"
msg="ENROLL TO Task : train , opId : 42 - Begins"
msg="ENROLL TO Task : train , opId : 42 - Ends"
msg="Stopping Task"
msg="Total Tasks: 1 , Current Task : train Done"
msg="Ready for Task Execution!"
`
	if diff := cmp.Diff(log.String(), want); diff != "" {
		t.Errorf("(-got +want)\n%s", diff)
	}
}

// TestAStoppedHostEndsWhatItRuns holds that it ends what is its own, and nothing of others.
func TestAStoppedHostEndsWhatItRuns(t *testing.T) {
	mine, other := work.Label{Swarm: "s", Node: "n", Assignment: "1"}, work.Label{Swarm: "s", Node: "m", Assignment: "1"}
	e := &executor{found: []work.Found{{Label: mine}, {Label: other}}, says: &work.Parting{Text: "not copied"}}
	if err := swop.End(t.Context(), map[string]work.Type{task.RunSwarm: {Executor: e}}, "s", "n"); err != nil {
		t.Fatal(err)
	}
	if len(e.found) != 1 || e.found[0].Label != other {
		t.Errorf("left: %+v", e.found)
	}
}

// slow takes its time to end a member; one of the rest can't be asked.
type slow struct {
	executor

	deaf  bool
	ended atomic.Int32
}

func (s *slow) Find(ctx context.Context) ([]work.Found, error) {
	if s.deaf {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.found, nil
}

func (s *slow) Clean(context.Context, work.Label) error {
	time.Sleep(40 * time.Second) // virtual
	s.ended.Add(1)
	return nil
}

// TestAStoppedHostEndsAllAtATime: programs may take long to end, and an engine may not answer, but a stop has its time.
func TestAStoppedHostEndsAllAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
		defer cancel()
		s := &slow{}
		for i := range 8 {
			s.found = append(s.found, work.Found{Label: work.Label{Swarm: "s", Node: "n", Assignment: "1", Member: uint32(i)}})
		}
		err := swop.End(ctx, map[string]work.Type{task.RunSwarm: {Executor: s}, task.PullImage: {Executor: &slow{deaf: true}}}, "s", "n")
		if n := s.ended.Load(); n != 8 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d were ended, %v", n, err)
		}
	})
}

func runSwarm(shared string) *task.Task {
	return &task.Task{Name: "t", Type: task.RunSwarm, Digest: strings.Repeat("a", 64), Definition: []byte("Entrypoint : python3\nCommand : x.py\nWorkingDir : /w\nEnvvars : null\nPrivateContent : /w\nSharedContent : " + shared + "\n")}
}

func pull(auth string) *task.Task {
	return &task.Task{Name: "t", Type: task.PullImage, Digest: strings.Repeat("a", 64), Definition: []byte("OrgAndReg : a\nRepoName : b\nTag : c\nAuth : " + auth + "\n")}
}

func build(steps string) *task.Task {
	return &task.Task{Name: "t", Type: task.MakeUserContainer, Digest: strings.Repeat("a", 64), Definition: []byte("BuildContext : null\nBuildType : INLINE\nBuildSteps : " + steps + "\n")}
}

func content(target string) *task.Task {
	return &task.Task{Name: "t", Type: task.MakeSwarmUserContent, Outcome: "vol", Digest: strings.Repeat("a", 64), Definition: []byte("ContentType : BUILDCONTENT\nOpsList : [{Operation: DOWNLOAD, Target: 'https://good/x', Options: null}, {Operation: DOWNLOAD, Target: '" + target + "', Options: null}]\n")}
}

// TestTheOwnersPolicyDecides holds what a policy gets to know of a task.
func TestTheOwnersPolicyDecides(t *testing.T) {
	dir := t.TempDir()
	target, link, out := filepath.Join(dir, "real"), filepath.Join(dir, "link"), filepath.Join(dir, "real", "out")
	if err := errors.Join(os.Mkdir(target, 0o700), os.Symlink(target, link), os.Symlink("/etc", out)); err != nil {
		t.Fatal(err)
	}
	null, err := policy.Unwritten(policy.Null, "a.example")
	if err != nil {
		t.Fatal(err)
	}
	written, err := policy.Parse("p.yaml", []byte("sentences:\n- Allow "+ann+" to use host\nlimits:\n  paths: ["+target+"]\n"), "a.example")
	if err != nil {
		t.Fatal(err)
	}
	keys := &taskfile.Profile{Nodes: []taskfile.Node{{Identity: []taskfile.Attribute{{Kind: "KEY", MountType: "VOLUME", Src: "keys", SubPath: "k"}}}}}
	builds, err := policy.Parse("b.yaml", []byte("sentences:\n- Allow "+ann+" to use host where image.repository in ('scratch', 'good')\nlimits: {cpus: 1, memory: 1g}\n"), "a.example")
	if err != nil {
		t.Fatal(err)
	}
	contents, err := policy.Parse("c.yaml", []byte("sentences:\n- Allow "+ann+" to use host where content.host in ('good', 'fine:8443')\nlimits: {volumes: [vol], hours: 1}\n"), "a.example")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		policy         *policy.Policy
		process, local bool
		task           *task.Task
		want           consent.Decision
		says           string
	}{
		"null, image":                     {null, false, false, pull("null"), consent.Allowed, "no policy"},
		"null, a path with a login":       {null, false, false, pull("config.json"), consent.Allowed, "no policy"},
		"null, containers":                {null, false, false, runSwarm("null"), consent.Allowed, "no policy"},
		"null, a path of the host":        {null, false, false, runSwarm("[{Src: " + link + ", Tgt: /x, MType: BIND}]"), consent.Refused, link},
		"null, process":                   {null, true, false, runSwarm("null"), consent.Refused, "process outside containers"},
		"null, process, pull is none":     {null, true, false, pull("null"), consent.Allowed, "no policy"},
		"null, process in a local swarm":  {null, true, true, runSwarm("null"), consent.Allowed, "no policy"},
		"written, a path by a link":       {written, true, false, runSwarm("[{Src: " + link + ", Tgt: /x, MType: BIND}]"), consent.Allowed, "p.yaml:2"},
		"written, a link out of it":       {written, true, false, runSwarm("[{Src: " + out + ", Tgt: /x, MType: BIND}]"), consent.Refused, `"` + out + `", which this host does not give: not by that name, or not where it leads; add where it leads to paths under limits in p.yaml`},
		"written, a path that is none":    {written, true, false, runSwarm("[{Src: " + target + "/none, Tgt: /x, MType: BIND}]"), consent.Refused, "does not exist"},
		"written, another path":           {written, true, false, runSwarm("[{Src: /etc, Tgt: /x, MType: BIND}]"), consent.Refused, "/etc"},
		"null, a volume with a key":       {null, false, false, runSwarm("[{Src: keys, Tgt: /x, MType: VOLUME}]"), consent.Refused, "identity of an SL"},
		"null, a build with a key":        {null, false, false, &task.Task{Type: task.MakeUserContainer, Definition: []byte("BuildContext : keys\nBuildType : INLINE\nBuildSteps : [FROM x]\n")}, consent.Refused, "identity of an SL"},
		"written, a volume":               {written, false, false, runSwarm("[{Src: v, Tgt: /x, MType: VOLUME}]"), consent.Refused, "volume"},
		"null, a build":                   {null, false, false, build("[FROM any]"), consent.Allowed, "no policy"},
		"written, a build of images":      {builds, false, false, build("[FROM good:1 AS a, FROM good:2, 'COPY --from=a x y']"), consent.Allowed, "b.yaml:2"},
		"written, a build of nothing":     {builds, false, false, build("[FROM scratch]"), consent.Allowed, "b.yaml:2"},
		"written, one other image":        {builds, false, false, build("[FROM good, 'COPY --from=bad x y']"), consent.Refused, "image.repository is 'bad'"},
		"null, content":                   {null, false, false, content("https://any/x"), consent.Allowed, "no policy"},
		"written, content of two hosts":   {contents, false, false, content("https://fine:8443/x"), consent.Allowed, "c.yaml:2"},
		"written, content of another":     {contents, false, false, content("https://bad/x"), consent.Refused, "content.host is 'bad'"},
		"written, content in a volume":    {builds, false, false, content("https://bad/x"), consent.Refused, "image.repository"},
		"content of nowhere":              {null, false, false, content("x"), consent.Refused, "OpsList[1]"},
		"steps that can't be read":        {builds, false, false, build("[FROM good, RUM x]"), consent.Refused, "BuildSteps: line 2"},
		"a definition that can't be read": {null, false, false, &task.Task{Type: task.RunSwarm, Definition: []byte("?")}, consent.Refused, "can't be read"},
	} {
		t.Run(name, func(t *testing.T) {
			o := swop.Owner{Policy: tt.policy, SwarmID: func() string { return "s" }, Place: swop.Place{Process: tt.process, Local: tt.local, Paths: hostpaths.NewHere(), Profile: keys}, Recent: hostpaths.NewHere()}
			got := o.Decide(t.Context(), ann, &task.Hosted{}, tt.task, nil)
			if got.Decision != tt.want || !strings.Contains(got.Sentence, tt.says) {
				t.Errorf("%+v, want %s with %q", got, tt.want, tt.says)
			}
		})
	}
}

// TestATimeoutThatNobodyCouldWaitFor exceeds the owner's hours, however long or short it says it is.
func TestATimeoutThatNobodyCouldWaitFor(t *testing.T) {
	p, err := policy.Parse("p.yaml", []byte("sentences:\n- Allow "+ann+" to use host\nlimits: {hours: 1}\n"), "a.example")
	if err != nil {
		t.Fatal(err)
	}
	o := swop.Owner{Policy: p, SwarmID: func() string { return "s" }, Place: swop.Place{Profile: &taskfile.Profile{}}}
	for ms, want := range map[int64]consent.Decision{0: consent.Allowed, 3_600_000: consent.Allowed, 3_600_001: consent.Refused, 9_223_372_036_855: consent.Refused, math.MaxInt64: consent.Refused, -1: consent.Refused} {
		if got := o.Decide(t.Context(), ann, &task.Hosted{Request: task.Request{TimeoutMS: ms}}, pull("null"), nil); got.Decision != want {
			t.Errorf("%d ms: %+v", ms, got)
		}
	}
}

// TestWhatIsTheHostsOwnIsKept: a directory that the owner gives is not given if an SL's key is in it, or something else with which a program
// could speak for the host, also where that is named by a link, and nobody but the host's log learns what it is.
func TestWhatIsTheHostsOwnIsKept(t *testing.T) {
	dir := t.TempDir()
	var errs []error
	for _, name := range []string{"keys", "data", "state", "real"} {
		errs = append(errs, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	if err := errors.Join(append(errs, os.Mkdir(filepath.Join(dir, "agent"), 0o700), os.Mkdir(filepath.Join(dir, "later"), 0o700), os.Symlink("real", filepath.Join(dir, "link")),
		os.Symlink("later", filepath.Join(dir, "sockets")))...); err != nil {
		t.Fatal(err)
	}
	o := giving(t, dir, hostpaths.NewHere())
	o.Own = []string{dir + "/state", dir + "/link/policy", dir + "/link", "/none/of/them", dir + "/sockets/agent.sock"} // an agent that does not run yet
	o.Profile = &taskfile.Profile{Nodes: []taskfile.Node{{Identity: []taskfile.Attribute{
		{Kind: "KEY", MountType: "BIND", Src: dir + "/keys/sl.pem"}, {Kind: "SPIFFE_SOCKETPATH", MountType: "BIND", Src: "unix:" + dir + "/agent/api.sock"},
	}}}}
	for path, want := range map[string]consent.Decision{
		dir + "/keys": consent.Refused, dir: consent.Refused, dir + "/data": consent.Allowed, dir + "/state": consent.Refused, dir + "/real": consent.Refused, dir + "/link": consent.Refused, dir + "/agent": consent.Refused,
		dir + "/later": consent.Refused,
	} {
		got := o.Decide(t.Context(), ann, &task.Hosted{}, binding(path), nil)
		_, grant := o.Grant(t.Context(), binding(path))
		for _, v := range []consent.Verdict{got, grant} {
			if v.Decision != want || want == consent.Refused && (!strings.Contains(v.Sentence, "what this host keeps for itself") || strings.Contains(v.Sentence, "sl.pem") || !strings.Contains(v.Detail, "host's own")) {
				t.Errorf("%s: %+v", path, v)
			}
		}
	}
	o.Recent = silent
	if got := o.Decide(t.Context(), ann, &task.Hosted{}, binding(dir+"/data"), nil); got.Decision != consent.Later {
		t.Errorf("what the host's own leads to is not known: %+v", got)
	}
}

// closed is a host with a directory that its SWOP may not look into.
type closed struct{ dir string }

func (c closed) Resolve(ctx context.Context, names []string) (map[string]hostpaths.Lead, error) {
	all, err := hostpaths.NewHere().Resolve(ctx, names)
	for _, name := range names {
		if hostpaths.Overlap(name, c.dir) {
			all[name] = hostpaths.Lead{At: c.dir, Why: "this host's SWOP may not look at it", Closed: true}
		}
	}
	return all, err
}

// TestTheHostsOwnThatMayNotBeLookedAt: it may lead to what a task names, so that no path is given to a container, and the host's log says what to do.
func TestTheHostsOwnThatMayNotBeLookedAt(t *testing.T) {
	dir := t.TempDir()
	o := giving(t, dir, closed{"/closed"})
	o.Own = []string{"/closed/key"}
	if v := o.Decide(t.Context(), ann, &task.Hosted{}, binding(dir), nil); v.Decision != consent.Allowed {
		t.Errorf("for a process, which may not look there either: %+v", v)
	}
	o.Process = false
	got := o.Decide(t.Context(), ann, &task.Hosted{}, binding(dir), nil)
	_, grant := o.Grant(t.Context(), binding(dir))
	for _, v := range []consent.Verdict{got, grant} {
		if v.Decision != consent.Later || strings.Contains(v.Sentence, "/closed") || !strings.Contains(v.Detail, `"/closed/key" may lead anywhere`) {
			t.Errorf("%+v", v)
		}
	}
}

// blind looks at no host.
type blind struct{ t *testing.T }

func (b blind) Resolve(context.Context, []string) (map[string]hostpaths.Lead, error) {
	b.t.Error("the host was looked at")
	return nil, errors.New("blind")
}

// TestATaskIsGivenWhatThePolicyGives holds what executors get: paths as the policy gives them now, volumes that it names, its limits.
func TestATaskIsGivenWhatThePolicyGives(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(target, 0o700), os.Symlink(target, link)); err != nil {
		t.Fatal(err)
	}
	written, err := policy.Parse("p.yaml", []byte("sentences:\n- Allow "+ann+" to use host\nlimits:\n  paths: ["+target+"]\n  volumes: [v, w*]\n  memory: 1GiB\n"), "a.example")
	if err != nil {
		t.Fatal(err)
	}
	o := swop.Owner{Policy: written, SwarmID: func() string { return "s" }, Place: swop.Place{Paths: hostpaths.NewHere(), Profile: &taskfile.Profile{}}}
	x := runSwarm("[{Src: " + link + ", Tgt: /x, MType: BIND}, {Src: v, Tgt: /v, MType: VOLUME}, {Src: w1, Tgt: /w, MType: VOLUME}]")
	got, v := o.Grant(t.Context(), x)
	want := work.Grant{Paths: map[string]string{link: target}, Volumes: []string{"v"}}
	if diff := cmp.Diff(got, want); v.Decision != consent.Allowed || diff != "" {
		t.Errorf("%+v (-got +want)\n%s", v, diff)
	}
	if err := errors.Join(os.Remove(link), os.Symlink("/etc", link)); err != nil {
		t.Fatal(err)
	}
	if got, v := o.Grant(t.Context(), x); v.Decision != consent.Refused || strings.Contains(v.Sentence, "/etc") || !strings.Contains(v.Detail, "/etc") || got.Paths != nil {
		t.Errorf("a link that was changed after the policy was asked: %+v, %+v", got, v)
	}
	null, err := policy.Unwritten(policy.Null, "a.example")
	if err != nil {
		t.Fatal(err)
	}
	o = swop.Owner{Policy: null, SwarmID: o.SwarmID, Recent: blind{t}, Place: swop.Place{Paths: blind{t}, Profile: &taskfile.Profile{}}}
	for by, want := range map[string]string{ann: "does not give", "": "nobody is known"} {
		if v := o.Decide(t.Context(), by, &task.Hosted{}, x, nil); v.Decision != consent.Refused || !strings.Contains(v.Sentence, want) {
			t.Errorf("without a policy: %+v", v)
		}
	}
}

// TestALimitThatNothingHoldsRefuses holds that a limit is one that is kept: in containers CPUs, memory and GPUs are, in processes none of them.
func TestALimitThatNothingHoldsRefuses(t *testing.T) {
	gpus := &taskfile.Profile{Nodes: []taskfile.Node{{User: taskfile.ContainerOptions{GPUs: "device=0,1"}}}}
	for limit, want := range map[string][2]string{ // in containers, in processes
		"cpus: 2": {"", "can't hold what it runs to 2 CPUs"}, "memory: 1g": {"", "bytes of memory"}, "gpus: 2": {"", "2 GPUs"}, "gpus: 1": {"it asks for 2 GPUs", "1 GPUs"}, "hours: 3": {"", ""},
	} {
		p, err := policy.Parse("p.yaml", []byte("sentences: ['Allow spiffe://a.example/** to use host']\nlimits: {"+limit+"}\n"), "a.example")
		if err != nil {
			t.Fatal(err)
		}
		for i, process := range []bool{false, true} {
			o := swop.Owner{Policy: p, SwarmID: func() string { return "s" }, Place: swop.Place{Process: process, Profile: gpus}}
			if v := o.Decide(t.Context(), ann, &task.Hosted{}, runSwarm("null"), nil); (v.Decision == consent.Allowed) != (want[i] == "") || !strings.Contains(v.Sentence, want[i]) {
				t.Errorf("%s, process %v: %+v", limit, process, v)
			}
		}
	}
}

func TestWhereThePolicyStands(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(file, []byte("sentences:\n- Allow "+ann+" to use host\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ given, uri, says string }{
		{"", "", "no policy"},
		{"ask", "", "approv"},
		{"", "ask", "approv"},
		{file, "", "1 sentence"},
		{"", "policy.yaml", "1 sentence"},
		{"", "file://" + file, "1 sentence"},
		{"ask", "policy.yaml", "approv"},
	} {
		p, err := swop.PolicyOf(tt.given, tt.uri, dir, "a.example")
		if err != nil || !strings.Contains(p.String(), tt.says) {
			t.Errorf("%+v: %v, %v", tt, p, err)
		}
	}
	for uri, want := range map[string]string{"https://opa.example/v1": "read from this host only", "none.yaml": "be asked about each task with --policy ask"} {
		if _, err := swop.PolicyOf("", uri, dir, "a.example"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", uri, err)
		}
	}
}

// TestAHostSaysItsPolicyAsItIs: in a swarm of this machine alone the null policy lets processes run, and says so.
func TestAHostSaysItsPolicyAsItIs(t *testing.T) {
	null, err := policy.Unwritten(policy.Null, "a.example")
	if err != nil {
		t.Fatal(err)
	}
	ask, err := policy.Unwritten(policy.Ask, "a.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		of             *policy.Policy
		process, local bool
		want           string
	}{
		{null, true, true, "runs programs on it as processes"},
		{null, true, false, "runs no processes outside containers"},
		{null, false, true, "runs no processes outside containers"},
		{ask, true, true, "asks about every task"},
	} {
		if got := (swop.Owner{Policy: tt.of, Place: swop.Place{Process: tt.process, Local: tt.local}}).Words(); !strings.Contains(got, tt.want) {
			t.Errorf("process %v, local %v: %s, want %s", tt.process, tt.local, got, tt.want)
		}
	}
}

// TestAVolumeIsGrantedByItsOwnName: what a * stands for nobody has looked at.
func TestAVolumeIsGrantedByItsOwnName(t *testing.T) {
	for limits, want := range map[string][]string{"volumes: [vol]": {"vol"}, "volumes: ['*']": nil} {
		p, err := policy.Parse("p.yaml", []byte("sentences:\n- Allow "+ann+" to use host\nlimits: {"+limits+"}\n"), "a.example")
		if err != nil {
			t.Fatal(err)
		}
		o := swop.Owner{Policy: p, SwarmID: func() string { return "s" }}
		from := build("[FROM a]")
		from.Definition = []byte(strings.Replace(string(from.Definition), "null", "vol", 1))
		for _, x := range []*task.Task{from, content("https://any/x"), runSwarm("[{Src: vol, Tgt: /x, MType: VOLUME}]")} {
			if g, v := o.Grant(t.Context(), x); v.Decision != consent.Allowed || !slices.Equal(g.Volumes, want) {
				t.Errorf("%s, %s: %q, %+v", limits, x.Type, g.Volumes, v)
			}
		}
	}
}
