package sentence_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/policy/sentence"
)

func vocabulary() sentence.Vocabulary {
	return sentence.Vocabulary{
		Verbs: sentence.Verbs(), Resources: []string{"host", "tasks", sentence.AllResources}, Facts: []string{"image.digest", "task.name", "task.type"},
		Check: func(fact, value string) error {
			if fact == "task.type" && value == "RUNSWARM" {
				return fmt.Errorf("'RUNSWARM' is no task.type")
			}
			return nil
		},
	}
}

const who = "spiffe://h.org/swarm/swci/ann"

// TestText holds what sentences look like, read and written.
func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"Allow spiffe://h.org/swarm/swci/* to use host":                                                              "",
		"Allow spiffe://h.org/swarm/swci/* to use host where all {task.type='RUN_SWARM', image.digest='sha256:00'}":  "",
		"Allow spiffe://a.org/**, spiffe://b.org/** to manage all-resources where task.name='it''s'":                 "",
		"allow spiffe://h.org/swarm/swci/*\n to USE Host WHERE ALL{ task.type = RUN_SWARM }":                         "Allow spiffe://h.org/swarm/swci/* to use host where all {task.type='RUN_SWARM'}",
		"Allow spiffe://h.org/** to read tasks where any {task.name in (a, 'b c'), all {task.name!=x, task.type=y}}": "Allow spiffe://h.org/** to read tasks where any {task.name in ('a', 'b c'), all {task.name!='x', task.type='y'}}",
	} {
		s, err := sentence.Parse(text, vocabulary())
		if want == "" {
			want = text
		}
		if err != nil || s.String() != want {
			t.Errorf("%s:\n got %s, %v\nwant %s", text, s, err, want)
		}
	}
}

// TestErrors holds that an error names the wrong word, and the one that was meant.
func TestErrors(t *testing.T) {
	const start = "Allow spiffe://h.org/swarm/swci/* to use host where "
	for text, want := range map[string]string{
		"":                                                        "begins with the end: want Allow SPIFFE-ID-PATTERN to VERB RESOURCE",
		"Deny spiffe://h.org/** to use host":                      `begins with "Deny"`,
		"Allow group admins to use host":                          `"group" is no subject: subjects are SPIFFE ID patterns`,
		"Allow spiffe://h.org to use host":                        "it has no path",
		"Allow spiffe://h.org/** use host":                        `"use" where "to" is to stand`,
		"Allow spiffe://h.org/** to ues host":                     `"ues" is no verb: did you mean use?`,
		"Allow spiffe://h.org/** to use xxxxxxxx":                 `"xxxxxxxx" is no resource: want host, tasks, all-resources`,
		"Allow spiffe://h.org/** to use host in tenancy":          "names a compartment",
		"Allow spiffe://h.org/** to use host if x":                `"if" where "where" is to stand`,
		start + "task.typ='RUN_SWARM'":                            `"task.typ" is no fact that a condition may name: did you mean task.type?`,
		start + "task.type":                                       "the end after task.type: want =, != or in",
		start + "task.type='RUNSWARM'":                            "is no task.type",
		start + "task.type=":                                      "the end where a value of task.type is to stand",
		start + "task.type='a":                                    "has no closing '",
		start + "task.type=''":                                    "'' is no value",
		start + `task.type="a"`:                                   "values stand in '…'",
		start + "task.type=‘a’":                                   "values stand in '…'",
		start + "task.type='a' task.name='b'":                     "several go into all {…, …}",
		start + "all {}":                                          `"}" is no fact`,
		start + "all {task.type='a'":                              "the end where , or } is to stand",
		start + "none {task.type='a'}":                            `"none" before {: want all or any`,
		start + "task.type in 'a'":                                `"a" after in: want ('VALUE'`,
		start + "task.type in ('a' 'b')":                          `"b" where , or ) is to stand`,
		start + "task.type='a\x1b[2J'":                            "control character",
		start + "task.type='" + strings.Repeat("x", 513) + "'":    "has 513 bytes, at most 512",
		start + strings.Repeat("x", 5000):                         "at most 4096",
		start + strings.Repeat("all {", 9) + "task.type='a'":      "more than 4 of all and any",
		start + "all {" + strings.Repeat("task.type=a,", 65):      "more than 64 comparisons",
		"Allow spiffe://h.org/** to use host where \xff":          "no UTF-8",
		start + "task.type in (" + strings.Repeat("a,", 257):      "more than 256 values",
		start + "all {task.type in (" + strings.Repeat("a,", 99):  "where a value of task.type is to stand",
		"Allow " + strings.Repeat("spiffe://h.org/**, ", 65) + "": "more than 64 subjects",
	} {
		if s, err := sentence.Parse(text, vocabulary()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, %v, want …%s…", text, s, err, want)
		}
	}
}

