package swci_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// lateTries is how often the SN called late is asked until it answers.
const lateTries = 4

// atPrompt runs run-swci with what is typed there, in a swarm of fakeAPI. It returns the transcript and who was asked, as
// whom, by command.
func atPrompt(t *testing.T, typed string, args ...string) (out string, targets []string, err error) {
	t.Helper()
	out, errs, targets, err := execute(t, typed, append([]string{"run-swci"}, args...)...)
	if errs != "" {
		t.Errorf("standard error at the prompt: %s", errs)
	}
	return out, targets, err
}

// execute is atPrompt for any line.
func execute(t *testing.T, typed string, args ...string) (out, stderr string, targets []string, err error) {
	t.Helper()
	state, asked := t.TempDir(), map[string]int{}
	var b, errs bytes.Buffer
	env := swci.Env{
		Stdin: strings.NewReader(typed), Stdout: &b, Stderr: &errs,
		Getenv: func(k string) string {
			return map[string]string{"XDG_STATE_HOME": state, "SWARM_CONTEXT": os.Getenv("SWARM_CONTEXT")}[k]
		},
		Now: func() time.Time { return time.UnixMilli(11_000) }, IsTerminal: func(io.Writer) bool { return false },
	}
	connect := func(_ context.Context, target swci.Context) (client.Operator, func(), error) {
		targets = append(targets, fmt.Sprint(target.SNs, " ", target.Identity))
		asked[target.SNs[0]]++
		switch sn := target.SNs[0]; {
		case sn == "refusing:30304":
			return client.Operator{}, func() {}, exit.New(exit.Denied, "", "the identity is refused")
		case sn == "late:30304" && asked[sn] < lateTries:
			return client.Operator{}, func() {}, exit.New(exit.Unreachable, "", "late:30304 does not answer")
		case sn == "hanging:30304":
			return answering(t, &hangingAPI{}), func() {}, nil
		case sn == "down:30304":
			return client.Operator{}, func() {}, exit.New(exit.Unreachable, "is it up? swarmctl list nodes shows", "down:30304 does not answer")
		}
		return answering(t, &fakeAPI{}), func() {}, nil
	}
	err = swci.Execute(t.Context(), args, &swci.Session{Env: env, Connect: connect})
	return b.String(), errs.String(), targets, err
}

