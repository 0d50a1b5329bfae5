package daemon_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity/spire/spiretest"
	"github.com/swarmd/swarmd/internal/daemon"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestMain lets this binary be swarmd, under that name or the plugin's: what runs is the real command line.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "swarmd", "swarmctl", "spire-swarm-plugin":
		os.Exit(daemon.Main(os.Args, daemon.OS()))
	}
	os.Exit(m.Run())
}

// installed puts this binary under names into a folder that all users may enter, with what is to be changed of it.
func installed(t *testing.T, names ...string) string {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := spiretest.TempDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// linkAgent puts SPIRE's agent beside a swarmd.
func linkAgent(t *testing.T, bin string) {
	t.Helper()
	if err := os.Symlink(e2etest.Spire(t, "spire-agent"), filepath.Join(bin, "spire-agent")); err != nil {
		t.Fatal(err)
	}
}

// runNode starts run-sn or run-sl of a swarmd; it needs to come no further than to its identity.
func runNode(t *testing.T, swarmd, role string, options ...string) *e2etest.Proc {
	t.Helper()
	dir := spiretest.TempDir(t)
	args := []string{swarmd, "run-" + role, "--host-ip=127.0.0.1", "--state-dir=" + filepath.Join(dir, "st"), "--name=" + role + "-1"}
	if role == "sn" {
		p, a, f := spiretest.FreePort(t), spiretest.FreePort(t), spiretest.FreePort(t)
		args = append(args, "--sentinel-ip=127.0.0.1", fmt.Sprintf("--sn-p2p-port=%d", p), fmt.Sprintf("--sn-api-port=%d", a), fmt.Sprintf("--sn-fs-port=%d", f), fmt.Sprintf("--sentinel-fs-port=%d", f))
	} else {
		args = append(args, "--sn-ip=127.0.0.1", "--attach", fmt.Sprintf("--sl-fs-port=%d", spiretest.FreePort(t)), "--bridge-dir="+filepath.Join(dir, "br"))
	}
	return e2etest.Start(t, role, dir, nil, append(args, options...)...)
}

// seedEntries creates the seed's entries of SN and SL, for one agent that hands out both.
func seedEntries(s *spiretest.Server) {
	for _, role := range []string{"sn", "sl", "swci"} {
		s.CreateEntry(spiretest.Entry{ID: "/swarm/" + role, Parent: "/swarm/" + role + "-agent", Selectors: []string{"swarm:node-type:" + role}})
	}
}

var allAgents = []string{"/swarm/sn-agent", "/swarm/sl-agent", "/swarm/swci-agent"}

// TestRolesByRealAgent: an agent on the host loads the plugin, as its own block configures it, and nodes get their roles.
func TestRolesByRealAgent(t *testing.T) {
	s := spiretest.NewServer(t, spiretest.Options{})
	seedEntries(s)
	bin := installed(t, "swarmd", "swarmctl")
	swarmd := filepath.Join(bin, "swarmd")
	agent := spiretest.NewAgent(t, s, spiretest.AgentOptions{Aliases: allAgents, Swarmd: swarmd})
	for _, role := range []string{"sn", "sl"} {
		p := runNode(t, swarmd, role, "--socket-path="+agent.Socket)
		p.Sees("identity is valid", "spiffe://swarm.learning/swarm/"+role)
		p.Kill()
	}
	// A binary with another digest gets nothing, and is told which entry it lacks; the agent's log says why.
	changed := filepath.Join(installed(t), "swarmd")
	raw, err := os.ReadFile(swarmd)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(changed, append(raw, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	p := runNode(t, changed, "sn", "--socket-path="+agent.Socket)
	p.Sees("has no entry for this process", "sees swarm:node-type:sn", "spire-server entry create -parentID", "-selector swarm:node-type:sn")
	agent.Sees("its executable is none that the configuration lists", changed)
	if strings.Contains(p.Output(), "identity is valid") {
		t.Error("a changed binary got an identity")
	}
}

// TestSeedsBlock: the block of the seed's text, with its name of the plugin and an empty plugin_data, loads in a real agent.
func TestSeedsBlock(t *testing.T) {
	s := spiretest.NewServer(t, spiretest.Options{})
	seedEntries(s)
	bin := installed(t, "swarmd", "spire-swarm-plugin")
	linkAgent(t, bin)
	out, err := exec.Command("sha256sum", filepath.Join(bin, "spire-swarm-plugin")).Output()
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(spiretest.TempDir(t), "agent.conf")
	text := `agent {
  trust_domain = "swarm.learning"
}
plugins {
  NodeAttestor "join_token" { plugin_data {} }
  KeyManager "memory" { plugin_data {} }
   WorkloadAttestor "swarm" {
   plugin_checksum =
   "` + string(out[:64]) + `"
   plugin_cmd = "` + filepath.Join(bin, "spire-swarm-plugin") + `"
   plugin_data {}
   }
}
`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(filepath.Dir(conf), "bundle.pem")
	if err := os.WriteFile(bundle, spiretest.PEM(s.Bundle()), 0o600); err != nil {
		t.Fatal(err)
	}
	p := runNode(t, filepath.Join(bin, "swarmd"), "sn", "-config", conf, "-serverAddress", "127.0.0.1", "-serverPort", fmt.Sprint(s.Port),
		"-trustBundle", bundle, "-joinToken", s.JoinToken(time.Minute, allAgents...))
	p.Sees("SPIRE agent is ready", "identity is valid", "spiffe://swarm.learning/swarm/sn")
}

// TestOwnAgent: a node starts an agent with a token that it makes, gets the identity of its role, and ends it.
func TestOwnAgent(t *testing.T) {
	s := spiretest.NewServer(t, spiretest.Options{})
	s.CreateEntry(spiretest.Entry{ID: "/swarm/sn/sn-1", Parent: "/swarm/sn-agent/sn-1", Selectors: []string{"swarm:node-type:sn"}})
	bin := installed(t, "swarmd")
	linkAgent(t, bin)
	for _, spelling := range []string{"-genJoinToken", "--gen-join-token"} {
		p := runNode(t, filepath.Join(bin, "swarmd"), "sn", spelling, "--serverAddress=127.0.0.1", "-serverPort", fmt.Sprint(s.Port), "--spire-server-socket", s.Socket)
		p.Sees("join token made", "SPIRE agent is ready", "identity is valid", "spiffe://swarm.learning/swarm/sn/sn-1", "Starting SWARM-API-SERVER")
		p.Stop()
		if strings.Contains(p.Output(), "PID attested to have selectors") || strings.Contains(p.Output(), ": ERROR :") {
			t.Errorf("the agent's debug lines, or errors that are none, are passed on:\n%s", p.Output())
		}
	}
}

// TestAgentDiesWithItsNode: nothing is left of a node that is killed.
func TestAgentDiesWithItsNode(t *testing.T) {
	s := spiretest.NewServer(t, spiretest.Options{})
	bin := installed(t, "swarmd")
	linkAgent(t, bin)
	p := runNode(t, filepath.Join(bin, "swarmd"), "sl", "-genJoinToken", "-serverAddress=127.0.0.1", "-serverPort", fmt.Sprint(s.Port), "--spire-server-socket", s.Socket)
	p.Sees("SPIRE agent is ready")
	state := filepath.Join(p.Cmd.Dir, "st", "spire-agent")
	if n := len(processes(t, state)); n != 1 {
		t.Fatalf("%d agents run, want 1", n)
	}
	p.Kill()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(20 * time.Second); len(processes(t, state)) > 0; {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("the agent outlives its node: %v", processes(t, state))
		}
	}
}

// processes lists the command lines, but for swarmd's, that name a directory.
func processes(t *testing.T, dir string) (found []string) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(raw), dir) {
			found = append(found, strings.ReplaceAll(string(raw), "\x00", " "))
		}
	}
	return found
}

