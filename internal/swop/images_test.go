package swop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/consent"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/swop"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
)

// TestImagesAreFoundAsTheirTypesDo: an error comes with its remedy, one that passes has the task wait, and so does an engine that hangs. What
// an engine says is for the host alone.
func TestImagesAreFoundAsTheirTypesDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := &policy.Image{Name: "a:1"}
		of := func(find func(context.Context, *task.Task) (*policy.Image, error)) (*policy.Image, consent.Verdict) {
			return swop.Images(map[string]work.Type{task.PullImage: {Image: find}})(t.Context(), pull("null"))
		}
		fails := func(err error) func(context.Context, *task.Task) (*policy.Image, error) {
			return func(context.Context, *task.Task) (*policy.Image, error) { return nil, err }
		}
		if got, v := of(nil); got != nil || v.Decision != consent.Allowed {
			t.Errorf("no image: %v, %v", got, v)
		}
		if got, v := of(func(context.Context, *task.Task) (*policy.Image, error) { return want, nil }); got != want || v.Decision != consent.Allowed {
			t.Errorf("%v, %v", got, v)
		}
		if _, v := of(fails(&engine.Error{Err: errors.New("no image"), Help: "assign it"})); v != (consent.Verdict{Decision: consent.Refused, Sentence: "no image: assign it"}) {
			t.Errorf("%+v", v)
		}
		_, v := of(fails(work.EngineFails(&engine.Error{Err: errors.New("dial unix /run/secret.sock"), Help: "start it"})))
		if v.Decision != consent.Later || strings.Contains(v.Sentence, "secret") || v.Detail != "dial unix /run/secret.sock: start it" {
			t.Errorf("an engine that gives no answer: %+v", v)
		}
		_, v = of(fails(work.EngineFails(&engine.Error{Err: errors.New("dial unix /run/secret.sock"), Help: "let your user use it", Stays: "it has no permission to use the engine"})))
		if v.Decision != consent.Later || !v.Lasts || strings.Contains(v.Sentence, "secret") || !strings.Contains(v.Sentence, "it has no permission to use the engine") || v.Detail != "dial unix /run/secret.sock: let your user use it" {
			t.Errorf("an engine that may not be used: %+v", v)
		}
		began := time.Now()
		if _, v := of(func(ctx context.Context, _ *task.Task) (*policy.Image, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}); v.Decision != consent.Later || !strings.Contains(v.Sentence, "see whether the container engine answers") || time.Since(began) != time.Minute {
			t.Errorf("%+v after %v", v, time.Since(began))
		}
	})
}

// TestTheOwnerNamesDigests: a policy that names the digest of an image lets a task with that image through, and no other.
func TestTheOwnerNamesDigests(t *testing.T) {
	good, other := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	named, err := policy.Parse("p.yaml", []byte("sentences:\n- Allow "+ann+" to use host where all {image.digest='"+good+"', task.outcome!='base'}\n"), "a.example")
	if err != nil {
		t.Fatal(err)
	}
	o := swop.Owner{Policy: named, SwarmID: func() string { return "s" }, Place: swop.Place{Profile: &taskfile.Profile{}}}
	for name, tt := range map[string]struct {
		outcome string
		image   *policy.Image
		want    consent.Decision
		says    string
	}{
		"the image":                       {"good", &policy.Image{Name: "a:1", ID: good}, consent.Allowed, "p.yaml:2"},
		"in a registry":                   {"good", &policy.Image{Name: "a:1", ID: other, Digests: []string{good}}, consent.Allowed, "p.yaml:2"},
		"another":                         {"good", &policy.Image{Name: "a:1", ID: other}, consent.Refused, "image.digest is '" + other + "', not '" + good + "'"},
		"another outcome":                 {"base", &policy.Image{Name: "a:1", ID: good}, consent.Refused, "task.outcome is 'base'"},
		"an unknown one":                  {"good", policy.UnknownImage("a:1", "no registry answers"), consent.Refused, "image.digest is not known; image a:1 is not known by any digest: no registry answers"},
		"one that may be known soon":      {"good", policy.UnknownYet("a:1", "no registry answers"), consent.Refused, "image a:1 is not known by any digest yet: no registry answers"},
		"one that may be, and is in vain": {"base", policy.UnknownYet("a:1", "no registry answers"), consent.Refused, "image.digest is not known; image a:1"},
		"none":                            {"good", nil, consent.Refused, "image.digest is not known; add"},
	} {
		x := pull("null")
		x.Outcome = tt.outcome
		if got := o.Decide(t.Context(), ann, &task.Hosted{}, x, tt.image); got.Decision != tt.want || !strings.Contains(got.Sentence, tt.says) {
			t.Errorf("%s: %+v, want %s with %q", name, got, tt.want, tt.says)
		} else if (got.Soon != "") != (name == "one that may be known soon") {
			t.Errorf("%s: soon %q", name, got.Soon)
		}
		if got, want := o.Hopes(ann, &task.Hosted{}, x).Decision != consent.Refused, tt.outcome == "good"; got != want {
			t.Errorf("%s: hopes %v, want %v", name, got, want)
		}
	}
}

