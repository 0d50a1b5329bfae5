package spiretest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// AgentOptions bend an agent.
type AgentOptions struct {
	Name string // in logs
	// Aliases are the IDs, or their paths, that its join token gives to the agent, for entries to name as their parent.
	Aliases []string
	// Swarmd is the path of a swarmd whose workload attestor plugin is loaded, "" for none. The unix attestor always is.
	Swarmd string
	Token  string // "" makes one
	// Lazy agents are started with Start.
	Lazy bool
}

// Agent is a running spire-agent. It ends with its test.
type Agent struct {
	Socket string // of the Workload API
	Token  string
	Dir    string // short

	t      *testing.T
	name   string
	binary string
	fresh  bool // was never started: joins by token
	proc   *e2etest.Proc
}

// NewAgent starts an agent of a server and waits for its Workload API.
func NewAgent(t *testing.T, s *Server, o AgentOptions) *Agent {
	t.Helper()
	a := &Agent{t: t, name: "spire-agent " + s.TrustDomain + " " + o.Name, binary: e2etest.Spire(t, "spire-agent"), Dir: TempDir(t), Token: o.Token, fresh: true}
	a.Socket = filepath.Join(a.Dir, "agent.sock")
	if a.Token == "" {
		a.Token = s.JoinToken(10*time.Minute, o.Aliases...)
	}
	bundle, conf := filepath.Join(a.Dir, "bundle.pem"), filepath.Join(a.Dir, "agent.conf")
	if err := os.WriteFile(bundle, PEM(s.Bundle()), 0o600); err != nil {
		t.Fatal(err)
	}
	plugin := ""
	if o.Swarmd != "" {
		out, err := exec.Command(o.Swarmd, "spire-plugin", "config").Output()
		if err != nil {
			t.Fatalf("%s spire-plugin config: %v", o.Swarmd, err)
		}
		plugin = string(out)
	}
	// The agent asks for what is new each second instead of each five, so that tests need not wait.
	text := fmt.Sprintf(`agent {
	data_dir = %q
	log_level = "DEBUG"
	server_address = "127.0.0.1"
	server_port = "%d"
	socket_path = %q
	trust_bundle_path = %q
	trust_domain = %q
	experimental { sync_interval = "1s" }
}
plugins {
	NodeAttestor "join_token" { plugin_data {} }
	KeyManager "disk" {
		plugin_data { directory = %q }
	}
	WorkloadAttestor "unix" { plugin_data {} }
%s
}
`, a.Dir, s.Port, a.Socket, bundle, s.TrustDomain, a.Dir, plugin)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if !o.Lazy {
		a.Start()
	}
	return a
}

// Start starts the agent, again after Kill or Stop, and waits for its Workload API.
func (a *Agent) Start() {
	a.t.Helper()
	a.Launch()
	await(a.t, a.proc, "serving", func(ctx context.Context) bool {
		c, err := new(net.Dialer).DialContext(ctx, "unix", a.Socket)
		if err != nil {
			return false
		}
		_ = c.Close()
		return true
	})
	a.fresh = false
}

// Launch starts the agent and waits for nothing: it may be one that can not join.
func (a *Agent) Launch() *e2etest.Proc {
	a.t.Helper()
	args := []string{a.binary, "run", "-config", filepath.Join(a.Dir, "agent.conf")}
	if a.fresh {
		args = append(args, "-joinToken", a.Token)
	}
	a.proc = e2etest.Start(a.t, a.name, a.Dir, nil, args...)
	return a.proc
}

// Kill ends the agent with SIGKILL and waits.
func (a *Agent) Kill() { a.proc.Kill() }

// Stop ends the agent with SIGTERM and waits.
func (a *Agent) Stop() { a.proc.Stop() }

// Restart stops the agent and starts it again.
func (a *Agent) Restart() {
	a.t.Helper()
	a.Stop()
	a.Start()
}

// Log is what the agent has said.
func (a *Agent) Log() string { return a.proc.Output() }

// Sees waits until the agent's log has the texts.
func (a *Agent) Sees(texts ...string) { a.t.Helper(); a.proc.Sees(texts...) }
