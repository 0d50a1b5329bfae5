package spire_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/identity/spire/spiretest"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// agentLog collects what is logged; it may be read while it is written to.
type agentLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *agentLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *agentLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// sees waits until a text was logged.
func (l *agentLog) sees(t *testing.T, text string) {
	t.Helper()
	l.seesTimes(t, 1, text)
}

// seesTimes waits until a text was logged so many times.
func (l *agentLog) seesTimes(t *testing.T, n int, text string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(60 * time.Second)
	for strings.Count(l.String(), text) < n {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("the log did not say %q %d times:\n%s", text, n, l)
		}
	}
}

// agentFor returns the configuration of a child agent of a server, with a token for it, and its log.
func agentFor(t *testing.T, s *spiretest.Server) (spire.AgentConfig, *agentLog) {
	t.Helper()
	log := new(agentLog)
	bundle := filepath.Join(t.TempDir(), "bundle.pem")
	if err := os.WriteFile(bundle, spiretest.PEM(s.Bundle()), 0o600); err != nil {
		t.Fatal(err)
	}
	return spire.AgentConfig{
		Binary: e2etest.Spire(t, "spire-agent"), StateDir: filepath.Join(spiretest.TempDir(t), "spire-agent"),
		ServerAddress: "127.0.0.1", ServerPort: s.Port, TrustDomain: s.TrustDomain, Role: identity.RoleSN, NodeName: "sn-1",
		JoinToken: s.JoinToken(10*time.Minute, "/swarm/sn-agent"), Args: []string{"-trustBundle=" + bundle},
		Log: slog.New(slog.NewTextHandler(log, nil)),
	}, log
}

