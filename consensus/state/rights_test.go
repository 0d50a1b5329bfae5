package state_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
)

const setter = "spiffe://a.example/swarm/swci/ann"

func setRights(sentences ...string) state.SetRights {
	return state.SetRights{Sentences: sentences, By: setter, AtMS: 90, Order: anOrder("SetRights")}
}

// TestRights: they are kept, recorded, and replaced as a whole.
func TestRights(t *testing.T) {
	const admin, read = "Allow spiffe://a.example/swarm/swci/* to manage all-resources", "Allow spiffe://b.example/** to read contracts"
	s, lines, kinds := chained(t, append(trained(), setRights(admin, read), setRights(admin, read), setRights(admin))...)
	if diff := cmp.Diff(&state.Rights{Sentences: []string{admin}, By: setter, SetMS: 90}, s.Rights); diff != "" {
		t.Error(diff)
	}
	if n := len(kinds); !slices.Equal(kinds[n-2:], []string{"rights", "rights"}) || kinds[n-3] == "rights" {
		t.Errorf("recorded %v", kinds)
	}
	_, body, err := ledger.Parse(lines[len(lines)-2])
	if r, ok := body.(ledger.Rights); err != nil || !ok || !slices.Equal(r.Sentences, []string{admin, read}) || r.By != setter || r.Order == nil {
		t.Errorf("recorded %+v, %v", body, err)
	}
	snapshot, err := state.EncodeSnapshot(s)
	if err != nil || s.Size() != len(snapshot) {
		t.Errorf("counted %d bytes of %d, %v", s.Size(), len(snapshot), err)
	}
	if again, err := state.DecodeSnapshot(snapshot); err != nil || !cmp.Equal(again.Rights, s.Rights) {
		t.Errorf("read back %+v, %v", again, err)
	}
}

// TestLastRight: nobody can set rights that they could not change afterwards, nor take all of them away.
func TestLastRight(t *testing.T) {
	s := mustApply(t, state.New(), setRights("Allow "+setter+" to manage rights"))
	for name, tt := range map[string]struct {
		c    state.SetRights
		want string
	}{
		"none":           {setRights(), state.ReasonLastRight},
		"another's":      {setRights("Allow spiffe://b.example/** to manage rights"), state.ReasonLastRight},
		"of other names": {setRights("Allow " + setter + " to manage rights where node.name='x'"), state.ReasonLastRight},
		"too weak":       {setRights("Allow " + setter + " to use rights"), state.ReasonLastRight},
		"no sentence":    {setRights("Deny all"), state.ReasonLastRight},
		"an empty one":   {setRights("Allow "+setter+" to manage rights", ""), state.ReasonBadCommand},
		"two lines":      {setRights("Allow "+setter+" to manage rights", "a\nb"), state.ReasonBadCommand},
		"a large one":    {setRights("Allow "+setter+" to manage rights", strings.Repeat("x", 40_000)), state.ReasonBadCommand},
		"too many":       {setRights(slices.Repeat([]string{"Allow " + setter + " to manage rights"}, 257)...), state.ReasonBadCommand},
		"a long ID":      {state.SetRights{Sentences: []string{"Allow " + setter + " to manage rights"}, By: strings.Repeat("x", 5000)}, state.ReasonBadCommand},
	} {
		if next, _, err := s.Apply(tt.c); state.ReasonOf(err) != tt.want || next != s {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	other := setRights("Allow spiffe://b.example/** to manage rights")
	other.By = "spiffe://b.example/swarm/swci"
	if next, _, err := s.Apply(other); state.ReasonOf(err) != state.ReasonNoRight || next != s {
		t.Errorf("by another: %v", err)
	}
	if next, r, err := s.Apply(setRights("Allow " + setter + " to manage rights")); err != nil || r.Changed || next != s {
		t.Errorf("the same again: %+v, %v", r, err)
	}
}

// TestRightsOfALaterVersion: words that this version does not know change nothing in what the state comes to: an SN of a later version has
// proposed them, and SNs of both must agree.
func TestRightsOfALaterVersion(t *testing.T) {
	later := setRights("Allow "+setter+" to manage rights", "Allow "+setter+" to ponder dreams unless it rains", "Forbid spiffe://b.example/** to wake")
	s := mustApply(t, state.New(), later)
	if !slices.Equal(s.Rights.Sentences, later.Sentences) {
		t.Errorf("kept %q", s.Rights.Sentences)
	}
	snapshot, err := state.EncodeSnapshot(s)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := state.DecodeSnapshot(snapshot); err != nil || !cmp.Equal(again.Rights, s.Rights) {
		t.Errorf("read back %+v, %v", again, err)
	}
}
