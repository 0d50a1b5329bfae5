package spire_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// A look at a swarm from a machine without a SPIRE agent of its own: the context is created once, with the agent's options, and short
// lines do from then on.
func TestContextKeepsAgent(t *testing.T) {
	t.Parallel()
	w := newInviting(t)
	w.sns(1)
	agent := []string{"-serverAddress", "127.0.0.1", "-serverPort", w.port}
	create := append([]string{"create", "context", "prod", "with", "ip", w.Addr(1)}, agent...)

	ctl(t, w.Dir, append(create, "--gen-join-token", "--spire-server-socket", w.socket)...)
	ctl(t, w.Dir, "switch", "context", "prod")
	if out := ctl(t, w.Dir, "list", "nodes"); !strings.Contains(out, "sn-1") {
		t.Errorf("list nodes says %q", out)
	}
	info := ctl(t, w.Dir, "get", "context", "info")
	for _, want := range []string{"-serverAddress=127.0.0.1", "-gen-join-token=true", "-spire-server-socket=" + w.socket} {
		if !strings.Contains(info, want) {
			t.Errorf("get context info does not say %q:\n%s", want, info)
		}
	}

	// With a token that was carried there: it is used up once, and nobody else ever sees it.
	bundle := w.Path("bundle.pem")
	spireServer(t, w.socket, bundle, "bundle", "show")
	token := w.swciToken()
	ended, watched := make(chan struct{}), make(chan string, 1)
	go func() { watched <- whoShows(token, ended) }()
	create[2] = "east"
	create = append(append([]string{"swarmctl"}, create...), "-trustBundle", bundle)
	e2etest.Start(t, "create context", w.Dir, []string{"SWARM_SPIRE_JOIN_TOKEN=" + token}, create...).Ends(e2etest.Timeout)
	if err := os.Remove(bundle); err != nil {
		t.Error(err)
	}
	ctl(t, w.Dir, "list", "nodes", "--context", "east")
	e2etest.Start(t, "of the environment", w.Dir, []string{"SWARM_CONTEXT=east"}, "swarmctl", "list", "nodes").Ends(e2etest.Timeout)
	e2etest.Start(t, "create again", w.Dir, nil, create[:len(create)-2]...).Ends(e2etest.Timeout) // goes on with what it has
	close(ended)
	if where := <-watched; where != "" {
		t.Errorf("%s shows the join token", where)
	}
	agents := filepath.Dir(stateOf(t, ctl(t, w.Dir, "get", "context", "info", "east")))
	private(t, agents, token, 2)

	// What the server has forgotten can't come back, and says what to type.
	id := regexp.MustCompile(`spiffe://\S+/join_token/` + token).FindString(spireServer(t, w.socket, "", "agent", "list"))
	spireServer(t, w.socket, "", "agent", "evict", "-spiffeID", id)
	lost := e2etest.Start(t, "lost", w.Dir, nil, "swarmctl", "list", "nodes", "--context", "east")
	if code := lost.Exits(); code != exit.Unreachable {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"the SPIRE agent of context east has no identity any more", "SWARM_SPIRE_JOIN_TOKEN=TOKEN swarmctl identity --context east"} {
		if !strings.Contains(lost.Output(), want) {
			t.Errorf("it does not say %q", want)
		}
	}
	again := w.swciToken()
	e2etest.Start(t, "joins again", w.Dir, []string{"SWARM_SPIRE_JOIN_TOKEN=" + again}, "swarmctl", "identity", "--context", "east").Ends(e2etest.Timeout)
	ctl(t, w.Dir, "list", "nodes", "--context", "east")
	private(t, agents, again, 2)
	ctl(t, w.Dir, "delete", "context", "east")
	private(t, agents, again, 1)
}

// swciToken is a join token for an operator's agent.
func (w *inviting) swciToken() string {
	w.T.Helper()
	out := spireServer(w.T, w.socket, "", "token", "generate", "-spiffeID", "spiffe://swarm.learning/swarm/swci-agent")
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(out), "Token: "))
}

// spireServer runs a command of the server's program, and writes what it says to file unless that is "".
func spireServer(t *testing.T, socket, file string, args ...string) string {
	t.Helper()
	out, err := exec.Command(e2etest.Spire(t, "spire-server"), append(args, "-socketPath", socket)...).Output()
	if err == nil && file != "" {
		err = os.WriteFile(file, out, 0o600)
	}
	if err != nil {
		t.Fatalf("spire-server %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// whoShows looks until ended closes for a process whose command line has a text.
func whoShows(text string, ended <-chan struct{}) string {
	for {
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, f := range files {
			if raw, err := os.ReadFile(f); err == nil && strings.Contains(string(raw), text) {
				return strings.ReplaceAll(string(raw), "\x00", " ")
			}
		}
		select {
		case <-ended:
			return ""
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stateOf reads where an agent's state is from what get context info says.
func stateOf(t *testing.T, info string) string {
	t.Helper()
	m := regexp.MustCompile(`spire agent state\s+(\S+)`).FindStringSubmatch(info)
	if m == nil {
		t.Fatalf("get context info names no state:\n%s", info)
	}
	return m[1]
}

// private wants the state of so many agents in a folder, closed to others, and a text in no file of it that others can read.
func private(t *testing.T, dir, text string, agents int) {
	t.Helper()
	if others, err := os.ReadDir(dir); err != nil || len(others) != agents {
		t.Errorf("%s has the state of %d agents (%v), want %d", dir, len(others), err, agents)
	}
	err := filepath.WalkDir(filepath.Dir(dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.IsDir() && filepath.Dir(path) == dir && info.Mode().Perm() != 0o700 {
			return fmt.Errorf("%s has mode %v", path, info.Mode())
		}
		if !d.Type().IsRegular() || info.Mode().Perm()&0o077 == 0 {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(raw), text) {
			err = fmt.Errorf("%s has the join token, mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
