package content_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	dockervolume "github.com/docker/docker/api/types/volume"
	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/content"
	"github.com/swarmd/swarmd/internal/work/volume"
)

func making(outcome, kind, ops string) *task.Task {
	t := &task.Task{Name: "make", Type: task.MakeSwarmUserContent, Prereq: task.Root, Outcome: outcome, Definition: []byte("ContentType : " + kind + "\nOpsList : " + ops + "\n")}
	t.Digest = t.Sum()
	return t
}

func job(t *task.Task) work.Job {
	return work.Job{Label: work.Label{Swarm: "s", Node: "swop", Assignment: "7", Epoch: 1, Member: 2}, Task: t, Assignment: task.Request{ID: "7"}}
}

func config(t *testing.T, scope string) content.Config {
	return content.Config{
		Open: engine.Open, Node: "swop", Scope: scope, Dir: t.TempDir(), Nodes: []int{0, 1}, Terms: policy.Terms{Host: true}, Log: slog.New(slog.DiscardHandler),
	}
}

type lab struct {
	t      *testing.T
	engine *engine.Engine
	scope  string
	cfg    content.Config
	name   string // of the volume that tasks make
}

// newLab has an engine with a scope of its own; what a test has made there goes with it.
func newLab(t *testing.T) *lab {
	e, scope := enginetest.Engine(t), enginetest.Scope(t)
	return &lab{t, e, scope, config(t, scope), "made-" + scope}
}

func (l *lab) run(f *content.Filler, t *task.Task) (work.Status, error) {
	if err := f.Prepare(l.t.Context(), job(t)); err != nil {
		return work.Status{}, err
	}
	return f.Start(l.t.Context(), job(t))
}

// has lists what is in a volume.
func (l *lab) has(name string) (all []string) {
	l.t.Helper()
	v, err := volume.Open(l.t.Context(), l.engine, name, true, volume.Labels(work.Label{Assignment: "1"}, "test", l.scope))
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = v.Close(l.t.Context()) }()
	files, err := v.Files(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	defer files.Close()
	for r := tar.NewReader(files); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(all)
			return all
		}
		if err != nil {
			l.t.Fatal(err)
		}
		if name, ok := volume.Inside(h.Name); !ok || name != "." {
			all = append(all, fmt.Sprintf("%s %o %s", name, h.Mode&0o777, h.Linkname))
		}
	}
}

// left are containers and images; volumes stay with what fills them.
func (l *lab) left() (all []string) {
	return slices.DeleteFunc(enginetest.Left(l.t, l.engine, l.scope), func(s string) bool { return strings.HasPrefix(s, "volume ") })
}

func archive(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	_ = w.Close() // into memory
	return b.Bytes()
}

// TestAVolumeIsFilled: one for all, or one for each node; again with the same.
func TestAVolumeIsFilled(t *testing.T) {
	l := newLab(t)
	s, _ := served(t)
	data["/a.tar"] = archive(t, tar.Header{Name: "d/f", Typeflag: tar.TypeReg, Mode: 0o700}, tar.Header{Name: "d/s", Typeflag: tar.TypeSymlink, Linkname: "f"})
	ops := "[{Operation: DOWNLOAD, Target: '" + s.URL + "/a.tar?x=y', Options: null}, {Operation: DOWNLOAD, Target: '" + s.URL + "/file', Options: [Out: in/it.txt]}, " +
		"{Operation: EXTRACT, Target: 'file:///platform/a.tar', Options: [Out: out]}]"
	want := []string{"a.tar 644 ", "in 755 ", "in/it.txt 644 ", "out 755 ", "out/d 755 ", "out/d/f 755 ", "out/d/s 777 f"}
	f := content.New(l.cfg)
	for range 2 {
		got, err := l.run(f, making(l.name, "BUILDCONTENT", ops))
		if err != nil || got.State != task.Exited || got.Code != 0 || !strings.HasPrefix(got.Text, "volume "+l.name+" is filled: 4 files, ") {
			t.Fatalf("%+v, %v", got, err)
		}
		if d := cmp.Diff(want, l.has(l.name)); d != "" {
			t.Error(d)
		}
	}
	got, err := l.run(f, making(l.name, "SWARMCONTENT", ops))
	if err != nil || !strings.HasPrefix(got.Text, fmt.Sprintf("2 volumes, %s-0 to %s-1, are filled", l.name, l.name)) {
		t.Fatalf("%+v, %v", got, err)
	}
	if d := cmp.Diff([][]string{want, want}, [][]string{l.has(l.name + "-0"), l.has(l.name + "-1")}); d != "" {
		t.Error(d)
	}
	if err := f.Clean(t.Context(), job(nil).Label); err != nil {
		t.Error(err)
	}
	if len(l.has(l.name)) == 0 {
		t.Error("what was filled is gone")
	}
	if files, err := os.ReadDir(l.cfg.Dir); err != nil || len(files) > 0 || len(l.left()) > 0 {
		t.Errorf("left: %v, %v, %q", files, err, l.left())
	}
}