func TestPrompt(t *testing.T) {
	out, targets, err := atPrompt(t, `list contracts
LIST CONTRACTS -o json
create context Example node-sn
switch context Example
list contexts -o table
RESET CONTRACT c
reset contract c FORCE
DELETE CONTRACT c force
get contract status d
lst nodes
help HELP
help exit on failure
exit
list nodes
`, "--sn", "first:1", "--identity", "/run/agent.sock")
	if err != nil {
		t.Fatal(err)
	}
	want := `SWCI:0 > list contracts
    c
SWCI:1 > LIST CONTRACTS -o json
    {
      "contracts": [
        {
          "name": "c",
          "run": 1,
          "phase": "training",
          "round": 4,
          "min_peers": 2,
          "open_sessions": 2,
          "ended_sessions": 0,
          "created": "1970-01-01T00:00:03.000Z"
        }
      ],
      "no_quorum": null
    }
SWCI:2 > create context Example node-sn
    API Server is UP!
    CONTEXT CREATED : Example
SWCI:3 > switch context Example
    DEFAULT CONTEXT SET TO : Example
SWCI:4 > list contexts -o table
    NAME     CURRENT  SNS            IDENTITY         SWARM
    Example  yes      node-sn:30304  /run/agent.sock  s
SWCI:5 > RESET CONTRACT c
ERROR : stdin:6: reset contract "c": 2 sessions are open
    hint: use force
SWCI:6 > reset contract c FORCE
    CONTRACT RESET : c
SWCI:7 > DELETE CONTRACT c force
    contract c is deleted, in run 3
SWCI:8 > get contract status d
ERROR : stdin:9: get contract status of "d": no contract "d"
    hint: list contracts shows what there is
SWCI:9 > lst nodes
ERROR : stdin:10: unknown command "lst nodes"
    hint: did you mean "list nodes"?
SWCI:10 > help HELP

HELP [command:string]

Without words it lists all commands and the options that each of them takes. With the words of a
command it explains that one. The option --help does the same.

SWCI:11 > help exit on failure

EXIT ON FAILURE [state:string]

STATE is on or off, and on if not given. While it is on, the first command that fails ends script
and prompt with exit code 1. When the prompt starts it is off.

SWCI:12 > exit
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
	wantTargets := []string{
		"[first:1] /run/agent.sock", "[first:1] /run/agent.sock", "[node-sn:30304] /run/agent.sock",
		"[node-sn:30304] /run/agent.sock", "[node-sn:30304] /run/agent.sock", "[node-sn:30304] /run/agent.sock",
		"[node-sn:30304] /run/agent.sock",
	}
	if diff := cmp.Diff(wantTargets, targets); diff != "" {
		t.Errorf("who was asked (-want +got):\n%s", diff)
	}
}

// TestSwitchedContextIsUsed holds that what was chosen at the prompt counts, whatever the environment says.
func TestSwitchedContextIsUsed(t *testing.T) {
	t.Setenv("SWARM_CONTEXT", "first")
	const typed = "create context first sn1 --sn=x\ncreate context second sn2\nlist contracts\nswitch context second\nlist contracts\nget context info\n"
	out, targets, err := atPrompt(t, typed, "--identity=/run/agent.sock")
	want := []string{"[sn1:30304] /run/agent.sock", "[sn2:30304] /run/agent.sock", "[sn1:30304] /run/agent.sock", "[sn2:30304] /run/agent.sock"}
	if diff := cmp.Diff(want, targets); err != nil || diff != "" || !strings.Contains(out, "NAME                      : second\n") {
		t.Errorf("%v; who was asked (-want +got):\n%s\n%s", err, diff, out)
	}
}

// TestFilesOfTheIdentity holds that files named to run-swci are found from the user directory too, and from where cd leads.
func TestFilesOfTheIdentity(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	if err := os.MkdirAll("usr/below", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		options []string
		want    string
	}{
		{[]string{"--cert=c.pem", "--key=k.pem", "--capath=cas"}, "[sn1:1] files:" + url.Values{"cert": {here + "/c.pem"}, "key": {here + "/k.pem"}, "capath": {here + "/cas"}}.Encode()},
		{[]string{"--identity=embedded=auth"}, "[sn1:1] embedded=" + here + "/auth"},
		{[]string{"--identity=embedded"}, "[sn1:1] embedded"},
	} {
		_, targets, err := atPrompt(t, "list contracts\ncd below\nlist contracts\n", append(tt.options, "--usr-dir=usr", "--sn=sn1:1")...)
		if diff := cmp.Diff([]string{tt.want, tt.want}, targets); err != nil || diff != "" {
			t.Errorf("%v: %v; who was asked (-want +got):\n%s", tt.options, err, diff)
		}
		t.Chdir(here)
	}
}

// TestOriginalScript runs the reset.cmd that the original's examples have.
func TestOriginalScript(t *testing.T) {
	t.Chdir(t.TempDir())
	usr := t.TempDir()
	script := "EXIT ON FAILURE\ncreate context example node-sn\nswitch context example\nRESET CONTRACT c FORCE\nEXIT\n"
	if err := os.WriteFile(filepath.Join(usr, "reset.cmd"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _, err := atPrompt(t, "list nodes\n", "--usr-dir", usr, "--init-script-name=reset.cmd", "--identity=/run/agent.sock", "-it", "--rm")
	if err != nil {
		t.Fatal(err)
	}
	want := `SWCI:0 > EXIT ON FAILURE
SWCI:0 > EXIT ON FAILURE IS TURNED ON
SWCI:1 > create context example node-sn
    API Server is UP!
    CONTEXT CREATED : example
SWCI:2 > switch context example
    DEFAULT CONTEXT SET TO : example
SWCI:3 > RESET CONTRACT c FORCE
    CONTRACT RESET : c
SWCI:4 > EXIT
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
}

