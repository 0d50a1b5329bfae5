package rights_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/policy/rights"
	"github.com/swarmd/swarmd/internal/policy/sentence"
)

const (
	ann   = "spiffe://h.org/swarm/swci/ann"
	admin = "Allow spiffe://h.org/swarm/swci/ann to manage all-resources"
)

func TestCanonical(t *testing.T) {
	got, err := rights.Canonical([]string{"allow " + ann + " TO Manage all-resources", "Allow " + ann + " to use contracts where contract.name=study"})
	if want := []string{admin, "Allow " + ann + " to use contracts where contract.name='study'"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
	for want, texts := range map[string][]string{
		`sentence 2: "nods" is no resource: did you mean nodes?`: {admin, "Allow " + ann + " to read nods"},
		"257 sentences, at most 256":                             slices.Repeat([]string{admin}, 257),
		"bytes together, at most 32768":                          slices.Repeat([]string{admin + " where node.name='" + strings.Repeat("x", 400) + "'"}, 100),
	} {
		if got, err := rights.Canonical(texts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, %v, want %s", got, err, want)
		}
	}
}

func TestJudge(t *testing.T) {
	set := rights.NewSet([]string{
		"Allow spiffe://h.org/** to read contracts",
		"Allow a form of a later version",
		"Allow " + ann + " to use contracts where contract.name='study'",
	})
	judge := func(verb, resource, name string) rights.Judgement {
		return set.Judge(sentence.Action{Subject: ann, Verb: verb, Resource: resource, Facts: map[string]string{rights.NameOf(resource): name}})
	}
	if j := judge(sentence.Inspect, rights.Contracts, ""); !j.Allowed || j.Number != 1 {
		t.Errorf("%+v", j)
	}
	if j := judge(sentence.Use, rights.Contracts, "study"); !j.Allowed || j.Number != 3 {
		t.Errorf("%+v", j)
	}
	if j := judge(sentence.Use, rights.Contracts, "other"); j.Allowed || j.Number != 3 || j.Why != "contract.name is 'other', not 'study'" {
		t.Errorf("%+v", j)
	}
	if j := judge(sentence.Read, rights.Nodes, "sl-1"); j.Allowed || j.Number != 1 {
		t.Errorf("%+v", j)
	}
	if j := rights.NewSet(nil).Judge(sentence.Action{Subject: ann, Verb: sentence.Inspect, Resource: rights.Nodes}); j != (rights.Judgement{}) {
		t.Errorf("%+v", j)
	}
	if rights.CheckAction("use", "tasks") != nil || rights.CheckAction("use tasks where", "x") == nil || rights.CheckAction("use", "task") == nil ||
		rights.CheckAction("use tasks where node.name=x", "") == nil {
		t.Error("what may be asked about")
	}
}

// TestKeeps holds the one rule that SNs of all versions share: by whom rights can be changed. A change of it is one of the replicated state.
func TestKeeps(t *testing.T) {
	for text, want := range map[string]bool{
		admin:                                true,
		"Allow " + ann + " to manage rights": true,
		"Allow spiffe://h.org/** to manage rights":                              true,
		"Allow spiffe://x.org/**, spiffe://h.org/swarm/swci/* to manage rights": true,
		"Allow spiffe://x.org/** to manage rights":                              false,
		"Allow " + ann + "2 to manage rights":                                   false,
		"allow " + ann + " to manage rights":                                    false,
		"Allow " + ann + " to  manage rights":                                   false,
		"Allow " + ann + " to use rights":                                       false,
		"Allow " + ann + " to manage rights where node.name='x'":                false,
		"Allow " + ann + " to manage nodes":                                     false,
		"Deny " + ann + " to manage rights":                                     false,
		"Allow  to manage rights":                                               false,
		"":                                                                      false,
	} {
		if got := rights.Keeps([]string{"of another version", text}, ann); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if rights.Keeps(nil, ann) {
		t.Error("nothing keeps them")
	}
}

// TestWhatKeepsAllows holds that this version lets whoever keeps the rights change them, and reads and writes such a sentence as it is.
func TestWhatKeepsAllows(t *testing.T) {
	for _, text := range []string{admin, "Allow spiffe://x.org/**, spiffe://h.org/swarm/swci/* to manage rights"} {
		kept, err := rights.Canonical([]string{strings.Replace(text, "Allow", " ALLOW ", 1)})
		if err != nil || !slices.Equal(kept, []string{text}) || !rights.Keeps(kept, ann) ||
			!rights.NewSet(kept).Judge(sentence.Action{Subject: ann, Verb: sentence.Manage, Resource: rights.Rights}).Allowed {
			t.Errorf("%q is kept as %q, %v", text, kept, err)
		}
	}
}

func TestParseText(t *testing.T) {
	text := "# who\n\n" + admin + "\nAllow spiffe://h.org/** to use contracts\n  where contract.name=study\n\n# and\n\tand is no part\n"
	_, err := rights.ParseText("r.txt", text)
	if err == nil || !strings.HasPrefix(err.Error(), `r.txt:4: "and" after the condition`) {
		t.Error(err)
	}
	got, err := rights.ParseText("r.txt", strings.TrimSuffix(text, "\tand is no part\n"))
	if diff := cmp.Diff([]string{admin, "Allow spiffe://h.org/** to use contracts where contract.name='study'"}, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	again, err := rights.ParseText("r.txt", strings.Join(got, "\n"))
	if err != nil || !slices.Equal(again, got) {
		t.Errorf("again: %q, %v", again, err)
	}
}

// FuzzParseText holds that no text harms the reader, and that what it reads is kept as it is.
func FuzzParseText(f *testing.F) {
	f.Add(admin + "\n#\n " + admin + "\n\twhere node.name=x\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := rights.ParseText("r", text)
		if err != nil {
			return
		}
		again, err := rights.Canonical(all)
		if err == nil && !slices.Equal(all, again) {
			t.Fatalf("%q became %q", all, again)
		}
	})
}