func TestAgentConflicts(t *testing.T) {
	for options, want := range map[string]string{
		"--socket-path=/x -joinToken=t":            "--socket-path names one that runs already",
		"--identity=embedded -serverAddress=h":     "--identity embedded needs none",
		"-joinToken=t -genJoinToken":               "give one of the two",
		"--ssh-user=u -serverAddress=h":            "give -genJoinToken too",
		"-serverAddress=h -serverPort=port":        "want a port from 1 to 65535",
		"-serverAdress=h":                          "did you mean --serverAddress?",
		"-serverAddress=h -joinToken=t":            "nothing says how it knows the SPIRE server",
		"-serverAddress=h -insecureBootstrap":      "it has no join token",
		"-joinToken=t -insecureBootstrap":          "-serverAddress is missing",
		"--cert=c --key=k --cacert=a -joinToken=t": "give one of the two",
	} {
		args := append([]string{"swarmd", "run-sn", "--host-ip=127.0.0.1", "--sentinel-ip=127.0.0.1", "--state-dir=" + spiretest.TempDir(t)}, strings.Fields(options)...)
		t.Setenv("PATH", filepath.Dir(e2etest.Spire(t, "spire-agent")))
		_, stderr, code := run(t, args...)
		last := stderr[strings.LastIndex(strings.TrimSpace(stderr), "\n")+1:]
		if code != 1 || !strings.Contains(last, want) {
			t.Errorf("%s: code %d, want %q:\n%s", options, code, want, stderr)
		}
	}
}
