package hostpaths_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
	"github.com/swarmd/swarmd/internal/work/ownimage"
)

// asks has this binary be a SWOP that looks at a path, by an image and in a scope.
const asks = "SWARM_TEST_ASKS"

// TestMain lets this binary be swarmd in a helper's container, and a SWOP that can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == hostpaths.Command {
		os.Exit(hostpaths.RunWithGates(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	if os.Getenv(asks) != "" {
		_, err := byHelpers(os.Args[1], os.Args[2]).Resolve(context.Background(), os.Args[3:])
		fmt.Fprintln(os.Stdout, err)
		select {}
	}
	os.Exit(m.Run())
}

// byHelpers looks by helpers of an image that this binary is in.
func byHelpers(image, scope string) *hostpaths.Engine {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return &hostpaths.Engine{
		Open: engine.Open, Image: ownimage.New(image, slog.New(slog.DiscardHandler)).ID, Program: "/host" + self, Node: "swop", Scope: scope,
	}
}

// tree makes directories and links, LINK -> TARGET, in a world of its own.
func tree(t *testing.T, root string, links map[string]string, dirs ...string) {
	t.Helper()
	var errs []error
	for _, d := range dirs {
		errs = append(errs, os.MkdirAll(filepath.Join(root, d), 0o755))
	}
	for at, to := range links {
		errs = append(errs, os.Symlink(to, filepath.Join(root, at)))
	}
	errs = append(errs, os.WriteFile(filepath.Join(root, "file"), nil, 0o600))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestWalkFollowsLinksAndStaysInItsWorld holds that a path is what the kernel would make of it in a world that ends at the root.
func TestWalkFollowsLinksAndStaysInItsWorld(t *testing.T) {
	root := t.TempDir()
	tree(t, root, map[string]string{
		"srv/near": "shared", "srv/far": "/data/x", "srv/up": "../data", "srv/out": "../../../../../../etc-of-ours", "data/back": "../srv/far", "loop": "/loop", "srv/gone": "/none", "srv/f": "../file", "odd": "\xff", "data/long": "x/y/" + strings.Repeat("a", 4088),
	}, "srv/shared/a", "data/x/y", "etc-of-ours")
	for name, want := range map[string]string{
		"/srv/shared/a": "/srv/shared/a", "/srv//./shared/": "/srv/shared", "/srv/near/a": "/srv/shared/a", "/srv/far/y": "/data/x/y", "/srv/up/x": "/data/x",
		"/srv/up/../srv": "/srv", "/srv/far/..": "/data", "/srv/out": "/etc-of-ours", "/data/back/y": "/data/x/y", "/..": "/", "/srv/f": "/file",
	} {
		if got, err := hostpaths.Walk(root, name); got != (hostpaths.Lead{At: want}) || err != nil {
			t.Errorf("%s leads to %+v, %v; want %s", name, got, err, want)
		}
	}
	for name, want := range map[string]hostpaths.Lead{
		"srv": {Why: "write its absolute path on this host"}, "/none": {At: "/none", Why: "it does not exist"}, "/srv/gone": {At: "/none", Why: "it does not exist"},
		"/loop": {At: "/loop", Why: "it leads through more than 40 symbolic links"}, "/file/x": {At: "/file", Why: "it is no directory"}, "/srv\x00": {Why: "it is none"},
		"/" + strings.Repeat("a", 5000): {Why: "it is none"}, "/\xff": {Why: "it is none"}, "/srv/far/z": {At: "/data/x/z", Why: "it does not exist"},
		"/" + strings.Repeat("a", 300): {At: "/" + strings.Repeat("a", 300), Why: "its name is too long"}, "/odd": {At: "/odd", Why: "it leads to a name that is no UTF-8", Closed: true},
		"/data/long": {At: "/data/x/y", Why: "its name is too long"}, // where it leads is longer than a helper may say
	} {
		if got, err := hostpaths.Walk(root, name); got != want || err != nil {
			t.Errorf("%.20q leads to %+v, %v; want %+v", name, got, err, want)
		}
	}
}

// said answers by the name, and fails for others.
type said map[string]hostpaths.Lead

func (s said) Resolve(_ context.Context, names []string) (map[string]hostpaths.Lead, error) {
	all := map[string]hostpaths.Lead{}
	for _, name := range names {
		lead, knows := s[name]
		if !knows {
			return nil, fmt.Errorf("asked for %s", name)
		}
		all[name] = lead
	}
	return all, nil
}

// TestWhatOneMayNotLookAtAnotherLooksAt: who may look at everything is asked only for what the first may not.
func TestWhatOneMayNotLookAtAnotherLooksAt(t *testing.T) {
	open, closed := hostpaths.Lead{At: "/a"}, hostpaths.Lead{At: "/root", Why: "closed", Closed: true}
	r := hostpaths.Second{First: said{"/a": open, "/root/b": closed}, Other: said{"/root/b": {At: "/data/b"}}}
	got, err := r.Resolve(t.Context(), []string{"/a", "/root/b"})
	if err != nil || got["/a"] != open || got["/root/b"] != (hostpaths.Lead{At: "/data/b"}) {
		t.Error(got, err)
	}
	r.Other = said{}
	if got, err := r.Resolve(t.Context(), []string{"/a"}); err != nil || got["/a"] != open {
		t.Error(got, err)
	}
	if got, err := r.Resolve(t.Context(), []string{"/root/b"}); err == nil {
		t.Error("nobody knows, and that is", got)
	}
}

func FuzzWalk(f *testing.F) {
	f.Add("/a/link/../..", "../../x")
	f.Add("/link", "/etc")
	f.Fuzz(func(t *testing.T, name, target string) {
		root := t.TempDir()
		if os.MkdirAll(filepath.Join(root, "a/b"), 0o700) != nil || os.Symlink(target, filepath.Join(root, "a/link")) != nil || os.Symlink(target, filepath.Join(root, "link")) != nil {
			return
		}
		lead, err := hostpaths.Walk(root, name)
		if err != nil || lead.Why != "" {
			return
		}
		info, err := os.Lstat(filepath.Join(root, lead.At))
		if err != nil || info.Mode()&os.ModeSymlink != 0 || filepath.Clean(lead.At) != lead.At {
			t.Errorf("%q leads to %q: %v", name, lead.At, err)
		}
		if again, err := hostpaths.Walk(root, lead.At); err != nil || again != lead {
			t.Errorf("%q leads to %q, which leads to %+v, %v", name, lead.At, again, err)
		}
	})
}

// TestALinkThatIsChangedInBetweenIsRefused holds that what was judged is what is bound.
func TestALinkThatIsChangedInBetweenIsRefused(t *testing.T) {
	root := t.TempDir()
	tree(t, root, map[string]string{"link": "one", "own": "two"}, "one", "two")
	name, own := filepath.Join(root, "link"), filepath.Join(root, "own")
	here := hostpaths.NewHere()
	leads, err := here.Resolve(t.Context(), []string{name})
	if err != nil || leads[name] != (hostpaths.Lead{At: filepath.Join(root, "one")}) {
		t.Fatal(leads, err)
	}
	judged := map[string]string{name: leads[name].At}
	got, err := hostpaths.Bindable(t.Context(), here, judged, []string{own, own})
	if err != nil || got[name] != judged[name] || got[own] != filepath.Join(root, "two") {
		t.Error(got, err)
	}
	if err := errors.Join(os.Remove(name), os.Symlink("two", name)); err != nil {
		t.Fatal(err)
	}
	if got, err := hostpaths.Bindable(t.Context(), here, judged, nil); err == nil || !strings.Contains(err.Error(), "leads elsewhere") || strings.Contains(err.Error(), "two") {
		t.Errorf("another link: %v, %v", got, err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if got, err := hostpaths.Bindable(t.Context(), here, judged, nil); err == nil || !strings.Contains(err.Error(), "leads elsewhere") {
		t.Errorf("no link: %v, %v", got, err)
	}
	if got, err := hostpaths.Bindable(t.Context(), here, nil, []string{name}); err != nil || got != nil {
		t.Errorf("a task without paths: %v, %v", got, err)
	}
	if _, err := hostpaths.Bindable(t.Context(), here, map[string]string{"/": "/"}, []string{name}); err == nil || !strings.Contains(err.Error(), "profile names: it does not exist") {
		t.Errorf("a directory of the profile's that is gone: %v", err)
	}
	many := map[string]string{}
	for i := range 64 {
		many[fmt.Sprint("/", i)] = "/"
	}
	if _, err := hostpaths.Bindable(t.Context(), here, many, []string{"/"}); err == nil || !strings.Contains(err.Error(), "name 65 paths") {
		t.Errorf("any number of paths is bound: %v", err)
	}
	if got, err := here.Resolve(t.Context(), append(make([]string, 64), "/")); err != nil || !strings.Contains(got["/"].Why, "one of 65 paths") {
		t.Errorf("any number of paths is followed: %v, %v", got, err)
	}
}

// straight leads nowhere else.
type straight struct{}

func (straight) Resolve(_ context.Context, names []string) (map[string]hostpaths.Lead, error) {
	all := map[string]hostpaths.Lead{}
	for _, n := range names {
		all[n] = hostpaths.Lead{At: n}
	}
	return all, nil
}

func TestNoneLiesInAnother(t *testing.T) {
	for _, tt := range []struct {
		owned, judged []string
		apart         bool
	}{
		{[]string{"/a", "/a/b"}, nil, true}, // the owner's own choice
		{[]string{"/a"}, []string{"/b", "/ab"}, true},
		{[]string{"/a"}, []string{"/a"}, true},
		{[]string{"/a"}, []string{"/a/b"}, false},
		{[]string{"/a/b"}, []string{"/a"}, false},
		{nil, []string{"/a", "/a/b"}, false},
		{nil, []string{"/", "/a"}, false},
	} {
		judged := map[string]string{}
		for _, n := range tt.judged {
			judged[n] = n
		}
		if _, err := hostpaths.Bindable(t.Context(), straight{}, judged, tt.owned); (err == nil) != tt.apart {
			t.Errorf("%v and %v: %v", tt.owned, tt.judged, err)
		}
	}
}

// counted counts what is asked, which takes a second.
type counted struct {
	asked atomic.Int32
	err   error
}

func (c *counted) Resolve(ctx context.Context, names []string) (map[string]hostpaths.Lead, error) {
	at := strconv.Itoa(int(c.asked.Add(1)))
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return map[string]hostpaths.Lead{names[0]: {At: at}}, c.err
}

// TestWhatWasSeenIsRememberedForAMinute holds that a task that waits for an approval does not have the host looked at all the time, nor by
// each of its members. What could not be seen is looked for sooner.
func TestWhatWasSeenIsRememberedForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{}
		r := &hostpaths.Recent{Of: c}
		want := func(name, at string) {
			t.Helper()
			if got, err := r.Resolve(t.Context(), []string{name}); !errors.Is(err, c.err) || got[name].At != at {
				t.Errorf("%s leads to %v, %v; want %s", name, got, err, at)
			}
		}
		var members sync.WaitGroup
		for range 50 {
			members.Go(func() { want("/a", "1") })
		}
		members.Wait()
		for range 50 {
			want("/a", "1")
			time.Sleep(time.Second) // virtual
		}
		want("/b", "2")
		if _, err := r.Resolve(t.Context(), []string{"/x\x00/y"}); err != nil { // one odd name does not answer for two
			t.Error(err)
		}
		if got, err := r.Resolve(t.Context(), []string{"/x", "/y"}); err != nil || got["/x"].At != "4" {
			t.Errorf("two names: %v, %v", got, err)
		}
		time.Sleep(time.Minute)
		want("/a", "5")
		c.err = errors.New("no engine")
		for _, at := range []string{"6", "6", "7"} {
			want("/c", at)
			time.Sleep(6 * time.Second)
		}
		c.err = nil
		given, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		members.Go(func() {
			if _, err := r.Resolve(given, []string{"/d"}); err == nil {
				t.Error("one that was given up has an answer")
			}
		})
		synctest.Wait()
		want("/d", "9") // nobody waits in vain for whoever gave it up
		members.Wait()
	})
}

// TestAnEnginesHostIsLookedAtByAHelper holds that a SWOP that does not see its host learns where paths lead there, and that nothing is left.
func TestAnEnginesHostIsLookedAtByAHelper(t *testing.T) {
	e := enginetest.Engine(t)
	scope := enginetest.Scope(t)
	enginetest.Clean(t, scope)
	root := t.TempDir()
	tree(t, root, map[string]string{"link": filepath.Join(root, "one"), "gone": "none"}, "one/closed")
	if err := os.Chmod(filepath.Join(root, "one"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(root, "one"), 0o700) })
	own := scope + ":1"
	if err := e.ImageTag(t.Context(), enginetest.TestImage, own); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = e.ImageRemove(context.Background(), own, image.RemoveOptions{}) }) // it is gone if all is well
	r := byHelpers(own, scope)
	name := filepath.Join(root, "link/closed")
	got, err := r.Resolve(t.Context(), []string{name, "/"})
	if err != nil || got[name].At != filepath.Join(root, "one/closed") || got["/"] != (hostpaths.Lead{At: "/"}) {
		t.Fatal(got, err)
	}
	gone := filepath.Join(root, "gone")
	want := map[string]hostpaths.Lead{gone: {At: filepath.Join(root, "none"), Why: "it does not exist"}, "x": {Why: "write its absolute path on this host"}}
	if got, err := r.Resolve(t.Context(), []string{gone, "x"}); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if left := enginetest.Left(t, e, scope); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := e.ImageRemove(t.Context(), own, image.RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Resolve(t.Context(), []string{name}); err != nil || got[name].At != filepath.Join(root, "one/closed") {
		t.Errorf("whatever becomes of the image's name: %v, %v", got, err)
	}
	r.Image = ownimage.New("swarmd-none:latest", slog.New(slog.DiscardHandler)).ID
	if _, err := r.Resolve(t.Context(), []string{name}); err == nil {
		t.Error("an image that is not there")
	}
}

