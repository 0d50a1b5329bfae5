package swci_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/terminal"
	"github.com/swarmd/swarmd/internal/terminal/terminaltest"
)

// topOn runs `swarmctl top` with a terminal of a kind, or without one where it is empty.
func topOn(t *testing.T, in io.Reader, out io.Writer, term string, words ...string) error {
	t.Helper()
	return topOf(t, &fakeAPI{}, in, out, term, words...)
}

func topOf(t *testing.T, swarm fake, in io.Reader, out io.Writer, term string, words ...string) error {
	t.Helper()
	api := answering(t, swarm)
	env := swci.Env{
		Stdin: in, Stdout: out, Stderr: io.Discard, Now: time.Now, IsTerminal: func(w io.Writer) bool { return terminal.Is(w) },
		Getenv: func(k string) string {
			return map[string]string{"XDG_STATE_HOME": "/nowhere", "SWARM_IDENTITY": "/run/agent.sock", "TERM": term}[k]
		},
	}
	connect := func(context.Context, swci.Context) (client.Operator, func(), error) { return api, func() {}, nil }
	return swci.Execute(t.Context(), append([]string{"top", "--sn=10.0.0.1:30304"}, words...), &swci.Session{Env: env, Connect: connect})
}

// TestTopBadInput: each is a line with a remedy, and nothing on the terminal.
func TestTopBadInput(t *testing.T) {
	_, tty := terminaltest.Open(t)
	for _, bad := range []struct {
		in    io.Reader
		out   io.Writer
		term  string
		words string
		code  int
		says  string
	}{
		{strings.NewReader(""), &bytes.Buffer{}, "xterm", "", exit.Usage, "needs a terminal"},
		{tty, &bytes.Buffer{}, "xterm", "", exit.Usage, "needs a terminal"},
		{strings.NewReader(""), tty, "xterm", "", exit.Usage, "needs a terminal"},
		{tty, tty, "dumb", "", exit.Usage, "can't show a screen"},
		{tty, tty, "xterm", "-o json", exit.Usage, "no JSON"},
		{tty, tty, "xterm", "other", exit.NotFound, `no contract "other"`},
		{tty, tty, "xterm", "c d", exit.Usage, "one word too many"},
	} {
		err := topOn(t, bad.in, bad.out, bad.term, strings.Fields(bad.words)...)
		if exit.Code(err) != bad.code || !strings.Contains(err.Error(), bad.says) || bad.code != exit.Usage && exit.Hint(err) == "" {
			t.Errorf("%q: %v (%d, %q), want %d", bad.words, err, exit.Code(err), exit.Hint(err), bad.code)
		}
	}
}

// secretive is a swarm that lists its contracts to nobody.
type secretive struct{ fakeAPI }

func (*secretive) ListContracts(context.Context) (*swarmv1.ListContractsResponse, error) {
	return nil, exit.New(exit.Denied, "ask who writes the policy", "no rule lets you list contracts")
}

// TestTopShowsAContract: it shows the documents of the swarm until q is pressed, also the contract that is named where it may not list all.
func TestTopShowsAContract(t *testing.T) {
	for _, swarm := range []fake{&fakeAPI{}, &secretive{}} {
		user, tty := terminaltest.Open(t)
		seen, ended := terminaltest.Watch(user), make(chan error, 1)
		go func() { ended <- topOf(t, swarm, tty, tty, "xterm-256color", "c") }()
		seen.Await(t, "leader", 1)
		seen.Await(t, "minPeers", 1)
		seen.Await(t, "container, no network", 1)
		seen.Await(t, "NODE", 1)
		if _, err := user.WriteString("q"); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
