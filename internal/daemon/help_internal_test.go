package daemon

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
)

// helpOf is what `swarmd command --help` prints.
func helpOf(t *testing.T, command string) string {
	t.Helper()
	var out bytes.Buffer
	app := newApp(Env{Stdout: &out, Stderr: &out, Getenv: func(k string) string {
		return map[string]string{"SWARM_PROG": "/x/scripts/" + command}[k]
	}})
	if err := app.RunContext(context.Background(), []string{"swarmd", command, "--help"}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestHelpTellsEveryOptionWithinThePage(t *testing.T) {
	for _, c := range newApp(Env{Getenv: func(string) string { return "" }}).Commands {
		if c.Hidden {
			continue
		}
		text := helpOf(t, c.Name)
		if !strings.HasPrefix(text, c.Name+" - "+c.Usage+"\n\nusage: "+c.Name) {
			t.Errorf("%s begins with %.80q", c.Name, text)
		}
		for _, f := range c.Flags {
			if v, ok := f.(cli.VisibleFlag); !ok || !v.IsVisible() {
				continue
			}
			for _, name := range f.Names() {
				if !strings.Contains(text, "-"+name) {
					t.Errorf("%s: no word on --%s", c.Name, name)
				}
			}
		}
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpWidth {
				t.Errorf("%s: a line of %d columns: %s", c.Name, n, line)
			}
			if strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
				t.Errorf("%s: blanks at the end of %q", c.Name, line)
			}
		}
	}
}

func TestHelpPutsWhatIsRequiredFirst(t *testing.T) {
	text := helpOf(t, "run-sl")
	at := 0
	for _, want := range []string{
		"usage: run-sl --host-ip VALUE --sn-ip VALUE [OPTION...]\n",
		"\nRequired:\n  --host-ip VALUE             address or host name under which",
		"\nOptions:\n",
		"(default 30s)\n", "(default 1m)\n",
		"--linger TIME               serve the final model to others for at most this time (default 10m)\n",
		"\n" + groupIdentity + "\n",
		"[$SWARM_CERT, $SWARM_ID_CERT]\n",
		"\n" + forAgent + "\n  --config FILE               the agent's configuration FILE (default",
		"`swarmd spire-token --json`",
		"\n" + forML + "\n",
		"\n" + forContainer + "\n",
		"(default swarmd:latest) [$SWARM_IMAGE]\n",
		"\nAccepted from HPE Swarm Learning's scripts, without effect: --apls-docker-name, --apls-ip, --apls-pdf, --apls-port,\n--cap-drop,",
		"\nAn option with a value can also be given as a variable: --name is $SWARM_NAME. Options of the component's container\ncan't",
	} {
		i := strings.Index(text[at:], want)
		if i < 0 {
			t.Fatalf("no %q after\n%s", want, text[:at])
		}
		at += i + len(want)
	}
	if strings.Contains(text, "(default: false)") || strings.Contains(text, "(required)") {
		t.Errorf("noise is left:\n%s", text)
	}
}
