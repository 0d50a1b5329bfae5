package swci_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/version"
)

// reply is what a command said at the prompt, as scripts take a transcript apart.
type reply struct {
	command string
	lines   []string // without the four blanks
	errs    []string // behind ERROR :
	reports []string // behind another prompt
}

var (
	promptLine  = regexp.MustCompile(`^SWCI:\d+ > (.*)$`)
	scriptError = regexp.MustCompile(`^ERROR : (?:stdin|swci-init):\d+: (.*)$`)
)

// answers reads a transcript line by line. commands are the lines that were typed.
func answers(t *testing.T, transcript string, commands []string) (out []reply) {
	t.Helper()
	for line := range strings.Lines(transcript) {
		line = strings.TrimSuffix(line, "\n")
		m := promptLine.FindStringSubmatch(line)
		switch {
		case m != nil && len(out) < len(commands) && m[1] == commands[len(out)]:
			out = append(out, reply{command: m[1]})
		case len(out) == 0:
			t.Fatalf("before the first prompt: %q", line)
		case m != nil:
			out[len(out)-1].reports = append(out[len(out)-1].reports, m[1])
		case strings.HasPrefix(line, "ERROR : "):
			m := scriptError.FindStringSubmatch(line)
			if m == nil {
				t.Errorf("an error without a place: %q", line)
				continue
			}
			out[len(out)-1].errs = append(out[len(out)-1].errs, m[1])
		case strings.HasPrefix(line, "    "):
			out[len(out)-1].lines = append(out[len(out)-1].lines, line[4:])
		case line != "":
			t.Errorf("a line of no kind: %q", line)
		}
	}
	return out
}

