package pattern_test

import (
	"strings"
	"testing"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/identity/pattern"
)

func TestMatch(t *testing.T) {
	const sl = "spiffe://b.example/swarm/sl"
	for _, tt := range []struct {
		pattern string
		match   []string
		refuse  []string
	}{
		{sl, []string{sl}, []string{sl + "/a", "spiffe://a.example/swarm/sl", "", sl + "/", "http://b.example/swarm/sl"}},
		{sl + "/a", []string{sl + "/a"}, []string{sl, sl + "/b", sl + "/A", sl + "/a/b"}},
		{sl + "/*", []string{sl + "/a", sl + "/a.b-c_d"}, []string{sl, sl + "/", sl + "/a/b", sl + "/..", sl + "/*", sl + "/a b"}},
		{sl + "/**", []string{sl, sl + "/a", sl + "/a/b"}, []string{"spiffe://b.example/swarm/sn", sl + "/", sl + "//a", sl + "x"}},
		{"spiffe://b.example/**", []string{sl, "spiffe://b.example", "spiffe://b.example/x"}, []string{"spiffe://c.b.example/swarm/sl", "spiffe://b.exampl/x"}},
		{"spiffe://b.example/*/sl/*", []string{sl + "/a"}, []string{sl, "spiffe://b.example/swarm/sn/a"}},
	} {
		p, err := pattern.Parse(tt.pattern)
		if err != nil || p.String() != tt.pattern {
			t.Errorf("parse %s: %s, %v", tt.pattern, p, err)
		}
		for _, id := range tt.match {
			if !p.Match(id) {
				t.Errorf("%s does not match %s", tt.pattern, id)
			}
		}
		for _, id := range tt.refuse {
			if p.Match(id) {
				t.Errorf("%s matches %s", tt.pattern, id)
			}
		}
	}
	if (pattern.Pattern{}).Match(sl) {
		t.Error("nothing matches all")
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "want spiffe://",
		"b.example/swarm/sl":          "want spiffe://",
		"spiffe://*/swarm/sl":         "name the trust domain",
		"spiffe://B.example/swarm/sl": "no trust domain",
		"spiffe:///swarm/sl":          "no trust domain",
		"spiffe://b.example":          "has no path",
		"spiffe://b.example/":         "no segment",
		"spiffe://b.example/swarm//a": "no segment",
		"spiffe://b.example/../a":     "no segment",
		"spiffe://b.example/swarm/s*": "whole segment",
		"spiffe://b.example/**/a":     "must be the last",
		"spiffe://b.example/" + strings.Repeat("a/", 20) + "a": "at most 16",
		"spiffe://b.example/" + strings.Repeat("a", 300):       "at most 256",
	} {
		if _, err := pattern.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parse %q: %v, want %q", text, err, want)
		}
	}
	if _, err := pattern.ParseList(make([]string, pattern.MaxList+1)); err == nil {
		t.Error("a list without end is taken")
	}
}

func TestUnder(t *testing.T) {
	for text, want := range map[string]bool{
		"spiffe://a/swarm/sl": true, "spiffe://a/swarm/sl/*": true, "spiffe://a/**": true, "spiffe://a/*/*/x": true,
		"spiffe://a/swarm/sn/*": false, "spiffe://a/swarm": false, "spiffe://a/swarm/**": true, "spiffe://a/other/**": false,
	} {
		p, err := pattern.Parse(text)
		if err != nil || p.Under("swarm", "sl") != want {
			t.Errorf("%s may mean an SL: %t, %v", text, !want, err)
		}
	}
}

// FuzzParse holds that a pattern is read back as it is written, that it matches nothing but SPIFFE IDs of its trust domain, and
// that one without * matches itself alone.
func FuzzParse(f *testing.F) {
	f.Add("spiffe://b.example/swarm/sl/*", "spiffe://b.example/swarm/sl/a")
	f.Add("spiffe://b.example/**", "spiffe://b.example")
	f.Add("spiffe://b.example/swarm/sl", "spiffe://b.example/swarm/sl")
	f.Fuzz(func(t *testing.T, text, id string) {
		p, err := pattern.Parse(text)
		if err != nil {
			return
		}
		if again, err := pattern.Parse(p.String()); err != nil || p.String() != text || again.Match(id) != p.Match(id) {
			t.Fatalf("%q is written as %q: %v", text, p, err)
		}
		if !p.Match(id) {
			return
		}
		got, err := spiffeid.FromString(id)
		if err != nil || !strings.HasPrefix(text, "spiffe://"+got.TrustDomain().Name()+"/") {
			t.Fatalf("%q matches %q: %v", text, id, err)
		}
		if !strings.Contains(text, "*") && id != text {
			t.Fatalf("%q matches %q", text, id)
		}
	})
}
