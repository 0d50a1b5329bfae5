package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/policy"
)

func imageOf(name string, id int, digests ...string) *policy.Image {
	return &policy.Image{Name: name, ID: fmt.Sprintf("sha256:%064x", id), Digests: digests}
}

// TestImages: several images are in the order of their names, and one digest stands for all, which docker inspect and sha256sum come to as well.
func TestImages(t *testing.T) {
	all, err := policy.NewImages(imageOf("b:1", 2), imageOf("a:1", 3), imageOf("c:1", 2))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, one := range all.Each() {
		names = append(names, one.Name)
	}
	// printf 'sha256:%064x\n' 2 3 | sha256sum
	const sum = "sha256:610890b2e0355d334bd6ffb21f08b40562ab7f0bfc5590ee52741821feba645d"
	if !slices.Equal(names, []string{"a:1", "b:1", "c:1"}) || all.Together() != sum || all.String() != sum+" (a:1, b:1, c:1)" || !slices.Equal(all.Signable(), []string{sum}) {
		t.Errorf("%q, %s", names, all)
	}
	if got := all.Of("b:1"); got == nil || got.ID != imageOf("", 2).ID || all.Of("d:1") != nil || (*policy.Image)(nil).Of("a:1") != nil {
		t.Errorf("b:1 is %+v", got)
	}
	one, err := policy.NewImages(imageOf("a:1", 3))
	if err != nil || len(one.Others) > 0 || one.String() != imageOf("a:1", 3).String() {
		t.Errorf("one image: %s, %v", one, err)
	}
}

func TestBadImages(t *testing.T) {
	var many []*policy.Image
	for i := range 17 {
		many = append(many, imageOf(fmt.Sprintf("i:%02d", i), i))
	}
	digests := slices.Repeat([]string{imageOf("", 1).ID}, 64)
	for name, tt := range map[string]struct {
		all  []*policy.Image
		want string
	}{
		"none":             {nil, "has none"},
		"too many":         {many, "at most 16"},
		"one twice":        {[]*policy.Image{imageOf("a", 1), imageOf("a", 1)}, "not in their order"},
		"an unknown one":   {[]*policy.Image{imageOf("a", 1), policy.UnknownImage("b", "why")}, "its ID is not known"},
		"to be fetched":    {[]*policy.Image{{Name: "a", Digests: digests[:1]}, imageOf("b", 1)}, "its ID is not known"},
		"several of those": {[]*policy.Image{imageOf("a", 1), {Name: "b", ID: imageOf("", 1).ID, Others: []policy.Image{*imageOf("c", 1)}}}, "several images of several"},
		"a bad digest":     {[]*policy.Image{imageOf("a", 1), {Name: "b", ID: "sha256:1"}}, "is no digest"},
		"a long name":      {[]*policy.Image{imageOf("a", 1), imageOf(strings.Repeat("b", 513), 1)}, "its name has 513 bytes"},
		"digests together": {[]*policy.Image{imageOf("a", 1, digests...), imageOf("b", 1, digests...), imageOf("c", 1, digests...), imageOf("d", 1, digests...), imageOf("e", 1, digests...)}, "more than 256 digests"},
	} {
		if _, err := policy.NewImages(tt.all...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}
