package swci

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/swci/exit"
)

func TestKeptAgentAndLine(t *testing.T) {
	kept := func(options ...string) *KeptAgent {
		k := &KeptAgent{State: "0123456789abcdef"}
		for _, o := range options {
			name, value, _ := strings.Cut(o, "=")
			k.Options = append(k.Options, AgentSetting{name, value})
		}
		return k
	}
	base := []string{"serverAddress=h", "serverPort=1", "trustBundle=/b", "trustBundleFormat=pem"}
	for name, tt := range map[string]struct {
		kept    []string
		line    map[string]string
		another bool
		want    []string // if it is not another
	}{
		"nothing":            {base, nil, false, base},
		"an option":          {base, map[string]string{"logLevel": "debug"}, false, append(slices.Clone(base), "logLevel=debug")},
		"the same server":    {base, map[string]string{"serverAddress": "h", "serverPort": "1"}, false, base},
		"another server":     {base, map[string]string{"serverAddress": "x"}, true, nil},
		"another port":       {base, map[string]string{"serverAddress": "h", "serverPort": "2"}, true, nil},
		"another domain":     {base, map[string]string{"trustDomain": "d"}, true, nil},
		"a file":             {base, map[string]string{"config": "agent.conf"}, true, nil},
		"another trust":      {base, map[string]string{"trustBundleUrl": "u"}, false, []string{"serverAddress=h", "serverPort=1", "trustBundleUrl=u"}},
		"token":              {base, map[string]string{"joinToken": "t"}, false, append([]string{"joinToken=t"}, base...)},
		"token, not made":    {[]string{"gen-join-token=true", "serverAddress=h", "ssh-user=u"}, map[string]string{"joinToken": "t"}, false, []string{"joinToken=t", "serverAddress=h"}},
		"none made any more": {[]string{"gen-join-token=true", "serverAddress=h", "ssh-user=u"}, map[string]string{"gen-join-token": "false"}, false, []string{"gen-join-token=false", "serverAddress=h"}},
		"another user":       {[]string{"gen-join-token=true", "serverAddress=h", "ssh-user=u"}, map[string]string{"ssh-user": "v"}, false, []string{"gen-join-token=true", "serverAddress=h", "ssh-user=v"}},
	} {
		k := kept(tt.kept...)
		if got := k.another(tt.line); got != tt.another {
			t.Errorf("%s: another agent: %v", name, got)
		}
		if tt.another {
			continue
		}
		var got []string
		for o, v := range k.over(tt.line) {
			got = append(got, o+"="+v)
		}
		slices.Sort(got)
		slices.Sort(tt.want)
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestKeepAgent: what a context keeps of a command line.
func TestKeepAgent(t *testing.T) {
	home, here := t.TempDir(), t.TempDir()
	t.Chdir(here)
	getenv := func(k string) string {
		return map[string]string{"XDG_STATE_HOME": home, "SWARM_SPIRE_JOIN_TOKEN": "hush2"}[k]
	}
	if err := os.WriteFile("bundle.pem", []byte("certificates"), 0o644); err != nil { //nolint:gosec // anybody may read a trust bundle
		t.Fatal(err)
	}
	line := map[string]string{"serverAddress": "h", "serverPort": "81", "joinToken": "hush", "trustBundle": "bundle.pem", "socketPath": "a.sock", "logLevel": "debug"}
	var c Context
	if err := c.keep("prod", line, getenv); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, "swarmctl", "agents", c.Agent.State)
	want := []AgentSetting{{"logLevel", "debug"}, {"serverAddress", "h"}, {"serverPort", "81"}, {"socketPath", filepath.Join(here, "a.sock")}, {"trustBundle", filepath.Join(dir, "trust-bundle")}}
	if d := cmp.Diff(want, c.Agent.Options); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if c.agent.JoinToken != "hush" || c.agent.StateDir != dir {
		t.Errorf("the first agent gets the token %q and the directory %s", c.agent.JoinToken, c.agent.StateDir)
	}
	for path, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "trust-bundle"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	contexts, err := OpenContexts(getenv)
	if err != nil {
		t.Fatal(err)
	}
	c.Name = "prod"
	if err := contexts.Save(c); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(home, "swarmd", "contexts", "prod.json"))
	if err != nil || strings.Contains(string(raw), "hush") {
		t.Errorf("the context's file has the token, or %v:\n%s", err, raw)
	}

	// The same server again, without a token and a bundle; another one; another context.
	var same, other, elsewhere Context
	if err := same.keep("prod", map[string]string{"serverAddress": "h", "serverPort": "81"}, getenv); err != nil || same.Agent.State != c.Agent.State {
		t.Errorf("an agent of the same server has another directory: %v", err)
	}
	if !slices.Contains(same.Agent.Options, want[4]) || same.agent.JoinToken != "hush2" {
		t.Errorf("it has %v, token %q", same.Agent.Options, same.agent.JoinToken)
	}
	if err := other.keep("prod", map[string]string{"serverAddress": "i"}, getenv); err != nil || other.Agent.State == c.Agent.State {
		t.Errorf("an agent of another server has the same directory, or %v", err)
	}
	if err := elsewhere.keep("east", line, getenv); err != nil || elsewhere.Agent.State == c.Agent.State {
		t.Errorf("another context's agent has the same directory, or %v", err)
	}
	line["trustBundle"] = "absent"
	if err := elsewhere.keep("east", line, getenv); err == nil || !strings.Contains(err.Error(), "-trustBundle: open absent: no such file") {
		t.Errorf("an absent bundle: %v", err)
	}
}

