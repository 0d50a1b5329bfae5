package swci_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/web"
)

// programs are clients of one web mode, in a swarm of fakeAPI.
type programs struct {
	t      *testing.T
	runner web.Runner
	usr    string

	mu    sync.Mutex
	asked []string // SNs
}

// serveWeb is web mode after its startup script.
func serveWeb(t *testing.T, script string) *programs {
	t.Helper()
	p := &programs{t: t, usr: t.TempDir()}
	t.Chdir(t.TempDir()) // which it leaves
	if err := errors.Join(os.Mkdir(filepath.Join(p.usr, "taskdefs"), 0o700), os.WriteFile(filepath.Join(p.usr, "swci-init"), []byte(script), 0o600)); err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	g, err := swci.NewGrammar()
	if err != nil {
		t.Fatal(err)
	}
	env := swci.Env{
		Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Now: time.Now, IsTerminal: func(io.Writer) bool { return false },
		Getenv: func(k string) string { return map[string]string{"XDG_STATE_HOME": state}[k] },
	}
	connect := func(_ context.Context, target swci.Context) (client.Operator, func(), error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked = append(p.asked, target.SNs[0])
		switch target.SNs[0] {
		case "hanging:30304":
			return answering(t, &hangingAPI{}), func() {}, nil
		case "listing:30304":
			return answering(t, &listingAPI{}), func() {}, nil
		}
		return answering(t, &fakeAPI{}), func() {}, nil
	}
	runner, done, err := swci.WebRunner(t.Context(), &swci.Session{Env: env, Grammar: g, Connect: connect}, "--usr-dir="+p.usr, "--identity=/run/agent.sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	p.runner = runner
	return p
}

// say has a client ask for a command, and returns what it answers in one line.
func (p *programs) say(client, line string) string {
	p.t.Helper()
	lines, err := p.runner.Do(p.t.Context(), "spiffe://a.example/swarm/swci/"+client, line)
	if said := strings.Join(lines, "|"); err == nil || strings.HasPrefix(said, "ERROR : ") {
		return said
	}
	return fmt.Sprintf("%q %v", lines, err)
}

// TestClientsOfWebMode holds that no client is in another one's way.
func TestClientsOfWebMode(t *testing.T) {
	p := serveWeb(t, "create context shared sn-1\nswitch context shared\ncd taskdefs\n")
	for _, tt := range []struct{ client, line, want string }{
		{"ada", "list contexts", "shared"},
		{"ada", "create context mine sn-2", "API Server is UP!|CONTEXT CREATED : mine"},
		{"ada", "switch context mine", "DEFAULT CONTEXT SET TO : mine"},
		{"ada", "set context env KEY ada's", "ERROR : a quote is not closed"},
		{"ada", "set context env KEY mine", "KEY                       : mine"},
		{"ada", "cd ..", "Current Directory : " + p.usr},
		{"ada", "exit on failure", "EXIT ON FAILURE IS TURNED ON"},
		{"ada", "nonsense", `ERROR : unknown command "nonsense"|    hint: help lists all commands`},
		{"ada", "list contexts", "mine|shared"},
		{"bob", "list contexts", "shared"},
		{"bob", "switch context mine", `ERROR : context "mine" does not exist|    hint: list contexts shows what there is`},
		{"bob", "set context env KEY bob's-is=x", "ERROR : a quote is not closed"},
		{"bob", "set context env KEY bob", "KEY                       : bob"},
		{"bob", "get context env KEY", "KEY                       : bob"},
		{"ada", "get context env shared KEY", `ERROR : context shared has no variable "KEY"|    hint: list context env shows what is set`},
		{"ada", "get context env KEY", "KEY                       : mine"},
		{"bob", "pwd", "Current Directory : " + filepath.Join(p.usr, "taskdefs")},
		{"ada", "pwd", "Current Directory : " + p.usr},
		{"bob", "sleep 0", "DONE"},
		{"bob", "list context env", "KEY                       : bob"},
		{"cy", "list context env", ""},
		{"cy", "# nothing", ""},
		{"cy", "ls", ""},
		{"cy", "delete context shared", "ERROR : delete context is not for web mode|    hint: use the prompt: run-swci without --web"},
	} {
		if got := p.say(tt.client, tt.line); got != tt.want {
			t.Errorf("%s: %s: %s, want %s", tt.client, tt.line, got, tt.want)
		}
	}
	p.asked = nil
	for _, client := range []string{"ada", "bob", "cy"} {
		if got := p.say(client, "list contracts"); got != "c" {
			t.Errorf("%s: list contracts: %s", client, got)
		}
	}
	if diff := cmp.Diff([]string{"sn-2:30304", "sn-1:30304", "sn-1:30304"}, p.asked); diff != "" {
		t.Errorf("whom commands asked (-want +got):\n%s", diff)
	}
}

// TestWaitingInWebMode holds that a command that waits blocks neither other clients nor its own, and ends when its client goes.
func TestWaitingInWebMode(t *testing.T) {
	p := serveWeb(t, "create context shared sn-1\nswitch context shared\n")
	ctx, leave := context.WithCancelCause(t.Context())
	left := errors.New("the client has gone")
	ended := make(chan error, 2)
	for _, line := range []string{"sleep 600000", "wait for hanging"} {
		go func() {
			_, err := p.runner.Do(ctx, "spiffe://a.example/swarm/swci/ada", line)
			ended <- err
		}()
	}
	for _, client := range []string{"ada", "bob"} {
		if got := p.say(client, "list contracts"); got != "c" {
			t.Errorf("%s, while commands wait: %s", client, got)
		}
	}
	leave(left)
	for range 2 {
		if err := <-ended; !errors.Is(err, left) {
			t.Errorf("a command whose client has gone: %v", err)
		}
	}
}

func TestClientContextsAreBounded(t *testing.T) {
	p := serveWeb(t, "")
	for i := range 64 {
		if got := p.say("ada", fmt.Sprintf("create context c%02d sn-1", i)); !strings.HasSuffix(got, fmt.Sprintf("CONTEXT CREATED : c%02d", i)) {
			t.Fatal(got)
		}
	}
	const want = "ERROR : this client of web mode has 64 contexts, which is as many as it may|    hint: create one of these again: c00, c01, c02, c03, c04"
	if got := p.say("ada", "create context more sn-1"); got != want {
		t.Errorf("one too many: %s", got)
	}
	for client, name := range map[string]string{"ada": "c03", "bob": "more"} {
		if got := p.say(client, "create context "+name+" sn-1"); !strings.HasSuffix(got, "CONTEXT CREATED : "+name) {
			t.Errorf("%s: %s", client, got)
		}
	}
}

// TestSubject holds that values which are nobody's business stand in no log.
func TestSubject(t *testing.T) {
	p := serveWeb(t, "")
	for line, want := range map[string]string{
		"ASSIGN TASK x TO  tr WITH 2 PEERS":      "ASSIGN TASK x TO tr WITH 2 PEERS",
		"set context env PASSWORD secret":        "set context",
		"append task body t 1 Password: x":       "append task",
		"what is secret":                         "what is",
		"create contract a\x1b[2J":               "create contract a",
		"list nodes " + strings.Repeat("ü", 300): "list nodes " + strings.Repeat("ü", 94),
	} {
		if got := p.runner.Subject(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