// TestFactsWithSeveralValues: one of them is enough for a comparison, and "differs" is about all of them.
func TestFactsThatMayBeAnything(t *testing.T) {
	a := sentence.Action{Subject: who, Verb: sentence.Use, Resource: "host", Facts: map[string]string{"image.digest": "a", "task.name": "x"}, Open: []string{"image.digest"}}
	for text, want := range map[string]bool{
		"image.digest=b": true, "image.digest!=a": true, "image.digest in (x, y)": true, "all {image.digest=b, task.name=x}": true,
		"all {image.digest=b, task.name=y}": false, "any {image.digest=b, task.name=y}": true, "task.name!=x": false,
	} {
		s, err := sentence.Parse("Allow "+who+" to use host where "+text, vocabulary())
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Judge(a); got.Allows != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestFactsWithSeveralValues(t *testing.T) {
	a := sentence.Action{
		Subject: who, Verb: sentence.Use, Resource: "host", Facts: map[string]string{"image.digest": "a"},
		More: map[string][]string{"image.digest": {"b", "c", "d", "e"}, "task.name": {"x"}},
	}
	for text, why := range map[string]string{
		"image.digest=a":                     "",
		"image.digest=e":                     "",
		"image.digest in (x, c)":             "",
		"image.digest!=x":                    "",
		"image.digest!=c":                    "image.digest is 'a' or 'b' or 'c' or 2 others",
		"image.digest=x":                     "image.digest is 'a' or 'b' or 'c' or 2 others, not 'x'",
		"image.digest in (x, y)":             "image.digest is 'a' or 'b' or 'c' or 2 others, which is not in its list",
		"task.name=x":                        "task.name is not known",
		"any {task.name!=y, image.digest=b}": "",
	} {
		s, err := sentence.Parse("Allow "+who+" to use host where "+text, vocabulary())
		if err != nil {
			t.Fatal(err)
		}
		if fit := s.Judge(a); fit.Allows != (why == "") || fit.Why != why {
			t.Errorf("%s: got %+v, want %q", text, fit, why)
		}
	}
}

func TestJudge(t *testing.T) {
	facts := map[string]string{"task.type": "RUN_SWARM", "task.name": "t1"}
	for text, why := range map[string]string{
		"Allow spiffe://h.org/swarm/swci/* to use host":                                         "",
		"Allow spiffe://h.org/swarm/swci/* to manage host":                                      "",
		"Allow spiffe://x.org/**, spiffe://h.org/** to use all-resources":                       "",
		"Allow spiffe://h.org/** to use host where all {task.type='RUN_SWARM', task.name!='x'}": "",
		"Allow spiffe://h.org/** to use host where any {task.type='x', task.name in (t0, t1)}":  "",
		"Allow spiffe://x.org/** to use host":                                                   "it is for spiffe://x.org/**, not for " + who,
		"Allow spiffe://h.org/** to read host":                                                  "read does not cover use",
		"Allow spiffe://h.org/** to use tasks":                                                  "it is about tasks, not about host",
		"Allow spiffe://h.org/** to use host where task.name='t2'":                              "task.name is 't1', not 't2'",
		"Allow spiffe://h.org/** to use host where task.name!='t1'":                             "task.name is 't1'",
		"Allow spiffe://h.org/** to use host where image.digest!='t1'":                          "image.digest is not known",
		"Allow spiffe://h.org/** to use host where task.name in (a, b)":                         "task.name is 't1', which is not in its list",
		"Allow spiffe://h.org/** to use host where any {task.name=a, task.type=b}":              "task.name is 't1', not 'a', and task.type is 'RUN_SWARM', not 'b'",
	} {
		s, err := sentence.Parse(text, vocabulary())
		if err != nil {
			t.Fatal(err)
		}
		fit := s.Judge(sentence.Action{Subject: who, Verb: sentence.Use, Resource: "host", Facts: facts})
		if fit.Allows != (why == "") || fit.Why != why {
			t.Errorf("%s: got %+v, want %q", text, fit, why)
		}
	}
	var zero sentence.Sentence
	if zero.Judge(sentence.Action{Subject: who, Verb: sentence.Use}).Allows || sentence.Covers("", "") || sentence.Covers("x", sentence.Inspect) {
		t.Error("what says nothing allows something")
	}
}

// TestRoundTrip holds that what a sentence is written as is read as the same one, for random ones.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same ones each time
	for range 500 {
		s := random(r)
		again, err := sentence.Parse(s.String(), vocabulary())
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		if diff := cmp.Diff(s, again, cmp.AllowUnexported(pattern.Pattern{}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s: %s", s, diff)
		}
	}
}

func random(r *rand.Rand) sentence.Sentence {
	p, err := pattern.Parse([]string{"spiffe://h.org/**", "spiffe://a.b/swarm/*/x"}[r.IntN(2)])
	if err != nil {
		panic(err)
	}
	s := sentence.Sentence{Subjects: pattern.List{p}, Verb: sentence.Verbs()[r.IntN(4)], Resource: vocabulary().Resources[r.IntN(3)]}
	if r.IntN(4) > 0 {
		c := condition(r, 0)
		s.Where = &c
	}
	return s
}

func condition(r *rand.Rand, depth int) sentence.Condition {
	c := sentence.Condition{Op: sentence.Op(r.IntN(5))}
	if depth > 2 && c.Op <= sentence.Any {
		c.Op = sentence.In
	}
	n := 1 + r.IntN(2)
	switch c.Op {
	case sentence.All, sentence.Any:
		for range n {
			c.Parts = append(c.Parts, condition(r, depth+1))
		}
		return c
	case sentence.Equal, sentence.Differs:
		n = 1
	case sentence.In:
	}
	c.Fact = vocabulary().Facts[r.IntN(3)]
	for range n {
		c.Values = append(c.Values, []string{"x", "it's", "a b", "ü{},=('", "sha256:00"}[r.IntN(5)])
	}
	return c
}

// FuzzParse holds that no text harms the parser, and that what it reads it writes so that it reads the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"Allow spiffe://h.org/swarm/swci/* to use host where all {task.type='RUN_SWARM', image.digest!=sha256:00}",
		"allow spiffe://h.org/**,spiffe://a.b/x to read tasks where any {task.name in ('it''s', b), all{task.name=c}}",
		"Allow group <name> to manage repos in compartment c where all { target.repo.name=<n> }",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := sentence.Parse(text, vocabulary())
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("an error of several lines: %q", err)
			}
			return
		}
		again, err := sentence.Parse(s.String(), vocabulary())
		if err != nil && len(s.String()) <= sentence.MaxBytes {
			t.Fatalf("%q: %v", s, err)
		}
		if err == nil && again.String() != s.String() {
			t.Fatalf("%q became %q", s, again)
		}
	})
}
