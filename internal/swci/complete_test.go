package swci_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

func TestCandidates(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"dir", ".hidden"} {
		if err := os.MkdirAll(filepath.Join(name, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"XDG_STATE_HOME": t.TempDir()}
	down, calls := false, 0
	s := &swci.Session{
		Grammar: grammar(t),
		Env: swci.Env{
			Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Getenv: func(k string) string { return env[k] },
			IsTerminal: func(io.Writer) bool { return false }, Now: swci.OSEnv().Now,
		},
		Connect: func(context.Context, swci.Context) (client.Operator, func(), error) {
			calls++
			if down {
				return client.Operator{}, func() {}, exit.New(exit.Unreachable, "", "nobody answers")
			}
			return answering(t, &fakeAPI{}), func() {}, nil
		},
	}
	contexts, err := swci.OpenContexts(s.Env.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	if err := contexts.Save(swci.Context{Name: "Prod"}); err != nil {
		t.Fatal(err)
	}
	all := func(head string) []string {
		return swci.Candidates(t.Context(), s, []string{"-o", "json", "--sn=sn1", "--identity=/run/agent.sock"}, head)
	}
	for head, want := range map[string]string{
		"reset contract ":           "c",
		"get contract status ":      "c",
		"RESET CONTRACT c ":         "FORCE",
		"perfdata ":                 "c",
		"switch context ":           "Prod",
		"get context info ":         "Prod",
		"forget node ":              "sl-0 sn-0",
		"approve task x on ":        "sl-0 sn-0",
		"create contract ":          "",
		"create context x ":         "with ip service",
		"create context x with ":    "ip service",
		"list context env ":         "Prod",
		"exit ":                     "on",
		"exit on f":                 "failure",
		"cd ":                       "dir/ file",
		"cd dir/":                   "dir/sub/",
		"cd .":                      ".hidden/ dir/ file",
		"help get contract ":        "history info status",
		"list nodes ":               "",
		"no such command ":          "",
		"list 'nodes ":              "",
		"list nodes --context ":     "",
		"get ledger --o":            "--out",
		strings.Repeat("list ", 99): "",
	} {
		got := slices.DeleteFunc(all(head), func(c string) bool {
			return strings.HasPrefix(head, "get ledger") && !strings.HasPrefix(c, "--o")
		})
		if slices.Sort(got); !slices.Equal(got, strings.Fields(sorted(want))) {
			t.Errorf("%q: %q, want %q", head, got, want)
		}
	}
	if got := all("l"); !slices.Contains(got, "list") || slices.Contains(got, "run-swci") {
		t.Errorf("first words: %q", got)
	}
	if got := all("LI"); !slices.Contains(got, "LIST") {
		t.Errorf("in capitals: %q", got)
	}
	down, calls = true, 0
	if got := all("reset contract "); len(got) != 0 || calls != 1 {
		t.Errorf("nobody answers: %q after %d calls", got, calls)
	}
}

func sorted(words string) string {
	all := strings.Fields(words)
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestCandidatesOfJobs are each once, though several runs of one are listed.
func TestCandidatesOfJobs(t *testing.T) {
	api := &jobAPI{}
	for i, name := range []string{"grid.0123abcd", "grid.0123abcd", "mnist-2.0123abcd"} {
		api.assignments = append(api.assignments, &swarmv1.Assignment{Id: strconv.Itoa(i + 1), Task: name, TaskType: "RUN_JOB", Phase: "running"})
	}
	env := map[string]string{"XDG_STATE_HOME": t.TempDir()}
	s := &swci.Session{
		Grammar: grammar(t),
		Env: swci.Env{
			Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Getenv: func(k string) string { return env[k] },
			IsTerminal: func(io.Writer) bool { return false }, Now: swci.OSEnv().Now,
		},
		Connect: func(context.Context, swci.Context) (client.Operator, func(), error) {
			return answering(t, api), func() {}, nil
		},
	}
	for _, head := range []string{"cancel job ", "get job status "} {
		if got := swci.Candidates(t.Context(), s, []string{"--sn=sn1", "--identity=/run/agent.sock"}, head); strings.Join(got, " ") != "grid mnist-2" {
			t.Errorf("%q: %q", head, got)
		}
	}
}