func startAgent(t *testing.T, cfg spire.AgentConfig) *spire.Agent {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	a, err := spire.StartAgent(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// failing starts an agent that must not start, and returns why.
func failing(t *testing.T, cfg spire.AgentConfig) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	a, err := spire.StartAgent(ctx, cfg)
	if err == nil {
		_ = a.Close()
		t.Fatal("the agent started")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("it waited in vain instead of failing: %v", err)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has more than a line:\n%v", err)
	}
	return err.Error()
}

// fetch waits for an identity from a socket.
func fetch(t *testing.T, socket string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	src, err := identity.OpenSource(ctx, identity.SourceConfig{Socket: socket, Role: identity.RoleSN, Name: "sn-1", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	return src.ID().String()
}

func entrySN(s *spiretest.Server) {
	s.CreateEntry(spiretest.Entry{ID: "/swarm/sn", Parent: "/swarm/sn-agent", Selectors: []string{spiretest.UID()}})
}

func TestAgentRestartsWithoutToken(t *testing.T) {
	s := spiretest.NewServer(t, spiretest.Options{})
	entrySN(s)
	cfg, _ := agentFor(t, s)
	a := startAgent(t, cfg)
	if got := fetch(t, a.Socket()); got != "spiffe://swarm.learning/swarm/sn" {
		t.Errorf("got %s", got)
	}
	for _, path := range []string{cfg.StateDir, filepath.Dir(a.Socket())} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v, want mode 0700", path, info.Mode(), err)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	// Given again, the used token does no harm; without it, and without the bundle, the agent goes on with what it has.
	a = startAgent(t, cfg)
	_ = a.Close()
	cfg.JoinToken, cfg.Args = "", nil
	a = startAgent(t, cfg)
	if got := fetch(t, a.Socket()); got != "spiffe://swarm.learning/swarm/sn" {
		t.Errorf("after a restart: got %s", got)
	}
}

func TestAgentIsStartedAgain(t *testing.T) {
	s := spiretest.NewServer(t, spiretest.Options{})
	entrySN(s)
	cfg, log := agentFor(t, s)
	a := startAgent(t, cfg)
	first := agentPID(t, a.Socket())
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	log.sees(t, "SPIRE agent ended; starting it again")
	log.seesTimes(t, 2, "SPIRE agent is ready")
	if second := agentPID(t, a.Socket()); second == first {
		t.Error("the killed agent still answers")
	}
	if got := fetch(t, a.Socket()); got != "spiffe://swarm.learning/swarm/sn" {
		t.Errorf("got %s", got)
	}
	pid := agentPID(t, a.Socket())
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("agent %d after Close: %v, want it gone", pid, err)
	}
}

func TestUsedAndExpiredToken(t *testing.T) {
	s := spiretest.NewServer(t, spiretest.Options{})
	cfg, _ := agentFor(t, s)
	a := startAgent(t, cfg)
	_ = a.Close()
	cfg.StateDir = filepath.Join(spiretest.TempDir(t), "spire-agent")
	why := failing(t, cfg)
	if !strings.Contains(why, "already been used") || !strings.Contains(why, "swarmd spire-token sn/sn-1") || !strings.Contains(why, "-spiffeID spiffe://swarm.learning/swarm/sn-agent/sn-1") {
		t.Errorf("used token: %s", why)
	}
	cfg.JoinToken = s.JoinToken(time.Second)
	<-time.After(2 * time.Second) // the server goes by its clock, in whole seconds
	if why = failing(t, cfg); !strings.Contains(why, "join token expired") || !strings.Contains(why, "swarmd spire-token sn/sn-1") {
		t.Errorf("expired token: %s", why)
	}
}

func TestAgentWithGeneratedToken(t *testing.T) {
	s := spiretest.NewServer(t, spiretest.Options{TrustDomain: "example.org"})
	s.CreateEntry(spiretest.Entry{ID: "/swarm/sn/sn-1", Parent: "/swarm/sn-agent/sn-1", Selectors: []string{spiretest.UID()}})
	cfg, log := agentFor(t, s)
	cfg.JoinToken, cfg.Args, cfg.TrustDomain = "", nil, ""
	cfg.GenJoinToken = &spire.TokenSource{Socket: s.Socket}
	a := startAgent(t, cfg)
	if got := fetch(t, a.Socket()); got != "spiffe://example.org/swarm/sn/sn-1" {
		t.Errorf("got %s", got)
	}
	_ = a.Close()
	if _ = startAgent(t, cfg).Close(); strings.Count(log.String(), "join token made") != 1 {
		t.Errorf("a restart took another token:\n%s", log)
	}
	// What it has kept is lost: it makes another one by itself.
	if err := os.RemoveAll(filepath.Join(cfg.StateDir, "data")); err != nil {
		t.Fatal(err)
	}
	if _ = startAgent(t, cfg).Close(); strings.Count(log.String(), "join token made") != 2 {
		t.Errorf("no other token after the data was lost:\n%s", log)
	}
	cfg.TrustDomain, cfg.StateDir = "elsewhere.org", filepath.Join(spiretest.TempDir(t), "spire-agent")
	if why := failing(t, cfg); !strings.Contains(why, "trust domain is example.org") || !strings.Contains(why, "elsewhere.org") {
		t.Errorf("wrong trust domain: %s", why)
	}
}

// TestEvictedAgent: what the server forgets joins again if it can make a token, and says what is to be done if not.
func TestEvictedAgent(t *testing.T) {
	s := spiretest.NewServer(t, spiretest.Options{})
	evict := func(a *spire.Agent, log *agentLog) {
		t.Helper()
		id := regexp.MustCompile(`SPIRE agent is ready.*spiffe_id=(\S+)`).FindAllStringSubmatch(log.String(), -1)
		out, err := exec.Command(e2etest.Spire(t, "spire-server"), "agent", "evict", "-socketPath", s.Socket, "-spiffeID", id[len(id)-1][1]).CombinedOutput()
		if err != nil {
			t.Fatalf("evict %s: %v: %s", a.Socket(), err, out)
		}
	}
	cfg, log := agentFor(t, s)
	cfg.JoinToken, cfg.GenJoinToken = "", &spire.TokenSource{Socket: s.Socket}
	a := startAgent(t, cfg)
	evict(a, log)
	log.seesTimes(t, 2, "join token made")
	log.seesTimes(t, 2, "SPIRE agent is ready")
	_ = a.Close()
	cfg, log = agentFor(t, s)
	a = startAgent(t, cfg)
	evict(a, log)
	log.sees(t, "SPIRE agent can't go on; this node keeps its identity until it expires")
	log.sees(t, "swarmd spire-token sn/sn-1")
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Error(err)
	}
}

func TestAnotherServer(t *testing.T) {
	cfg, log := agentFor(t, spiretest.NewServer(t, spiretest.Options{}))
	_ = startAgent(t, cfg).Close()
	before := len(log.String()) // closing may catch the first agent in a health check of its own
	cfg.ServerPort = spiretest.NewServer(t, spiretest.Options{}).Port
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := spire.StartAgent(ctx, cfg)
		ended <- err
	}()
	log.sees(t, "to join another server with a new token")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "does not fit the bundle") {
		t.Errorf("got %v, want what it waited for", err)
	}
	for _, noise := range []string{"Health check", "Agent crashed"} {
		if said := log.String()[before:]; strings.Contains(said, noise) {
			t.Errorf("%q beside what it waits for:\n%s", noise, said)
		}
	}
}

