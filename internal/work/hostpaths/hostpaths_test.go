package hostpaths_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
)

// TestMain lets this binary be swarmd in a helper's container.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == hostpaths.Command {
		os.Exit(hostpaths.Run(os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
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
		"srv/near": "shared", "srv/far": "/data/x", "srv/up": "../data", "srv/out": "../../../../../../etc-of-ours", "data/back": "../srv/far", "loop": "/loop", "srv/gone": "/none", "srv/f": "../file",
	}, "srv/shared/a", "data/x/y", "etc-of-ours")
	for name, want := range map[string]string{
		"/srv/shared/a": "/srv/shared/a", "/srv//./shared/": "/srv/shared", "/srv/near/a": "/srv/shared/a", "/srv/far/y": "/data/x/y", "/srv/up/x": "/data/x",
		"/srv/up/../srv": "/srv", "/srv/far/..": "/data", "/srv/out": "/etc-of-ours", "/data/back/y": "/data/x/y", "/..": "/", "/srv/f": "/file",
	} {
		if got, err := hostpaths.Walk(root, name); got != want || err != nil {
			t.Errorf("%s leads to %s, %v; want %s", name, got, err, want)
		}
	}
	for name, want := range map[string]string{
		"srv": "write its absolute path", "/none": "it does not exist", "/srv/gone": "/none: it does not exist", "/loop": "more than 40 symbolic links", "/file/x": "it is no directory",
		"/srv\x00": "it is none", "/" + strings.Repeat("a", 5000): "it is none", "/srv/far/z": "/data/x/z: it does not exist",
	} {
		if got, err := hostpaths.Walk(root, name); err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("%.20q leads to %s, %v; want %q", name, got, err, want)
		}
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
		at, err := hostpaths.Walk(root, name)
		if err != nil {
			return
		}
		info, err := os.Lstat(filepath.Join(root, at))
		if err != nil || info.Mode()&os.ModeSymlink != 0 || filepath.Clean(at) != at {
			t.Errorf("%q leads to %q: %v", name, at, err)
		}
		if again, err := hostpaths.Walk(root, at); err != nil || again != at {
			t.Errorf("%q leads to %q, which leads to %q, %v", name, at, again, err)
		}
	})
}

// TestALinkThatIsChangedInBetweenIsRefused holds that what was judged is what is bound.
func TestALinkThatIsChangedInBetweenIsRefused(t *testing.T) {
	root := t.TempDir()
	tree(t, root, map[string]string{"link": "one", "own": "two"}, "one", "two")
	name, own := filepath.Join(root, "link"), filepath.Join(root, "own")
	judged, err := hostpaths.Here{}.Resolve(t.Context(), []string{name})
	if err != nil || judged[name] != filepath.Join(root, "one") {
		t.Fatal(judged, err)
	}
	got, err := hostpaths.Bindable(t.Context(), hostpaths.Here{}, judged, []string{own, own})
	if err != nil || got[name] != judged[name] || got[own] != filepath.Join(root, "two") {
		t.Error(got, err)
	}
	if err := errors.Join(os.Remove(name), os.Symlink("two", name)); err != nil {
		t.Fatal(err)
	}
	if got, err := hostpaths.Bindable(t.Context(), hostpaths.Here{}, judged, nil); err == nil || !strings.Contains(err.Error(), "leads to") {
		t.Errorf("another link: %v, %v", got, err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if got, err := hostpaths.Bindable(t.Context(), hostpaths.Here{}, judged, nil); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("no link: %v, %v", got, err)
	}
	if got, err := hostpaths.Bindable(t.Context(), hostpaths.Here{}, nil, []string{name}); err != nil || got != nil {
		t.Errorf("a task without paths: %v, %v", got, err)
	}
	if _, err := (hostpaths.Here{}).Resolve(t.Context(), make([]string, 65)); err == nil {
		t.Error("any number of paths is followed")
	}
}

// straight leads nowhere else.
type straight struct{}

func (straight) Resolve(_ context.Context, names []string) (map[string]string, error) {
	all := map[string]string{}
	for _, n := range names {
		all[n] = n
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
		judged, _ := straight{}.Resolve(t.Context(), tt.judged)
		if _, err := hostpaths.Bindable(t.Context(), straight{}, judged, tt.owned); (err == nil) != tt.apart {
			t.Errorf("%v and %v: %v", tt.owned, tt.judged, err)
		}
	}
}

// counted counts what is asked.
type counted struct{ asked int }

func (c *counted) Resolve(_ context.Context, names []string) (map[string]string, error) {
	c.asked++
	return map[string]string{names[0]: fmt.Sprint(c.asked)}, nil
}

// TestWhatWasSeenIsRememberedForAMinute holds that a task that waits for an approval does not have the host looked at all the time.
func TestWhatWasSeenIsRememberedForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{}
		r := &hostpaths.Recent{Of: c}
		for range 50 {
			if got, err := r.Resolve(t.Context(), []string{"/a"}); err != nil || got["/a"] != "1" {
				t.Fatal(got, err)
			}
			time.Sleep(time.Second) // virtual
		}
		if got, err := r.Resolve(t.Context(), []string{"/b"}); err != nil || got["/b"] != "2" {
			t.Error(got, err)
		}
		time.Sleep(time.Minute)
		if got, err := r.Resolve(t.Context(), []string{"/a"}); err != nil || got["/a"] != "3" {
			t.Error(got, err)
		}
	})
}

// TestAnEnginesHostIsLookedAtByAHelper holds that a SWOP that does not see its host learns where paths lead there, and that nothing is left.
func TestAnEnginesHostIsLookedAtByAHelper(t *testing.T) {
	e := enginetest.Engine(t)
	scope := enginetest.Scope(t)
	enginetest.Clean(t, scope)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	tree(t, root, map[string]string{"link": filepath.Join(root, "one"), "gone": "none"}, "one/closed")
	if err := os.Chmod(filepath.Join(root, "one"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(root, "one"), 0o700) })
	r := hostpaths.Engine{
		Open: func(context.Context) (*engine.Engine, error) { return engine.Open(t.Context()) }, Image: enginetest.TestImage, Program: "/host" + self, Node: "swop", Scope: scope,
	}
	name := filepath.Join(root, "link/closed")
	got, err := r.Resolve(t.Context(), []string{name, "/"})
	if err != nil || got[name] != filepath.Join(root, "one/closed") || got["/"] != "/" {
		t.Fatal(got, err)
	}
	for path, want := range map[string]string{filepath.Join(root, "gone"): "does not exist", "x": "absolute"} {
		if got, err := r.Resolve(t.Context(), []string{path}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	if left := enginetest.Left(t, e, scope); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	r.Image = "swarmd-none:latest"
	if _, err := r.Resolve(t.Context(), []string{name}); err == nil {
		t.Error("an image that is not there")
	}
}