// TestWordsOfRelease03 gives all commands of release 0.3, and reads what comes as its scripts do.
func TestWordsOfRelease03(t *testing.T) {
	commands := []string{
		"EXIT ON FAILURE",
		"WAIT FOR node-sn",
		"WAIT FOR node-sn 30304 10",
		"CREATE CONTEXT a node-sn 30304",
		"SWITCH CONTEXT a",
		"LIST CONTEXTS",
		"SET CONTEXT ENV DATASET mnist",
		"set context env a EPOCHS 5",
		"SET CONTEXT ENV A.B \"x  y\"",
		"LIST CONTEXT ENV",
		"list context env a",
		"GET CONTEXT ENV DATASET",
		"get context env a EPOCHS",
		"GET CONTEXT INFO",
		"GET CONTEXT VERSION",
		"CREATE CONTRACT c",
		"LIST CONTRACTS",
		"GET CONTRACT INFO c",
		"GET CONTRACT STATUS c",
		"RESET CONTRACT c FORCE",
		"EXIT ON FAILURE OFF",
		"GET CONTEXT ENV b DATASET",
		"GET CONTEXT ENV a NOSUCH",
		"EXIT",
	}
	transcript, _, err := atPrompt(t, strings.Join(commands, "\n")+"\n", "--identity=/run/agent.sock")
	if err != nil {
		t.Fatalf("%v\n%s", err, transcript)
	}
	const name = "NAME                      : "
	want := [][]string{
		nil,
		{"API Server is UP!"},
		{"API Server is UP!"},
		{"API Server is UP!", "CONTEXT CREATED : a"},
		{"DEFAULT CONTEXT SET TO : a"},
		{"a"},
		{"DATASET                   : mnist"},
		{"EPOCHS                    : 5"},
		{"A.B                       : x  y"},
		{"A.B                       : x  y", "DATASET                   : mnist", "EPOCHS                    : 5"},
		{"A.B                       : x  y", "DATASET                   : mnist", "EPOCHS                    : 5"},
		{"DATASET                   : mnist"},
		{"EPOCHS                    : 5"},
		{
			name + "a",
			"CURRENT                   : yes",
			"IP                        : node-sn",
			"PORT                      : 30304",
			"SWARM_ID                  : s",
			"IDENTITY                  : /run/agent.sock",
			"ENV                       : A.B=x  y",
			"ENV                       : DATASET=mnist",
			"ENV                       : EPOCHS=5",
			"SWCI_VERSION              : devel",
			"API_VERSION               : swarm.v1",
		},
		{"SWCI_VERSION              : devel", "SN_VERSION                : v9", "API_VERSION               : swarm.v1"},
		{"CONTRACT CREATED : c"},
		{"c"},
		{
			name + "c",
			"TYPE                      : TRAINING",
			"CREATED                   : 1970-01-01 00:00:03",
			"RULES                     : none",
			"MERGE_METHOD              : mean",
			"MIN_PEERS                 : 2",
		},
		{
			name + "c",
			"STATE                     : ACTIVE",
			"PHASE                     : training",
			"RUN                       : 1",
			"ROUND                     : 4",
			"MIN_PEERS                 : 2",
			"PEER_COUNT                : 2",
			"COMPLETED_PEERS           : 0",
			"MODEL                     : 0123456789abcdef",
			"PARTICIPANTS              : sl-0, sl-1",
			"WAITING                   : for 1 more peer (6s)",
			"SL_NODE                   : sl-0",
			"SL_STATE                  : open",
			"SL_PHASE                  : ready",
			"SL_ROUND                  : 4",
			"SL_EPOCH                  : 1/3",
			"SL_LOSS                   : 0.5000",
			"SL_WEIGHT                 : 0",
			"SL_ISOLATION              : container, no network",
			"SL_NOTE                   : 3 ranks",
			"SL_NODE                   : sl-1",
			"SL_STATE                  : open",
			"SL_ROUND                  : 0",
			"SL_EPOCH                  : 0",
			"SL_WEIGHT                 : 0",
			"SL_ISOLATION              : container, open: network lan",
			"SL_NOTE                   : node is dead",
		},
		{"CONTRACT RESET : c"},
		nil, nil, nil, nil,
	}
	got := answers(t, transcript, commands)
	var lines [][]string
	for _, a := range got {
		if len(a.errs) == 0 {
			lines = append(lines, a.lines)
		} else {
			lines = append(lines, nil)
		}
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if want := []string{"EXIT ON FAILURE IS TURNED ON"}; !slices.Equal(got[0].reports, want) {
		t.Errorf("reports %q, want %q", got[0].reports, want)
	}
	wantErrs := [][]string{{`context "b" does not exist`}, {`context a has no variable "NOSUCH"`}}
	if diff := cmp.Diff(wantErrs, [][]string{got[21].errs, got[22].errs}); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

// TestScriptOfRelease2 runs what startup scripts of 2.x begin with.
func TestScriptOfRelease2(t *testing.T) {
	t.Chdir(t.TempDir())
	usr, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	commands := []string{
		"# Assumption : SWOP is already running",
		"EXIT ON FAILURE",
		"wait for ip sn1",
		"create context test-mnist with ip sn1",
		"create context proxied with service sn.example",
		"create context elsewhere WITH SERVICE sn.example:8443",
		"switch context test-mnist",
		"EXIT ON FAILURE OFF",
		"list contexts -o table",
		"get context info elsewhere",
		"pwd()",
		"cd /platform/swarm/usr",
		"ls()",
		"list nodes",
		"EXIT",
	}
	if err := os.WriteFile(filepath.Join(usr, "swci-init"), []byte(strings.Join(commands, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	transcript, _, err := atPrompt(t, "", "--usr-dir", usr, "--identity=/run/agent.sock")
	if err != nil {
		t.Fatalf("%v\n%s", err, transcript)
	}
	got := map[string]reply{}
	for _, a := range answers(t, transcript, commands) {
		got[a.command] = a
	}
	here := []string{"Current Directory : " + usr}
	if a, b := got["pwd()"].reports, got["cd /platform/swarm/usr"].reports; !slices.Equal(a, here) || !slices.Equal(b, here) {
		t.Errorf("pwd() %q and cd %q, want %q", a, b, here)
	}
	for command, want := range map[string][]string{
		"ls()":            {"swci-init"},
		"wait for ip sn1": {"API Server is UP!"},
		"create context proxied with service sn.example": {"API Server is UP!", "CONTEXT CREATED : proxied"},
		"list contexts -o table": {
			"NAME        CURRENT  SNS              IDENTITY         SWARM",
			"elsewhere   no       sn.example:8443  /run/agent.sock  s",
			"proxied     no       sn.example:443   /run/agent.sock  s",
			"test-mnist  yes      sn1:30304        /run/agent.sock  s",
		},
		"get context info elsewhere": {
			"NAME                      : elsewhere", "CURRENT                   : no", "SERVICE                   : sn.example:8443", "SWARM_ID                  : s",
			"IDENTITY                  : /run/agent.sock", "SWCI_VERSION              : " + version.Read().Version, "API_VERSION               : swarm.v1",
		},
		"list nodes": {
			"TYPE,HOST_IP,PORT,CONTAINER,UUID,PARENT_UUID,LAST_I_AM_ALIVE",
			"SL,10.0.0.2,30305,sl-0,12D3KooB,12D3KooS,1970-01-01 00:00:10",
			"SENTINEL,10.0.0.1,30304,sn-0,12D3KooS,,1970-01-01 00:00:11",
		},
	} {
		if diff := cmp.Diff(want, got[command].lines); diff != "" {
			t.Errorf("%s (-want +got):\n%s", command, diff)
		}
	}
}

// TestWaitForAnSN asks an SN again until it is up, or for as long as it is told.
func TestWaitForAnSN(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		commands := []string{"wait for ip late", "wait for service down:30304 3", "WAIT FOR down 30304 1", "exit on failure"}
		transcript, targets, err := atPrompt(t, strings.Join(commands, "\n")+"\nWAIT FOR down 30304 24\n", "--identity=/run/agent.sock")
		if exit.Code(err) != exit.Failed {
			t.Errorf("exit code %d after a failure that was not to be: %v", exit.Code(err), err)
		}
		got := answers(t, transcript, append(commands, "WAIT FOR down 30304 24"))
		asked := "swarmctl: down:30304 does not answer"
		want := []reply{
			{command: commands[0], lines: []string{"WAITING FOR API SERVER late:30304 - Maximum wait time is : 30 mins", "swarmctl: late:30304 does not answer", "API Server is UP!"}},
			{command: commands[1], lines: []string{"WAITING FOR API SERVER down:30304 - Maximum wait time is : 15 secs", asked, "hint: is it up? list nodes shows"}, errs: []string{"down:30304 has not answered, try 3 of 3: down:30304 does not answer"}},
			{command: commands[2], lines: []string{"hint: is it up? list nodes shows"}, errs: []string{"down:30304 has not answered, try 1 of 1: down:30304 does not answer"}},
			{command: commands[3], reports: []string{"EXIT ON FAILURE IS TURNED ON"}},
			{command: "WAIT FOR down 30304 24", lines: []string{"WAITING FOR API SERVER down:30304 - Maximum wait time is : 2 mins", asked, "hint: is it up? list nodes shows"}, errs: []string{"down:30304 has not answered, try 24 of 24: down:30304 does not answer"}},
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(reply{})); diff != "" {
			t.Errorf("transcript (-want +got):\n%s", diff)
		}
		if n := len(targets); n != lateTries+3+1+24 {
			t.Errorf("SNs were asked %d times", n)
		}
	})
}

// hangingAPI is an SN that takes calls and does not answer.
type hangingAPI struct{ fakeAPI }

func (*hangingAPI) GetSwarm(ctx context.Context) (*swarmv1.GetSwarmResponse, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// TestWaitForIsBounded holds that tries which hang make waiting no longer.
func TestWaitForIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		out, _, err := atPrompt(t, "WAIT FOR hanging 30304 360\n", "--identity=/run/agent.sock")
		if took := time.Since(start); err != nil || took != 30*time.Minute || !strings.Contains(out, "ERROR : stdin:1: hanging:30304 has not answered, try 360 of 360") {
			t.Errorf("%v after %v:\n%s", err, took, out)
		}
	})
}

func TestWordsAreChecked(t *testing.T) {
	for typed, want := range map[string]string{
		"wait for":                                      "HOST is missing",
		"wait for service":                              "HOST is missing",
		"wait for ip":                                   "HOST is missing",
		"wait for sn1 0":                                `no SN's API can be at "sn1 0"`,
		"wait for sn1 30304 0":                          `"0" is no number of tries up to 120960`,
		"wait for service sn1:x":                        `no SN's API can be at "sn1:x"`,
		"wait for sn1:1 2":                              "two ports are given: sn1:1 and 2",
		"wait for refusing":                             "the identity is refused",
		"create context a with ip service sn1":          "by ip or by service, not by both",
		"create context a with service":                 "HOST is missing",
		"create context a 1.2.3.4.5":                    `no SN's API can be at "1.2.3.4.5"`,
		"get context info":                              "there is no current context",
		"set context env x":                             "VALUE is missing",
		"set context env 1x y":                          `"1x" is no name of a variable`,
		"set context env x " + strings.Repeat("y", 5e3): "the value of x has more than 4096 bytes",
		"get context env":                               "KEY is missing",
		"get context env a b c":                         `"c" is one word too many`,
		"get contract info d":                           `get contract info of "d": no contract "d"`,
	} {
		out, _, err := atPrompt(t, typed, "--sn=sn1", "--identity=/run/agent.sock")
		if err != nil || !strings.Contains(out, "\nERROR : ") || !strings.Contains(out, want) {
			t.Errorf("%.60s: %v, want %q in:\n%s", typed, err, want, out)
		}
	}
}

// TestContextKeepsSoManyVariables sets in a full context what is there and what is not.
func TestContextKeepsSoManyVariables(t *testing.T) {
	env := map[string]string{"XDG_STATE_HOME": t.TempDir()}
	var out bytes.Buffer
	s := &swci.Session{Grammar: grammar(t), Env: swci.Env{Stdout: &out, Stderr: io.Discard, Getenv: func(k string) string { return env[k] }}}
	contexts, err := swci.OpenContexts(s.Env.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	full := swci.Context{Name: "full"}
	for i := range 256 {
		full.Env = append(full.Env, swci.Variable{Key: fmt.Sprintf("V%03d", i)})
	}
	if err := contexts.Save(full); err != nil {
		t.Fatal(err)
	}
	if err := swci.Execute(t.Context(), strings.Fields("set context env full V007 bond"), s); err != nil {
		t.Error(err)
	}
	if err := swci.Execute(t.Context(), strings.Fields("get context env full V007"), s); err != nil || out.String() != "bond\n" {
		t.Errorf("%v, %q", err, &out)
	}
	err = swci.Execute(t.Context(), strings.Fields("set context env full W 1"), s)
	if exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "context full has 256 variables") {
		t.Errorf("one more: %v", err)
	}
}

// TestOutsideThePromptFormsStay holds that a single command answers with tables and JSON.
func TestOutsideThePromptFormsStay(t *testing.T) {
	for command, want := range map[string]string{
		"get contract info c":         "name          c\ntype          TRAINING\ncreated       1970-01-01 00:00:03\nrules         none\nmerge method  mean\nmin peers     2\n",
		"get contract info c -o json": "{\n  \"name\": \"c\",\n  \"created\": \"1970-01-01T00:00:03.000Z\",\n  \"rules\": null,\n  \"method\": \"mean\",\n  \"min_peers\": 2,\n  \"layout_digest\": \"\"\n}\n",
		"get context version":         "swci version  devel\nsn version    v9\napi version   swarm.v1\n",
		"wait for sn1 -o json":        "{\n  \"sn\": \"sn1:30304\",\n  \"tries\": 1\n}\n",
		"wait for sn1":                "",
		"get context version -o json": "{\n  \"swarmctl\": \"devel\",\n  \"sn\": \"v9\",\n  \"api\": \"swarm.v1\"\n}\n",
	} {
		got, err := run(t, append(strings.Fields(command), "--sn=10.0.0.1:30304")...)
		if err != nil {
			t.Errorf("%s: %v", command, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", command, diff)
		}
	}
}
