package swci_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/terminal"
	"github.com/swarmd/swarmd/internal/terminal/terminaltest"
)

// resetScript is reset.cmd of release 0.3, with the line ends that it has there.
const resetScript = "EXIT ON FAILURE\r\ncreate context example node-sn\r\nswitch context example\r\nRESET CONTRACT defaultbb.cqdb.sml.hpe\r\nEXIT\r\n"

const resetTranscript = `SWCI:0 > EXIT ON FAILURE
SWCI:0 > EXIT ON FAILURE IS TURNED ON
SWCI:1 > create context example node-sn
    API Server is UP!
    CONTEXT CREATED : example
SWCI:2 > switch context example
    DEFAULT CONTEXT SET TO : example
SWCI:3 > RESET CONTRACT defaultbb.cqdb.sml.hpe
    CONTRACT RESET : defaultbb.cqdb.sml.hpe
SWCI:4 > EXIT
`

func scriptFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "reset.cmd")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestScriptFromAFileOrAPipe(t *testing.T) {
	id := "--identity=/run/agent.sock"
	file := scriptFile(t, "\ufeff"+resetScript)
	for name, tt := range map[string]struct {
		typed string
		args  []string
	}{
		"file":            {"", []string{"-f", file, id}},
		"long option":     {"list nodes", []string{id, "--file=" + file}},
		"pipe":            {resetScript, []string{id}},
		"pipe, by its -f": {resetScript, []string{"-f", "-", id}},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs, _, err := execute(t, tt.typed, tt.args...)
			if err != nil || errs != "" {
				t.Errorf("%v, %s", err, errs)
			}
			if diff := cmp.Diff(resetTranscript, out); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScriptNamesFileAndLine(t *testing.T) {
	file := scriptFile(t, "# first\nlst contracts\nget contract status d\nexit on failure\n\nswich context a\nlist contracts\n")
	out, _, _, err := execute(t, "", "-f", file, "--sn=sn1", "--identity=/run/agent.sock")
	if exit.Code(err) != exit.Failed || err.Error() != file+":6: the command failed, and EXIT ON FAILURE is on" {
		t.Errorf("%v with code %d", err, exit.Code(err))
	}
	want := `SWCI:0 > # first
SWCI:0 > lst contracts
ERROR : FILE:2: unknown command "lst contracts"
    hint: did you mean "list contracts"?
SWCI:1 > get contract status d
ERROR : FILE:3: get contract status of "d": no contract "d"
    hint: list contracts shows what there is
SWCI:2 > exit on failure
SWCI:2 > EXIT ON FAILURE IS TURNED ON
SWCI:3 >
SWCI:3 > swich context a
ERROR : FILE:6: unknown command "swich context a"
    hint: did you mean "switch context"?
`
	out = strings.ReplaceAll(strings.ReplaceAll(out, file, "FILE"), "> \n", ">\n")
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
}

// TestFormOfAWholeScript holds that -o is for every command of a script that has JSON.
func TestFormOfAWholeScript(t *testing.T) {
	out, _, _, err := execute(t, "reset contract c force\nreset contract c force -o table\nsleep 0\n", "-o", "json", "--sn=sn1", "--identity=/run/agent.sock")
	want := `SWCI:0 > reset contract c force
    {
      "name": "c",
      "run": 2
    }
SWCI:1 > reset contract c force -o table
    contract c begins run 2
SWCI:2 > sleep 0
`
	if diff := cmp.Diff(want, out); err != nil || diff != "" {
		t.Errorf("%v, transcript (-want +got):\n%s", err, diff)
	}
}

func TestLineWithoutACommand(t *testing.T) {
	for _, tt := range []struct {
		name string
		want string
		code int
		args []string
	}{
		{"an empty pipe", "no command is given", exit.Usage, nil},
		{"an empty file", "", exit.OK, []string{"-f", scriptFile(t, "")}},
		{"no such file", "no script absent.cmd", exit.NotFound, []string{"-f", "absent.cmd"}},
		{"a directory", "is a directory", exit.Usage, []string{"-f", t.TempDir()}},
		{"two files", "-f names a second script", exit.Usage, []string{"-f", scriptFile(t, ""), "-f", "b.cmd"}},
		{"no file named", "option -f needs a value", exit.Usage, []string{"-f"}},
		{"an unknown option", "unknown option --fil", exit.Usage, []string{"--fil"}},
		{"a form", `output form "xml" is not known`, exit.Usage, []string{"-o", "xml", "-f", scriptFile(t, "")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, errs, _, err := execute(t, "", tt.args...)
			if exit.Code(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.want) || out != "" {
				t.Errorf("%v with code %d, want %q with code %d; output %q", err, exit.Code(err), tt.want, tt.code, out)
			}
			if asked := tt.args == nil; asked != strings.Contains(errs, "usage: swarmctl COMMAND") {
				t.Errorf("usage is shown: %v, want %v", !asked, asked)
			}
		})
	}
}

// TestShellOnATerminal types at swarmctl without a command.
func TestShellOnATerminal(t *testing.T) {
	user, tty := terminaltest.Open(t)
	seen := terminaltest.Watch(user)
	env := swci.Env{
		Stdin: tty, Stdout: tty, Stderr: tty, Now: time.Now, IsTerminal: func(w io.Writer) bool { return terminal.Is(w) },
		Getenv: func(k string) string { return map[string]string{"XDG_STATE_HOME": t.TempDir()}[k] },
	}
	ended := make(chan error, 1)
	go func() { ended <- swci.Execute(t.Context(), nil, &swci.Session{Env: env}) }()
	seen.Await(t, "help lists the commands", 1)
	seen.Await(t, "SWCI:0 > ", 1)
	for _, keys := range []string{"exit on f\t", "OFF\r"} {
		if _, err := user.WriteString(keys); err != nil {
			t.Fatal(err)
		}
	}
	seen.Await(t, "SWCI:0 > EXIT ON FAILURE IS TURNED OFF", 1)
	seen.Await(t, "SWCI:1 > ", 1)
	if _, err := user.WriteString("lst contexts\rexit\r"); err != nil {
		t.Fatal(err)
	}
	seen.Await(t, "ERROR : unknown command \"lst contexts\"\r\n    hint: did you mean \"list contexts\"?", 1)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
