package swci_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/identity/spire/spiretest"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// ctl runs swarmctl in this process, with its state in a folder of the test.
func ctl(t *testing.T, state string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	code = swci.Main(args, swci.Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &err, Now: time.Now,
		Getenv: func(name string) string {
			switch name {
			case "XDG_STATE_HOME":
				return state
			case spire.AgentVariable("joinToken"):
				return os.Getenv(name)
			}
			return ""
		},
	})
	return out.String(), err.String(), code
}

// TestOwnAgent: swarmctl starts an agent for one command; the next one needs no token.
func TestOwnAgent(t *testing.T) {
	s := spiretest.NewServer(t, spiretest.Options{TrustDomain: "example.org"})
	s.CreateEntry(spiretest.Entry{ID: "/swarm/swci", Parent: "/swarm/swci-agent", Selectors: []string{spiretest.UID()}})
	t.Setenv("PATH", filepath.Dir(e2etest.Spire(t, "spire-agent")))
	state := spiretest.TempDir(t)
	args := []string{"identity", "-o", "json", "-serverAddress", "127.0.0.1", "-serverPort=" + fmt.Sprint(s.Port)}
	first := append([]string{"-genJoinToken", "--spire-server-socket", s.Socket}, args...)
	for i, args := range [][]string{first, args} {
		out, stderr, code := ctl(t, state, args...)
		if code != exit.OK {
			t.Fatalf("run %d: code %d\n%s", i, code, stderr)
		}
		var shown map[string]any
		if err := json.Unmarshal([]byte(out), &shown); err != nil || !strings.Contains(out, "spiffe://example.org/swarm/swci") {
			t.Errorf("run %d: %v\n%s", i, err, out)
		}
		if _, err := os.Stat(filepath.Join(state, "swarmctl", "spire-agent", "data", "agent-data.json")); err != nil {
			t.Errorf("run %d: nothing is kept for the next command: %v", i, err)
		}
		if left, err := filepath.Glob("/proc/[0-9]*/cmdline"); err == nil {
			for _, path := range left {
				if raw, err := os.ReadFile(path); err == nil && strings.Contains(string(raw), state) {
					t.Errorf("run %d: a process was left: %s", i, strings.ReplaceAll(string(raw), "\x00", " "))
				}
			}
		}
	}
}

func TestOwnAgentMistakes(t *testing.T) {
	t.Setenv("PATH", filepath.Dir(e2etest.Spire(t, "spire-agent")))
	for options, want := range map[string]string{
		"-joinToken=t --identity=embedded":     "-joinToken starts a SPIRE agent, --identity takes the identity from elsewhere",
		"-joinToken=t --socket-path=/s":        "-joinToken starts a SPIRE agent",
		"--socket-path=/nope":                  "no identity socket at /nope",
		"--sn-ip=h":                            "swarmctl help those of every command",
		"-joinToken=t --cert=c":                "--cert takes the identity from elsewhere",
		"-joinToken=t -genJoinToken":           "give one of the two",
		"-serverAddress=h -serverPort=x":       "want a port from 1 to 65535",
		"-serverAdress=h":                      "did you mean --serverAddress?",
		"-serverAddress=h -insecureBootstrap":  "swarmd spire-token swci",
		"-serverAddress=h -joinToken=t":        "nothing says how it knows the SPIRE server",
		"-insecureBootstrap=true -joinToken=t": "-serverAddress is missing",
	} {
		_, stderr, code := ctl(t, spiretest.TempDir(t), append([]string{"identity"}, strings.Fields(options)...)...)
		if code == exit.OK || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") > 2 {
			t.Errorf("%s: code %d, want %q:\n%s", options, code, want, stderr)
		}
	}
}

// TestTokenOfTheEnvironment: an agent that is started takes its join token from there too. By itself the variable starts none.
func TestTokenOfTheEnvironment(t *testing.T) {
	t.Setenv("PATH", filepath.Dir(e2etest.Spire(t, "spire-agent")))
	t.Setenv(spire.AgentVariable("joinToken"), "hush")
	for options, want := range map[string]string{
		"-serverAddress=h":    "nothing says how it knows the SPIRE server",
		"--socket-path=/nope": "no identity socket at /nope",
	} {
		_, stderr, code := ctl(t, spiretest.TempDir(t), append([]string{"identity"}, strings.Fields(options)...)...)
		if code == exit.OK || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, want %q:\n%s", options, code, want, stderr)
		}
	}
}
