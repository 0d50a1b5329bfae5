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

// TestImagesAreFoundAsTheirTypesDo: an error comes with its remedy, and an engine that hangs is one.
func TestImagesAreFoundAsTheirTypesDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := &policy.Image{Name: "a:1"}
		of := func(find func(context.Context, *task.Task) (*policy.Image, error)) (*policy.Image, error) {
			return swop.Images(map[string]work.Type{task.PullImage: {Image: find}})(t.Context(), pull("null"))
		}
		if got, err := of(nil); got != nil || err != nil {
			t.Errorf("no image: %v, %v", got, err)
		}
		if got, err := of(func(context.Context, *task.Task) (*policy.Image, error) { return want, nil }); got != want || err != nil {
			t.Errorf("%v, %v", got, err)
		}
		if _, err := of(func(context.Context, *task.Task) (*policy.Image, error) {
			return nil, &engine.Error{Err: errors.New("no image"), Help: "assign it"}
		}); err == nil || err.Error() != "no image: assign it" {
			t.Error(err)
		}
		began := time.Now()
		if _, err := of(func(ctx context.Context, _ *task.Task) (*policy.Image, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}); err == nil || !strings.Contains(err.Error(), "see whether the container engine answers") || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
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
		"the image":       {"good", &policy.Image{Name: "a:1", ID: good}, consent.Allowed, "p.yaml:2"},
		"in a registry":   {"good", &policy.Image{Name: "a:1", ID: other, Digests: []string{good}}, consent.Allowed, "p.yaml:2"},
		"another":         {"good", &policy.Image{Name: "a:1", ID: other}, consent.Refused, "image.digest is '" + other + "', not '" + good + "'"},
		"another outcome": {"base", &policy.Image{Name: "a:1", ID: good}, consent.Refused, "task.outcome is 'base'"},
		"an unknown one":  {"good", policy.UnknownImage("a:1", "no registry answers"), consent.Refused, "image.digest is not known; image a:1 is not known by any digest yet: no registry answers"},
		"none":            {"good", nil, consent.Refused, "image.digest is not known; add"},
	} {
		x := pull("null")
		x.Outcome = tt.outcome
		if got := o.Decide(t.Context(), ann, &task.Hosted{}, x, tt.image); got.Decision != tt.want || !strings.Contains(got.Sentence, tt.says) {
			t.Errorf("%s: %+v, want %s with %q", name, got, tt.want, tt.says)
		}
	}
}