// TestAHelperThatIsStuck waits for what does not answer, and another one does not look there meanwhile. It ends when that answers, and with
// its SWOP, also if that is killed.
func TestAHelperThatIsStuck(t *testing.T) {
	e := enginetest.Engine(t)
	scope := enginetest.Scope(t)
	enginetest.Clean(t, scope)
	root := t.TempDir()
	tree(t, root, map[string]string{"link": "dead/gate"}, "dead/gate/x", "live")
	shut := filepath.Join(root, "dead/shut")
	if err := unix.Mkfifo(shut, 0o600); err != nil {
		t.Fatal(err)
	}
	r := byHelpers(enginetest.TestImage, scope)
	dead, live := filepath.Join(root, "dead/gate/x"), filepath.Join(root, "live")
	look := func(name, want string) {
		t.Helper()
		got, err := r.Resolve(t.Context(), []string{name})
		if err == nil && got[name].At != name || fmt.Sprint(err) != want && !strings.HasSuffix(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, %v, want %s", name, got, err, want)
		}
	}
	here := func(n int) {
		t.Helper()
		if left := enginetest.Left(t, e, scope); len(left) != n {
			t.Errorf("there are %v, want %d", left, n)
		}
	}
	const stuck = "a look before is stuck there, as in a mount whose server does not answer"
	look(dead, fmt.Sprintf("look at path %q: no answer within 10s", filepath.Dir(dead)))
	look(dead, stuck)
	look(filepath.Join(root, "link"), stuck)
	look(live, "<nil>")
	here(1)
	pipe, err := os.OpenFile(shut, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err == nil {
		err = errors.Join(os.Remove(shut), pipe.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	becomes(t, "the helper is gone", func() bool { return len(enginetest.Left(t, e, scope)) == 0 })
	look(dead, "<nil>")

	if err := unix.Mkfifo(shut, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], enginetest.TestImage, scope, dead)
	cmd.Env = append(os.Environ(), asks+"=1")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, "no answer within 10s") {
		t.Errorf("%s, %v", line, err)
	}
	here(1)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	list := func(all bool) []container.Summary {
		t.Helper()
		found, err := e.ContainerList(t.Context(), container.ListOptions{All: all, Filters: filters.NewArgs(filters.Arg("label", engine.LabelScope+"="+scope))})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	becomes(t, "the helper has ended with its SWOP", func() bool { return len(list(false)) == 0 })
	for _, c := range list(true) { // the next SWOP would, a minute later
		if err := e.ContainerRemove(t.Context(), c.ID, container.RemoveOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// becomes waits until something is so.
func becomes(t *testing.T, what string, so func() bool) {
	t.Helper()
	for tries := 0; !so(); tries++ {
		if tries == 600 {
			t.Fatalf("not so within a minute: %s", what)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