// TestNothingIsHalfFilled: of a step that fails there is no volume.
func TestNothingIsHalfFilled(t *testing.T) {
	l := newLab(t)
	s, _ := served(t)
	data["/bad.tar"] = archive(t, tar.Header{Name: "../x", Typeflag: tar.TypeReg})
	get := func(path string) string {
		return "{Operation: DOWNLOAD, Target: '" + s.URL + path + "', Options: null}"
	}
	for ops, want := range map[string]string{
		get("/file") + ", " + get("/none"):                                                         "OpsList[1]: fetch " + s.URL + "/none: the server answered 404",
		get("/bad.tar") + ", {Operation: EXTRACT, Target: bad.tar, Options: null}":                 `OpsList[1]: EXTRACT of "bad.tar": "../x": its name leads out`,
		get("/file") + ", {Operation: EXTRACT, Target: file, Options: null}":                       "use tar, tar.gz, tar.bz2 or zip",
		get("/file") + ", {Operation: EXTRACT, Target: other.tar, Options: null}":                  "the task has fetched no such file before: DOWNLOAD it with that Out",
		get("/file") + ", {Operation: DOWNLOAD, Target: '" + s.URL + "/file', Options: [Out: ..]}": "bad Out",
	} {
		_, err := l.run(content.New(l.cfg), making(l.name, "BUILDCONTENT", "["+ops+"]"))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, want)
		}
		if left := enginetest.Left(t, l.engine, l.scope); len(left) > 0 {
			t.Errorf("%s: left %q", want, left)
		}
	}
}

// TestOthersVolumesStay: no task writes into a volume that no task made, unless the owner has named it.
func TestOthersVolumesStay(t *testing.T) {
	l := newLab(t)
	s, _ := served(t)
	if _, err := l.engine.VolumeCreate(t.Context(), dockervolume.CreateOptions{Name: l.name, Labels: map[string]string{engine.LabelScope: l.scope}}); err != nil {
		t.Fatal(err)
	}
	bound := l.name + "-bound"
	if _, err := l.engine.VolumeCreate(t.Context(), dockervolume.CreateOptions{
		Name: bound, Labels: map[string]string{engine.LabelScope: l.scope, engine.LabelTask: "x"}, DriverOpts: map[string]string{"type": "none", "o": "bind", "device": t.TempDir()},
	}); err != nil {
		t.Fatal(err)
	}
	if err := content.New(l.cfg).Prepare(t.Context(), job(making(bound, "BUILDCONTENT", "[{Operation: EXTRACT, Target: x, Options: null}]"))); err == nil || !strings.Contains(err.Error(), "leads out of the engine's own storage") {
		t.Error(err)
	}
	tt := making(l.name, "BUILDCONTENT", "[{Operation: DOWNLOAD, Target: '"+s.URL+"/file', Options: null}]")
	f := content.New(l.cfg)
	if err := f.Prepare(t.Context(), job(tt)); err == nil || !strings.Contains(err.Error(), "already, and no task made it") {
		t.Error(err)
	}
	if _, err := f.Start(t.Context(), job(tt)); err == nil {
		t.Error("it starts")
	}
	j := job(tt)
	j.Grant.Volumes = []string{l.name}
	if _, err := content.New(l.cfg).Start(t.Context(), j); err != nil || len(l.has(l.name)) != 1 {
		t.Error(err)
	}
}

