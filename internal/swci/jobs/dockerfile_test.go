package jobs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/swci/jobs"
)

var (
	instruction = regexp.MustCompile(`(?m)^([A-Z]+) (.*(?:\\\n.*)*)`)
	pinned      = regexp.MustCompile(`\b[\w.-]+==[\w.]+`)
	fromPip     = regexp.MustCompile(`pip install (.*)`)
)

// TestDockerfilesInstallWhatIsTested: a Dockerfile that is written stands on one base that may be exchanged, and what it has of pip is of the versions that the
// project's own programs of that framework are tested with.
func TestDockerfilesInstallWhatIsTested(t *testing.T) {
	requirements := map[string]string{jobfile.TensorFlow: "tf.txt", jobfile.Horovod: "horovod.txt", jobfile.Ray: "ray.txt"}
	for _, framework := range jobfile.Frameworks {
		dir := t.TempDir()
		if _, err := jobs.Init(dir, framework, false); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
		if err != nil {
			t.Fatal(err)
		}
		all := instruction.FindAllStringSubmatch(string(raw), -1)
		if len(all) < 3 || all[0][0] != "ARG BASE=debian:bookworm-slim" || all[1][0] != "FROM ${BASE}" || slices.ContainsFunc(all[2:], func(x []string) bool { return x[1] != "RUN" }) {
			t.Errorf("%s: the command is the job's, and the base is named once: %q", framework, all)
		}
		tested := requirements[framework]
		if pip := fromPip.FindAllStringSubmatch(string(raw), -1); (len(pip) > 0) != (tested != "") {
			t.Errorf("%s: pip installs %q, and its programs are tested with %q", framework, pip, tested)
		}
		if tested == "" {
			continue
		}
		want, err := os.ReadFile(filepath.Join("../../../python/requirements", tested))
		if err != nil {
			t.Fatal(err)
		}
		for _, words := range fromPip.FindAllStringSubmatch(string(raw), -1) {
			for _, w := range strings.Fields(words[1]) {
				if !strings.HasPrefix(w, "-") && (!pinned.MatchString(w) || !slices.Contains(strings.Split(string(want), "\n"), w)) {
					t.Errorf("%s: pip installs %s, which %s does not have", framework, w, tested)
				}
			}
		}
	}
}