func TestPromptRefusals(t *testing.T) {
	id := "--identity=/run/agent.sock"
	tests := []struct {
		name, typed, want string
		args              []string
	}{
		{"no SN", "list nodes", "ERROR : stdin:1: no SN is known\n    hint: create context NAME with ip HOST, then switch context NAME; or give --sn HOST:PORT", []string{id}},
		{"context without SN", "create context x", "ERROR : stdin:1: HOST is missing", []string{id}},
		{"context of an SN that is down", "create context x with ip down\nlist contexts", "ERROR : stdin:1: down:30304 does not answer\n    hint: is it up? list nodes shows\nSWCI:1 > list contexts\n", []string{id}},
		{"context at another port", "create context x WITH IP sn1 99\nlist contexts -o table", "sn1:99", []string{id}},
		{"SN without a port", "list nodes", "ERROR : stdin:1: down:30304 does not answer", []string{id, "--sn=down"}},
		{"context of a bad name", "create context ../x sn1", "context name \"../x\" is not valid", []string{id}},
		{"run-swci", "run-swci", "ERROR : stdin:1: run-swci is not for the prompt", nil},
		{"sleep", "sleep -1", `ERROR : stdin:1: "-1" is no number of seconds`, nil},
		{"a word of other shells", "QUIT", `hint: did you mean "exit"?`, nil},
		{"a word of several", "get contrct status c", `hint: did you mean "get contract status"?`, nil},
		{"a word of several, and no argument", "Reset Contrat", `hint: did you mean "reset contract"?`, nil},
		{"sleep, no number", "sleep NaN", `ERROR : stdin:1: "NaN" is no number`, nil},
		{"exit on failure", "exit on failure maybe", `ERROR : stdin:1: "maybe" is neither on nor off`, nil},
		{"option of ls", "ls -x", "ERROR : stdin:1: unknown option -x\n    hint: ls knows -l, -a, -A, -d, -t, -S, -r, -R, -1 and -h", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, _, err := atPrompt(t, tt.typed, tt.args...)
			if err != nil || !strings.Contains(out, tt.want) {
				t.Errorf("%v, want %q in:\n%s", err, tt.want, out)
			}
		})
	}
}

func TestRunSWCIRefusals(t *testing.T) {
	tests := []struct {
		name, want string
		args       []string
	}{
		{"a failure that was not to be", "stdin:2: the command failed", nil},
		{"an unknown option", "unknown option --usr-dri", []string{"--usr-dri", "x"}},
		{"a user directory that is not there", "--usr-dir: /no/such: bad path", []string{"--usr-dir", "/no/such"}},
		{"a script without user directory", "--init-script-name: x: bad file", []string{"--init-script-name", "x"}},
		{"a runtime", "--runtime podman is not known", []string{"--runtime", "podman"}},
		{"a container's option", "--network is for containers", []string{"--net", "x"}},
		{"no value", "option --usr-dir needs a value", []string{"--usr-dir"}},
		{"a value that is forgotten", "--usr-dir: missing argument", []string{"--usr-dir", "-it"}},
		{"the background", "can't run in the background", []string{"--runtime", "docker", "-d"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := atPrompt(t, "exit on failure\nlst nodes", tt.args...)
			if exit.Code(err) != exit.Failed || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v with code %d, want %q with code 1", err, exit.Code(err), tt.want)
			}
		})
	}
}

func TestWordsOfThePromptAreForThePrompt(t *testing.T) {
	_, err := run(t, "exit", "on", "failure")
	if exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "exit on failure is a word of the SWCI prompt") {
		t.Errorf("error: %v", err)
	}
}
