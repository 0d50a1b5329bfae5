package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/policy"
)

// TestTargets: a job may have artifacts copied to where the policy says under the name that it asks for, and learns nothing of where that is.
func TestTargets(t *testing.T) {
	p, err := policy.Parse("/etc/swarm/policy.yaml", []byte("sentences:\n- Allow spiffe://a.example/swarm/swci/anna to use host\ntargets:\n  bucket: lab-s3:models/hospital a\n  nas: 'nas:'\n"), "a.example")
	if err != nil {
		t.Fatal(err)
	}
	ask, err := policy.Unwritten(policy.Ask, "a.example")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%q %q %q", p.Target("bucket"), p.Target("nas"), ask.Target("nas")); got != `"lab-s3:models/hospital a" "nas:" ""` {
		t.Error(got)
	}
	for _, tt := range []struct {
		p            *policy.Policy
		asks         []string
		want, remedy string // no want: it is let through
	}{
		{p, nil, "", ""},
		{p, []string{"bucket", "nas"}, "", ""},
		{p, []string{"nas", "buckets"}, `it asks to have artifacts copied to "buckets", and this host has no target of that name`, "did you mean bucket? Else add buckets: REMOTE:PATH to targets in policy.yaml"},
		{ask, []string{"nas"}, "and this host has no policy that names targets", "start the host with a policy that has nas: REMOTE:PATH under targets"},
	} {
		d := tt.p.Decide(policy.Request{Submitter: "spiffe://a.example/swarm/swci/anna", Type: "RUN_JOB", Runtime: "docker", Held: true, Targets: tt.asks})
		if refused := d.Verdict == policy.Refused; refused != (tt.want != "") || !strings.Contains(d.Reason, tt.want) || d.Remedy != tt.remedy || strings.Contains(d.String(), "lab-s3") {
			t.Errorf("%v: %+v", tt.asks, d)
		}
	}
	for text, want := range map[string]string{
		"targets: [a]":                                       "p.yaml:1: targets has names and places, one a line: NAME: REMOTE:PATH",
		"targets: {-a: 'b:c'}":                               `p.yaml:1: "-a" is no name of a target`,
		"targets:\n  a: 'b:c'\n  a: 'b:d'":                   "p.yaml:3: a stands there twice",
		"targets: {a: /srv/x}":                               `p.yaml:1: "/srv/x" is no target: want REMOTE:PATH`,
		"targets: {a: '--config=x:'}":                        `"--config=x:" is no target`,
		"targets: {a: ':s3,access_key_id=1:b'}":              "is no target",
		"targets: {a: 'lab,access_key_id=1:b'}":              "is no target",
		"targets: {a: \"b:c\\nd\"}":                          "is no target",
		"targets: {a: {b: c}}":                               "want text",
		"targets: {a: 'b:" + strings.Repeat("x", 600) + "'}": "a target has 602 bytes, at most 512",
	} {
		if _, err := policy.Parse("p.yaml", []byte(text), "a.example"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
}