func TestWrongTrustDomain(t *testing.T) {
	s := spiretest.NewServer(t, spiretest.Options{TrustDomain: "example.org"})
	for name, args := range map[string][]string{"bundle": nil, "insecure": {"-insecureBootstrap=true"}} {
		t.Run(name, func(t *testing.T) {
			cfg, _ := agentFor(t, s)
			cfg.TrustDomain = "swarm.learning"
			if args != nil {
				cfg.Args = args
			}
			why := failing(t, cfg)
			if !strings.Contains(why, "not of trust domain swarm.learning") || !strings.Contains(why, "-trustDomain") {
				t.Error(why)
			}
		})
	}
}

func TestServerUnreachable(t *testing.T) {
	s := spiretest.NewServer(t, spiretest.Options{})
	entrySN(s)
	cfg, log := agentFor(t, s)
	s.Stop()
	started := make(chan *spire.Agent, 1)
	go func() {
		a, err := spire.StartAgent(t.Context(), cfg)
		if err != nil {
			t.Error(err)
		}
		started <- a
	}()
	log.sees(t, "does not answer (")
	if !strings.Contains(log.String(), "correct -serverAddress or -serverPort") {
		t.Errorf("no remedy:\n%s", log)
	}
	s.Start()
	a := <-started
	if a == nil {
		return
	}
	defer a.Close()
	if got := fetch(t, a.Socket()); got != "spiffe://swarm.learning/swarm/sn" {
		t.Errorf("got %s", got)
	}
}