// TestDropAgent: an agent's state goes with the last context that names it.
func TestDropAgent(t *testing.T) {
	getenv := func(home string) func(string) string {
		return func(k string) string { return map[string]string{"XDG_STATE_HOME": home}[k] }
	}(t.TempDir())
	contexts, err := OpenContexts(getenv)
	if err != nil {
		t.Fatal(err)
	}
	var c Context
	if err := c.keep("a", map[string]string{"serverAddress": "h"}, getenv); err != nil {
		t.Fatal(err)
	}
	dir, _ := c.Agent.dir(getenv)
	for _, c.Name = range []string{"a", "b"} {
		if err := contexts.Save(c); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b"} {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("before %s is removed: %v", name, err)
		}
		if err := contexts.Remove(name, 0); err != nil {
			t.Fatal(err)
		}
		if err := contexts.dropAgent(c.Agent, getenv, func(why string) { t.Error(why) }); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the state is left: %v", err)
	}
	for _, state := range []string{"", "..", "../../x", "0123456789ABCDEF"} {
		if err := contexts.dropAgent(&KeptAgent{State: state}, getenv, func(string) {}); err == nil {
			t.Errorf("the state directory %q was removed", state)
		}
	}
}

// TestTokenIsMadeInTheServersContainer: swarmctl reaches the SPIRE server's container through the engine of its machine.
func TestTokenIsMadeInTheServersContainer(t *testing.T) {
	none := "unix://" + t.TempDir() + "/none.sock"
	t.Setenv("DOCKER_HOST", none)
	cfg, err := parseAgent(map[string]string{"gen-join-token": "true", "spire-docker-name": "spire"}, func(string) string { return "" })
	if err != nil || cfg.GenJoinToken.Exec == nil {
		t.Fatalf("%+v, %v", cfg, err)
	}
	if _, err := cfg.GenJoinToken.Exec(t.Context(), "spire", []string{"swarmd"}); err == nil || !strings.Contains(err.Error(), none) {
		t.Errorf("%v, want one of the engine at %s", err, none)
	}
}

// TestOneTokenIsForAllContextsInAContainer: scripts of the original wait for an SN, then make a context; both have the container's only token.
// A context with another token, or for another server, has an agent of its own.
func TestOneTokenIsForAllContextsInAContainer(t *testing.T) {
	line := func(more ...string) map[string]string {
		out := map[string]string{"serverAddress": "h"}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	file := []string{"gen-join-token", "true", "join-file"}
	for name, tt := range map[string]struct {
		token  string // of the container, in the environment
		lines  [2]map[string]string
		shared bool
	}{
		"in a file":             {"", [2]map[string]string{line(append(file, "/state/join.json")...), line(append(file, "/state/join.json")...)}, true},
		"in the environment":    {"t", [2]map[string]string{line(), line()}, true},
		"said again":            {"t", [2]map[string]string{line(), line("joinToken", "t")}, true},
		"another token":         {"t", [2]map[string]string{line(), line("joinToken", "u")}, false},
		"another file":          {"", [2]map[string]string{line(append(file, "/state/join.json")...), line(append(file, "/usr/join.json")...)}, false},
		"another server":        {"t", [2]map[string]string{line(), line("serverPort", "8082")}, false},
		"tokens of their own":   {"", [2]map[string]string{line("joinToken", "t"), line("joinToken", "t")}, false},
		"made one by one":       {"", [2]map[string]string{line("gen-join-token", "true"), line("gen-join-token", "true")}, false},
		"outside of containers": {"t", [2]map[string]string{line(), line()}, false},
	} {
		in := "1"
		if name == "outside of containers" {
			in = ""
		}
		state := t.TempDir()
		getenv := func(v string) string {
			return map[string]string{"SWARM_IN_CONTAINER": in, "XDG_STATE_HOME": state, "SWARM_SPIRE_JOIN_TOKEN": tt.token}[v]
		}
		var contexts [2]Context
		for i := range contexts {
			contexts[i].Name = fmt.Sprint("c", i)
			if err := contexts[i].keep(contexts[i].Name, tt.lines[i], getenv); err != nil {
				t.Fatal(err)
			}
		}
		a, b := contexts[0], contexts[1]
		if one := a.agentOptions == b.agentOptions && a.agent.StateDir == b.agent.StateDir; one != tt.shared {
			t.Errorf("%s: %q in %s, %q in %s", name, a.agentOptions, a.agent.StateDir, b.agentOptions, b.agent.StateDir)
		}
	}
}

// TestAContextWithATokenOfItsOwnTakesNoOther: once its agent has no identity any more, it is not the container's.
func TestAContextWithATokenOfItsOwnTakesNoOther(t *testing.T) {
	for in, shared := range map[string]bool{"1": false, "": true} {
		state := t.TempDir()
		getenv := func(v string) string {
			return map[string]string{"SWARM_IN_CONTAINER": in, "XDG_STATE_HOME": state, "SWARM_SPIRE_JOIN_TOKEN": "container's"}[v]
		}
		c := Context{Name: "alice"}
		if err := c.keep(c.Name, map[string]string{"serverAddress": "h", "joinToken": "alice's"}, getenv); err != nil {
			t.Fatal(err)
		}
		own := c.agent.StateDir
		if err := c.use(nil, getenv); err != nil {
			t.Fatal(err)
		}
		if c.agent.StateDir != own || (c.agent.JoinToken != "") != shared {
			t.Errorf("in a container %q: token %q in %s, its own is %s", in, c.agent.JoinToken, c.agent.StateDir, own)
		}
		if why := c.rejoin(getenv); in != "" && (why == nil || !strings.Contains(exit.Hint(why), "identity --context alice -joinToken TOKEN")) {
			t.Errorf("rejoin: %v", why)
		}
	}
}