// TestWhoIsAskedKnowsTheImageIfItCanBe: under ask, which image it is may be known soon, and then nobody is asked without it.
func TestWhoIsAskedKnowsTheImageIfItCanBe(t *testing.T) {
	ask, err := policy.Unwritten(policy.Ask, "a.example")
	if err != nil {
		t.Fatal(err)
	}
	o := swop.Owner{Policy: ask, SwarmID: func() string { return "s" }, Place: swop.Place{Profile: &taskfile.Profile{}}}
	for _, tt := range []struct {
		image *policy.Image
		soon  string
	}{
		{policy.UnknownYet("a:1", "no registry answers"), "image a:1 is not known by any digest yet: no registry answers"},
		{policy.UnknownImage("a:1", "there is none"), ""},
		{&policy.Image{Name: "a:1", ID: "sha256:" + strings.Repeat("a", 64)}, ""},
		{nil, ""},
	} {
		if got := o.Decide(t.Context(), ann, &task.Hosted{}, pull("null"), tt.image); got.Decision != consent.Asked || got.Soon != tt.soon {
			t.Errorf("%v: %+v", tt.image, got)
		}
	}
}

// TestHopesAreOfWhatIsNotKnown: a registry is asked only about an image that the policy may allow by its name, and nothing is asked for a task
// that names a path where no path is given.
func TestHopesAreOfWhatIsNotKnown(t *testing.T) {
	p, err := policy.Parse("p.yaml", []byte("sentences:\n- Allow "+ann+" to use host where all {image.repository='good/image', image.digest!='sha256:"+strings.Repeat("b", 64)+"'}\n"), "a.example")
	if err != nil {
		t.Fatal(err)
	}
	o := swop.Owner{Policy: p, SwarmID: func() string { return "s" }, Recent: blind{t}, Place: swop.Place{Profile: &taskfile.Profile{}, Paths: blind{t}}}
	good, bad := pull("null"), pull("null")
	good.Definition = []byte("OrgAndReg : good\nRepoName : image\nTag : c\nAuth : null\n")
	for name, tt := range map[string]struct {
		by   string
		task *task.Task
		want bool
	}{
		"an image of that name": {ann, good, true}, "another name": {ann, bad, false}, "another operator": {"spiffe://a.example/swarm/swci/eve", good, false},
		"a program": {ann, runSwarm("null"), true}, "a program with a path": {ann, binding("/srv/x"), false},
		"a build": {ann, build("[FROM bad]"), false}, "what can't be read": {ann, &task.Task{Type: task.RunSwarm, Definition: []byte("?")}, false},
	} {
		if got := o.Hopes(tt.by, &task.Hosted{}, tt.task); got.Decision != consent.Refused != tt.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
