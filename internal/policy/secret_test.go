package policy_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/policy"
)

// TestSecretsAreGivenBySentences: a task has a secret only if a sentence about secrets gives it to who asks, for this image, and each of them is needed.
func TestSecretsAreGivenBySentences(t *testing.T) {
	const host = "sentences:\n- Allow " + ann + " to use host\n"
	for _, tt := range []struct {
		name, policy string
		secrets      []string
		want         policy.Verdict
		says         string
	}{
		{"none is asked for", host, nil, policy.Allowed, ""},
		{"no sentence", host, []string{"KEY"}, policy.Refused, "add to sentences in policy.yaml: Allow " + ann + " to use secret where all {secret.name='KEY', task.type='RUN_SWARM', image.digest='sha256:"},
		{"by its name", host + "- Allow " + ann + " to use secret where secret.name='KEY'\n", []string{"KEY"}, policy.Allowed, ""},
		{"another one", host + "- Allow " + ann + " to use secret where secret.name='KEY'\n", []string{"KEY", "B"}, policy.Refused, "it asks for the secret \"B\""},
		{"to somebody else", host + "- Allow " + bob + " to use secret\n", []string{"KEY"}, policy.Refused, "it is for " + bob},
		{"all of them", host + "- Allow " + ann + " to use secret\n", []string{"KEY", "B"}, policy.Allowed, ""},
		{"for an image", host + "- Allow " + ann + " to use secret where all {secret.name in (KEY, B), image.repository='reg.h.org:5000/ml/train'}\n", []string{"KEY"}, policy.Allowed, ""},
		{"for another image", host + "- Allow " + ann + " to use secret where all {secret.name='KEY', image.repository='x'}\n", []string{"KEY"}, policy.Refused, "image.repository is"},
		{"after an approval", host + "- {sentence: Allow " + ann + " to use secret, ask: true}\n", []string{"KEY"}, policy.Asked, ""},
		{"a secret, but not the host", "sentences:\n- Allow " + ann + " to use secret\n", []string{"KEY"}, policy.Refused, "has no sentence about the host"},
		{"no sentence at all", "", []string{"KEY"}, policy.Refused, "has no sentence"},
		{"beyond a limit", host + "- Allow " + ann + " to use secret\nlimits: {gpus: 0}\n", []string{"KEY"}, policy.Refused, "GPUs"},
	} {
		r := run()
		r.Secrets, r.GPUs = tt.secrets, 1
		if d := parse(t, tt.policy).Decide(r); d.Verdict != tt.want || !strings.Contains(d.String(), tt.says) {
			t.Errorf("%s: %s, want %s with %q", tt.name, d, tt.want, tt.says)
		}
	}
	for _, name := range []string{policy.Null, policy.Ask} {
		r := run()
		r.Secrets = []string{"KEY"}
		if d := unwritten(t, name).Decide(r); d.Verdict != policy.Refused || !strings.Contains(d.Remedy, "to use secret where all {secret.name='KEY'") {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestTheNameOfASecretIsOfSecrets: a sentence about the host that names one would never hold.
func TestTheNameOfASecretIsOfSecrets(t *testing.T) {
	_, err := policy.Parse("p.yaml", []byte("sentences:\n- Allow "+ann+" to use host where any {task.type='RUN_JOB', all {secret.name=KEY}}\n"), "h.org")
	if err == nil || !strings.Contains(err.Error(), "p.yaml:2: secret.name is known of secrets alone") {
		t.Error(err)
	}
}
