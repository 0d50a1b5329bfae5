package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/policy"
)

// TestTermsOfAPolicy: without a file a task has the engine's network, with one only if the owner has written it.
func TestTermsOfAPolicy(t *testing.T) {
	null, err := policy.Unwritten(policy.Null, "a.example")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]policy.Terms{
		"ask: true": {},
		"limits: {networks: [bridge], cpus: 2, memory: 1g, hours: 3}": {Network: true, Limits: policy.Limits{CPUs: 2, Memory: 1 << 30, Hours: 3}},
		"limits: {networks: ['*']}":                                   {Network: true},
		"limits: {networks: [host]}":                                  {Host: true},
		"limits: {networks: [other]}":                                 {},
		"limits: {gpus: 0}":                                           {NoGPUs: true},
		"limits: {artifacts: 1GiB, artifacts_days: 2}":                {Artifacts: 1 << 30, ArtifactsAge: 48 * time.Hour},
		"limits: {disk: 10g}":                                         {Disk: 10 << 30},
		"limits: {gpus: 2}":                                           {NoGPUs: true},
	} {
		p, err := policy.Parse("p.yaml", []byte(text), "a.example")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, p.Terms()); d != "" {
			t.Errorf("%s: %s", text, d)
		}
	}
	if d := cmp.Diff(policy.Terms{Network: true}, null.Terms()); d != "" {
		t.Error(d)
	}
}

// TestWhatMayBeFetchedForATask: only what a task that fetches it could fetch, without more questions.
func TestWhatMayBeFetchedForATask(t *testing.T) {
	const who = "spiffe://a.example/swarm/swci/ann"
	build := "- Allow " + who + " to use host where task.type='MAKE_USER_CONTAINER'\n"
	pull := "Allow " + who + " to use host where all {task.type='PULL_IMAGE', image.repository='good'}"
	for text, want := range map[string]bool{
		"sentences:\n" + build:                                                                    false,
		"sentences:\n" + build + "- " + pull:                                                      true,
		"sentences:\n" + build + "- {sentence: \"" + pull + "\", ask: true}":                      false,
		"ask: true\nsentences:\n" + build + "- " + pull:                                           true,
		"sentences:\n- Allow " + who + " to use host where image.reference!='other'\n":            true,
		"sentences:\n- Allow " + who + " to use host where task.type='PULL_IMAGE'\n":              false, // no build at all
		"sentences:\n" + build + "- " + pull + "\nlimits: {volumes: [other]}":                     false, // nor one with this volume
		"sentences:\n" + build + "- " + pull + "\nlimits: {volumes: [data], memory: 1g, cpus: 1}": true,
	} {
		p, err := policy.Parse("p.yaml", []byte(text), "a.example")
		if err != nil {
			t.Fatal(err)
		}
		r := policy.Request{Submitter: who, Type: "MAKE_USER_CONTAINER", Image: policy.Image{Name: "good:1"}, Volumes: []string{"data"}, Runtime: "docker", Held: true}
		if !strings.Contains(text, "volumes") {
			r.Volumes = nil
		}
		if got := p.Fetches(r, "good:1"); got != want {
			t.Errorf("%s: %v", text, got)
		}
		if p.Fetches(r, "other:1") && want && strings.Contains(text, "repository") {
			t.Errorf("%s: other:1 is fetched", text)
		}
	}
}
