package swci_test

import (
	"os"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/swci/exit"
)

const pullFile = "Name: pull\nTaskType: PULL_IMAGE\nAuthor: a\nPrereq: ROOTTASK\nOutcome: o:1\nBody:\n  OrgAndReg: o\n  RepoName: app\n  Tag: '1'\n  Auth: null\n"

func TestLint(t *testing.T) {
	profile, err := os.ReadFile("../taskfile/testdata/profiles/amd_profile.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for name, data := range map[string]string{
		"good.yaml": pullFile, "bad.yaml": strings.Replace(pullFile, "RepoName", "Reponame", 1) + "Name: 7\n",
		"profile.yaml": strings.Replace(string(profile), "network : bridge", "network : lab", 1), // in that of the engine its SLs need ports
	} {
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const found = "bad.yaml:8: unknown field Reponame in Body: did you mean RepoName?\nbad.yaml:11: Name stands in line 1 too: this one holds\nbad.yaml:11: Name is a number: quote it, as \"7\"\n"
	for _, tt := range []struct {
		words, out, err string
		code            int
	}{
		{"task good.yaml", "Task definition is valid\n", "", exit.OK},
		{"task bad.yaml", found, "bad.yaml is not valid", exit.Failed},
		{"task good.yaml bad.yaml", "good.yaml: Task definition is valid\n" + found, "1 of 2 files are not valid", exit.Failed},
		{"task none.yaml", "", "lint: open none.yaml: no such file or directory", exit.NotFound},
		{"task", "", "FILE is missing", exit.Usage},
		{"profile good.yaml", "", "good.yaml is not valid", exit.Failed},
		{"task bad.yaml -o json", `"line": 8,`, "bad.yaml is not valid", exit.Failed},
	} {
		out, err := run(t, append([]string{"lint"}, strings.Fields(tt.words)...)...)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if !strings.HasSuffix(tt.words, "json") && tt.words[:4] == "task" && out != tt.out || !strings.Contains(out, tt.out) || said != tt.err || exit.Code(err) != tt.code {
			t.Errorf("%s: got %v, code %d\n%s\nwant %s\n%s", tt.words, err, exit.Code(err), out, tt.err, tt.out)
		}
	}
	if out, err := run(t, "lint", "profile", "profile.yaml"); err != nil || out != "SWOP profile is valid\n" {
		t.Errorf("got %q, %v", out, err)
	}
}