// TestAHostIsEndedWhileItFills: what is open is found, and goes with the assignment; what others have made stays.
func TestAHostIsEndedWhileItFills(t *testing.T) {
	l := newLab(t)
	labels := volume.Labels(job(nil).Label, engine.RoleContent, l.scope)
	if _, err := l.engine.VolumeCreate(t.Context(), dockervolume.CreateOptions{Name: l.name + "-other", Labels: map[string]string{engine.LabelScope: l.scope}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{l.name, l.name + "-other"} {
		if _, err := volume.Open(t.Context(), l.engine, name, false, labels); err != nil {
			t.Fatal(err)
		}
	}
	f := content.New(l.cfg)
	found, err := f.Find(t.Context())
	if err != nil || len(found) != 2 || found[0].Label != job(nil).Label || found[0].State != task.Prepared {
		t.Errorf("%+v, %v", found, err)
	}
	if err := f.Clean(t.Context(), job(nil).Label); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([]string{"volume " + l.name + "-other"}, enginetest.Left(t, l.engine, l.scope)); d != "" {
		t.Error(d)
	}
}

func TestFillingIsEnded(t *testing.T) {
	l := newLab(t)
	s, _ := served(t)
	tt := making(l.name, "BUILDCONTENT", "[{Operation: DOWNLOAD, Target: '"+s.URL+"/file', Options: null}]")
	f := content.New(l.cfg)
	f.Free(func(string) (int64, error) { return 5 << 20, nil })
	if err := f.Prepare(t.Context(), job(tt)); err == nil || !strings.Contains(err.Error(), "the disk is full: 5 MiB are free") {
		t.Error(err)
	}
	l.cfg.Terms.Hours = 1e-12
	if _, err := content.New(l.cfg).Start(t.Context(), job(tt)); err == nil || !strings.Contains(err.Error(), "was not there after 3ns: make it smaller, or raise hours") {
		t.Error(err)
	}
	if left := enginetest.Left(t, l.engine, l.scope); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

func TestWhatIsNoContent(t *testing.T) {
	cfg := config(t, "none")
	cfg.Open = func(context.Context) (*engine.Engine, error) {
		t.Error("the engine is reached")
		return nil, context.Canceled
	}
	of := func(operation, target, out string) *task.Task {
		return making("v", "BUILDCONTENT", fmt.Sprintf("[{Operation: %s, Target: '%s', Options: [Out: '%s']}]", operation, target, out))
	}
	for _, tt := range []struct {
		task *task.Task
		want string
	}{
		{making("a/b", "BUILDCONTENT", "[{Operation: EXTRACT, Target: x, Options: null}]"), "bad Outcome"},
		{of("DOWNLOAD", "ftp://a/b", "c"), "hosts fetch http:// and https:// alone"},
		{of("DOWNLOAD", "file:///etc/passwd", "c"), "hosts fetch http:// and https:// alone"},
		{of("DOWNLOAD", "https://ann:four@a/b", "c"), "use a URL without"},
		{of("DOWNLOAD", "https://a/b", "/c"), "bad Out"},
		{of("DOWNLOAD", "https://a/b", "c/../../d"), "bad Out"},
		{of("DOWNLOAD", "https://a/b", "c/"), "bad Out"},
		{making("v", "BUILDCONTENT", "[{Operation: DOWNLOAD, Target: 'https://a/', Options: null}]"), "bad Out"},
		{of("EXTRACT", "https://a/b.tar", "c"), "fetch it by DOWNLOAD before"},
		{of("EXTRACT", "../b.tar", "c"), "name a file in the volume"},
		{of("EXTRACT", "b.tar", "../c"), "bad Out"},
		{&task.Task{Name: "p", Type: task.PullImage, Definition: []byte("OrgAndReg : a\nRepoName : b\nTag : c\nAuth : null\n")}, "is no MAKE_SWARM_USER_CONTENT"},
	} {
		if err := content.New(cfg).Prepare(t.Context(), job(tt.task)); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "four") {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
	cfg.Nodes = nil
	if err := content.New(cfg).Prepare(t.Context(), job(making("v", "SWARMCONTENT", "[{Operation: EXTRACT, Target: x, Options: null}]"))); err == nil || !strings.Contains(err.Error(), "list them under nodes") {
		t.Error(err)
	}
}
