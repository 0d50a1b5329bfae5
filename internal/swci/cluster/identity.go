package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/identity/spire/attestor"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

const (
	spireMarker = "SPIRE server is ready"
	// tokenLife is how long the agent may take to its first contact with the server.
	tokenLife = 5 * time.Minute
	loopback  = "127.0.0.1"
)

// agentConf is the configuration of the one agent. The token stands here and not on the command line, which every user
// of the machine can read.
const agentConf = `agent {
  data_dir = %[1]q
  socket_path = %[2]q
  server_address = %[3]q
  server_port = %[4]d
  trust_domain = %[5]q
  trust_bundle_path = %[6]q
  join_token = %[7]q
  experimental {
    sync_interval = "1s"
  }
}
plugins {
NodeAttestor "join_token" {
  plugin_data {}
}
KeyManager "disk" {
  plugin_data {
    directory = %[1]q
  }
}
%[8]s}
`

// authority is where the swarm's nodes have their identities from: SPIRE's server and one agent, or swarmd's own authority.
type authority struct {
	spire  bool
	swarmd string // the binary
	dir    string // of the swarm
}

// Identity is the value for --identity with which swarmctl finds its identity.
func (c *Cluster) Identity() string { return c.authority().identity() }

func (c *Cluster) authority() authority { return authority{c.cfg.Spire, c.cfg.Swarmd, c.dir.path} }

func (a authority) identity() string {
	if a.spire {
		return a.agentSocket()
	}
	return "embedded=" + a.authorityDir()
}

// args are the options with which a daemon finds its identity.
func (a authority) args() []string {
	if a.spire {
		return []string{"--socket-path", a.agentSocket()}
	}
	return []string{"--identity", a.identity()}
}

func (a authority) authorityDir() string { return filepath.Join(a.dir, "id") }
func (a authority) serverDir() string    { return filepath.Join(a.dir, "spire-server") }
func (a authority) agentDir() string     { return filepath.Join(a.dir, "spire-agent") }
func (a authority) agentSocket() string  { return filepath.Join(a.agentDir(), "agent.sock") }

// startIdentity returns when daemons can get their identities.
func (c *Cluster) startIdentity(ctx context.Context) error {
	if c.cfg.Spire {
		return c.startSpire(ctx)
	}
	if err := os.Mkdir(c.authority().authorityDir(), 0o700); err != nil {
		return fmt.Errorf("make authority folder: %w", err)
	}
	authority, err := c.launch("authority", Authority, nil, c.cfg.Swarmd, "run-authority", "--dir", c.authority().authorityDir())
	if err != nil {
		return err
	}
	sock := filepath.Join(c.authority().authorityDir(), "sn.sock")
	return c.await(ctx, authority, "its socket", func() bool { return answers(sock) })
}

// FindSpire returns SPIRE's agent, and fails unless the server is there too.
func FindSpire() (agent string, err error) {
	for _, name := range []string{"spire-server", "spire-agent"} {
		if agent, err = spire.Find(name); err != nil {
			return "", &exit.Error{Status: exit.Failed, Err: err, Hint: "or leave --identity spire out: the embedded authority needs nothing"}
		}
	}
	return agent, nil
}

// startSpire starts SPIRE's server with the swarm's entries and one agent, which stands for the agents of all roles.
func (c *Cluster) startSpire(ctx context.Context) error {
	binary, err := FindSpire()
	if err != nil {
		return err
	}
	port, err := c.ports.take(loopback)
	if err != nil {
		return err
	}
	ready := make(chan struct{})
	server, err := c.launch("spire-server", Authority, onceSeen(spireMarker, ready), c.cfg.Swarmd, "run-spire-server",
		"--state-dir", c.authority().serverDir(), "-bindAddress", loopback, "-serverPort", strconv.Itoa(port))
	if err != nil {
		return err
	}
	if err := c.await(ctx, server, "SPIRE server", func() bool { return closed(ready) }); err != nil {
		return err
	}
	conf, err := c.authority().prepareAgent(ctx, port)
	if err != nil {
		return fmt.Errorf("prepare SPIRE agent: %w", err)
	}
	agent, err := c.launch("spire-agent", Authority, nil, binary, "run", "-config", conf)
	if err != nil {
		return err
	}
	return c.await(ctx, agent, "its socket", func() bool { return answers(c.authority().agentSocket()) })
}

// prepareAgent gets a join token for the agents of all roles and writes the agent's configuration, whose path it returns.
func (a authority) prepareAgent(ctx context.Context, port int) (string, error) {
	api, err := spire.OpenServer(filepath.Join(a.serverDir(), "api.sock"))
	if err != nil {
		return "", err
	}
	defer api.Close()
	roots, domain, err := api.Bundle(ctx)
	if err != nil {
		return "", err
	}
	var aliases []string
	for _, role := range identity.Roles() {
		aliases = append(aliases, spire.AgentPath(role, ""))
	}
	token, err := api.JoinToken(ctx, aliases, tokenLife)
	if err != nil {
		return "", err
	}
	plugin, err := a.plugin()
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(a.agentDir(), 0o700); err != nil {
		return "", err
	}
	bundle, conf := filepath.Join(a.agentDir(), "bundle.pem"), filepath.Join(a.agentDir(), "agent.conf")
	if err := os.WriteFile(bundle, roots, 0o600); err != nil {
		return "", err
	}
	text := fmt.Sprintf(agentConf, filepath.Join(a.agentDir(), "data"), a.agentSocket(), loopback, port, domain, bundle, token, plugin)
	return conf, os.WriteFile(conf, []byte(text), 0o600)
}

// plugin is the attestor's block, which lists this very program too: swarmctl need not lie beside the swarmd that it
// was told to use.
func (a authority) plugin() (attestor.Block, error) {
	block, err := attestor.NewBlock(a.swarmd, nil)
	if err != nil {
		return block, err
	}
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return block, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return block, err
	}
	if self := hex.EncodeToString(h.Sum(nil)); !slices.Contains(block.Digests, self) {
		block.Digests = append(block.Digests, self)
	}
	return block, nil
}

// onceSeen returns a watcher that closes ready at the first line with the text. Lines come from two goroutines.
func onceSeen(text string, ready chan struct{}) func(line string) {
	var once sync.Once
	return func(line string) {
		if strings.Contains(line, text) {
			once.Do(func() { close(ready) })
		}
	}
}
