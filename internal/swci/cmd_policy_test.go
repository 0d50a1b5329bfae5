package swci_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/swci/exit"
)

func policyFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestLintPolicy(t *testing.T) {
	good := policyFile(t, "sentences:\n- Allow spiffe://h.org/** to use host\n")
	if out, _ := must(t, "lint", "policy", good); out != good+": allows tasks by 1 sentence, 0 of them after an approval\n" {
		t.Errorf("says %q", out)
	}
	bad := policyFile(t, "aks: true\nsentences:\n- Allow group x to use host\n")
	out, _, err := certRun(t, "lint", "policy", bad)
	want := []string{
		bad + `:1: "aks" is no key of a policy: did you mean ask?`,
		bad + `:3: "group" is no subject: subjects are SPIFFE ID patterns, such as spiffe://example.org/swarm/swci/*`,
	}
	if exit.Code(err) != exit.Failed || out != strings.Join(want, "\n")+"\n" {
		t.Errorf("exit code %d, %v:\n%s", exit.Code(err), err, out)
	}
	out, _, err = certRun(t, "lint", "policy", bad, "-o", "json")
	var got map[string]any
	if json.Unmarshal([]byte(out), &got) != nil || exit.Code(err) != exit.Failed || !cmp.Equal(got, map[string]any{"ok": false, "mistakes": []any{want[0], want[1]}}) {
		t.Errorf("%v: %s", err, out)
	}
	if out, _, err := certRun(t, "lint", "policy", bad+".none"); err == nil || out != "" {
		t.Errorf("a file that is not there: %q, %v", out, err)
	}
}

func TestExplainPolicy(t *testing.T) {
	file := policyFile(t, "sentences:\n- Allow spiffe://h.org/** to use host where task.type=PULL_IMAGE\n")
	args := []string{"explain", "policy", file, "--by", "spiffe://h.org/swarm/swci/ann"}
	want := "allowed by " + file + ":2: Allow spiffe://h.org/** to use host where task.type='PULL_IMAGE'\n"
	if out, _ := must(t, append(args, "--task-type", "PULL_IMAGE")...); out != want {
		t.Errorf("says %q, want %q", out, want)
	}
	_, _, err := certRun(t, args...)
	if exit.Code(err) != exit.Denied || !strings.Contains(err.Error(), ":2 does not allow it, as task.type is 'RUN_SWARM', not 'PULL_IMAGE'") ||
		!strings.Contains(exit.Hint(err), "add to sentences in policy.yaml: Allow spiffe://h.org/swarm/swci/ann to use host where all {task.type='RUN_SWARM'}") {
		t.Errorf("exit code %d, %v; %s", exit.Code(err), err, exit.Hint(err))
	}
	out, _, err := certRun(t, append(args, "-o", "json")...)
	var got struct{ Verdict, By string }
	if json.Unmarshal([]byte(out), &got) != nil || got.Verdict != "refused" || !strings.HasPrefix(got.By, file+":2: Allow") || exit.Code(err) != exit.Denied {
		t.Errorf("%v: %s", err, out)
	}
	if out, _ := must(t, "explain", "policy", "ask", "--by", "spiffe://h.org/swarm/swci/ann"); out != "to be approved first, by --policy ask\n" {
		t.Errorf("says %q", out)
	}
	if _, _, err := certRun(t, "explain", "policy", file); exit.Code(err) != exit.Usage {
		t.Errorf("without --by: exit code %d, %v", exit.Code(err), err)
	}
}