func TestNoEntryIsExplained(t *testing.T) {
	s := spiretest.NewServer(t, spiretest.Options{})
	cfg, log := agentFor(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	opened := make(chan identity.Provider, 1)
	go func() {
		src, err := spire.OpenSource(ctx, cfg, identity.SourceConfig{Role: identity.RoleSN, Name: "sn-1", Log: cfg.Log})
		if err != nil {
			t.Error(err)
		}
		opened <- src
	}()
	log.sees(t, "has no entry for this process: it saw the selectors")
	command := regexp.MustCompile(`spire-server entry create -parentID (\S+) -spiffeID (\S+) -selector ([^\s"]+)`).FindStringSubmatch(log.String())
	if command == nil || !strings.Contains(log.String(), "unix:uid:") {
		t.Fatalf("no command:\n%s", log)
	}
	// What it says helps.
	out, err := exec.Command(e2etest.Spire(t, "spire-server"), "entry", "create", "-socketPath", s.Socket, "-parentID", command[1], "-spiffeID", command[2], "-selector", command[3]).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	src := <-opened
	if src == nil {
		return
	}
	if got := src.ID().String(); got != "spiffe://swarm.learning/swarm/sn/sn-1" {
		t.Errorf("got %s", got)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

func TestAgentWithOwnConfiguration(t *testing.T) {
	s := spiretest.NewServer(t, spiretest.Options{})
	entrySN(s)
	cfg, log := agentFor(t, s)
	conf := filepath.Join(t.TempDir(), "agent.conf")
	data := filepath.Join(t.TempDir(), "data")
	text := `agent {
  server_address = "127.0.0.1"
  trust_domain = "swarm.learning"
  data_dir = "` + data + `"
}
plugins {
  NodeAttestor "join_token" { plugin_data {} }
  KeyManager "memory" { plugin_data {} }
  WorkloadAttestor "unix" { plugin_data {} }
}
`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.ConfigFile, cfg.ServerAddress, cfg.TrustDomain = conf, "", ""
	cfg.Args = append(cfg.Args, "-logLevel=WARN")
	a := startAgent(t, cfg)
	if got := fetch(t, a.Socket()); got != "spiffe://swarm.learning/swarm/sn" {
		t.Errorf("got %s", got)
	}
	if _, err := os.Stat(filepath.Join(data, "agent-data.json")); err != nil {
		t.Errorf("the file's data_dir is not used: %v", err)
	}
	if strings.Contains(log.String(), "Plugin loaded") {
		t.Errorf("-logLevel=WARN, yet information was passed on:\n%s", log)
	}
	_ = a.Close()
	if err := os.WriteFile(conf, []byte(strings.Replace(text, "data_dir", "data_dri", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.StateDir = filepath.Join(spiretest.TempDir(t), "spire-agent")
	if why := failing(t, cfg); !strings.Contains(why, "nknown configuration") {
		t.Errorf("the agent's own complaint is not passed on: %s", why)
	}
}

func TestMissingOptions(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  spire.AgentConfig
		want string
	}{
		"server": {spire.AgentConfig{JoinToken: "t"}, "-serverAddress is missing"},
		"token":  {spire.AgentConfig{ServerAddress: "h", Args: []string{"-insecureBootstrap=true"}}, "swarmd spire-token sn/sn-1"},
		"bundle": {spire.AgentConfig{ServerAddress: "h", JoinToken: "t"}, "-trustBundle FILE"},
		"absent bundle": {
			spire.AgentConfig{ServerAddress: "h", JoinToken: "t", Args: []string{"-trustBundle=/absent"}},
			"-trustBundle: stat /absent: no such file or directory: give what `spire-server bundle show` prints",
		},
		"empty bundle": {
			spire.AgentConfig{ServerAddress: "h", JoinToken: "t", Args: []string{"-trustBundle=/dev/null"}},
			"-trustBundle /dev/null: read trust bundle: there is no certificate in it: give what `spire-server bundle show` prints",
		},
		"config": {spire.AgentConfig{ConfigFile: "/absent"}, "-config: "},
		"path":   {spire.AgentConfig{ServerAddress: "h", JoinToken: "t", StateDir: strings.Repeat("x", 100)}, "use a shorter --state-dir"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			c.cfg.Binary, c.cfg.Role, c.cfg.NodeName, c.cfg.Log = "/bin/false", identity.RoleSN, "sn-1", slog.New(slog.DiscardHandler)
			if c.cfg.StateDir == "" {
				c.cfg.StateDir = spiretest.TempDir(t)
			}
			if why := failing(t, c.cfg); !strings.Contains(why, c.want) {
				t.Errorf("got %s, want %s", why, c.want)
			}
		})
	}
}

// TestAgentOptionsAreAll compares the table with the program that it describes.
func TestAgentOptionsAreAll(t *testing.T) {
	out, _ := exec.Command(e2etest.Spire(t, "spire-agent"), "run", "-help").CombinedOutput() // help is an error to it
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^  -(\w+)( \w+)?$`).FindAllStringSubmatch(string(out), -1) {
		if m[2] != "" {
			m[1] += " value"
		}
		want = append(want, m[1])
	}
	var got []string
	for _, o := range spire.AgentOptions() {
		name := o.Name
		if !o.Bool {
			name += " value"
		}
		got = append(got, name)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || len(want) < 10 {
		t.Errorf("the table has\n%s\nspire-agent run takes\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// agentPID asks the kernel who listens at a socket.
func agentPID(t *testing.T, socket string) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: socket}); err != nil {
		t.Fatal(err)
	}
	cred, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err != nil {
		t.Fatal(err)
	}
	return int(cred.Pid)
}
