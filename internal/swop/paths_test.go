package swop_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/consent"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/swop"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
)

// giving is an owner who gives a directory to tasks.
func giving(t *testing.T, dir string, r hostpaths.Resolver) swop.Owner {
	t.Helper()
	p, err := policy.Parse("p.yaml", []byte("sentences:\n- Allow "+ann+" to use host\nlimits:\n  paths: ["+dir+"]\n"), "a.example")
	if err != nil {
		t.Fatal(err)
	}
	return swop.Owner{Policy: p, SwarmID: func() string { return "s" }, Recent: r, Place: swop.Place{Process: true, Profile: &taskfile.Profile{}, Paths: r}}
}

func binding(paths ...string) *task.Task {
	var all []string
	for _, p := range paths {
		all = append(all, "{Src: "+p+", Tgt: /x, MType: BIND}")
	}
	return runSwarm("[" + strings.Join(all, ", ") + "]")
}

// TestARefusalTellsNothingOfTheHost: whether there is something outside the directories that the policy gives, and where links lead out of
// them, nobody learns by asking.
func TestARefusalTellsNothingOfTheHost(t *testing.T) {
	root := t.TempDir()
	dir, secret := filepath.Join(root, "given"), filepath.Join(root, "secret")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(secret, 0o700), os.WriteFile(filepath.Join(secret, "file"), nil, 0o600), os.Symlink(secret, filepath.Join(root, "link")),
		os.Symlink(secret, filepath.Join(dir, "out")), os.Symlink("/none/of/them", filepath.Join(dir, "gone"))); err != nil {
		t.Fatal(err)
	}
	o := giving(t, dir, hostpaths.NewHere())
	for _, name := range []string{secret, root + "/none", root + "/link", root + "/link/none", secret + "/file/x", dir + "/out", dir + "/out/none", dir + "/gone", dir + "/../none", root + "/secret/../none"} {
		got := o.Decide(t.Context(), ann, &task.Hosted{}, binding(name, dir+"/none"), nil)
		want := `it asks for the path "` + name + `", which this host does not give: not by that name, or not where it leads; add where it leads to paths under limits in p.yaml`
		if got.Decision != consent.Refused || got.Sentence != want || got.Detail == "" {
			t.Errorf("%s: %+v, want %s", name, got, want)
		}
		if _, got := o.Grant(t.Context(), binding(name)); got.Decision != consent.Refused || got.Sentence != want {
			t.Errorf("%s, just before it is bound: %+v", name, got)
		}
	}
	if got := o.Decide(t.Context(), ann, &task.Hosted{}, binding(dir+"/none"), nil); got.Decision != consent.Refused || !strings.Contains(got.Sentence, `given/none": it does not exist`) {
		t.Errorf("a path that the policy gives: %+v", got)
	}
}

// broken is a host whose paths nobody can look at now.
type broken struct{ err error }

var silent = broken{errors.New("look at path \"/mnt/dead\": no answer within 10s")}

func (b broken) Resolve(context.Context, []string) (map[string]hostpaths.Lead, error) {
	return nil, b.err
}

// TestPathsThatCanNotBeLookedAt have a task wait, and only this host knows which path it is.
func TestPathsThatCanNotBeLookedAt(t *testing.T) {
	o := giving(t, "/srv", silent)
	got := o.Decide(t.Context(), ann, &task.Hosted{}, binding("/srv/a"), nil)
	_, grant := o.Grant(t.Context(), binding("/srv/a"))
	for _, v := range []consent.Verdict{got, grant} {
		if v.Decision != consent.Later || strings.Contains(v.Sentence, "dead") || !strings.Contains(v.Detail, "/mnt/dead") {
			t.Errorf("%+v", v)
		}
	}
	o = giving(t, "/srv", broken{fmt.Errorf("look: %w", &engine.Error{Err: errors.New("no image dead:1"), Help: "make it", Stays: "it lacks an image"})})
	got = o.Decide(t.Context(), ann, &task.Hosted{}, binding("/srv/a"), nil)
	if got.Decision != consent.Later || !got.Lasts || !strings.Contains(got.Sentence, "it lacks an image") || strings.Contains(got.Sentence, "dead") || !strings.Contains(got.Detail, "no image dead:1: make it") {
		t.Errorf("what lasts: %+v", got)
	}
	if got := o.Decide(t.Context(), ann, &task.Hosted{}, binding(), nil); got.Decision != consent.Allowed {
		t.Errorf("a task without paths: %+v", got)
	}
}
