package spire_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/identity/spire/spiretest"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestAgentThatLostItsKeys: the SVID is there and its key is not, as with a key manager that keeps keys in memory.
func TestAgentThatLostItsKeys(t *testing.T) {
	s := spiretest.NewServer(t, spiretest.Options{})
	cfg, log := agentFor(t, s)
	cfg.JoinToken, cfg.Args, cfg.GenJoinToken = "", nil, &spire.TokenSource{Socket: s.Socket}
	_ = startAgent(t, cfg).Close()
	if err := os.Remove(filepath.Join(cfg.StateDir, "data", "keys.json")); err != nil {
		t.Fatal(err)
	}
	_ = startAgent(t, cfg).Close()
	if strings.Count(log.String(), "join token made") != 2 {
		t.Errorf("no other token after the keys were lost:\n%s", log)
	}
}

// TestAgentProgramIsReplaced: an agent that ends while its program is not there is started again when it is.
func TestAgentProgramIsReplaced(t *testing.T) {
	s := spiretest.NewServer(t, spiretest.Options{})
	cfg, log := agentFor(t, s)
	program := cfg.Binary
	cfg.Binary = filepath.Join(t.TempDir(), "spire-agent")
	if err := os.Symlink(program, cfg.Binary); err != nil {
		t.Fatal(err)
	}
	a := startAgent(t, cfg)
	if err := os.Remove(cfg.Binary); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(agentPID(t, a.Socket()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	log.sees(t, "no such file")
	if err := os.Symlink(program, cfg.Binary); err != nil {
		t.Fatal(err)
	}
	log.seesTimes(t, 2, "SPIRE agent is ready")
}

// TestSocketOfAnother: an agent does not take another one's socket, and takes none for its own that another serves.
func TestSocketOfAnother(t *testing.T) {
	cfg, _ := agentFor(t, spiretest.NewServer(t, spiretest.Options{}))
	socket := filepath.Join(spiretest.TempDir(t), "a.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	cfg.Args = append(cfg.Args, "-socketPath="+socket)
	if why := failing(t, cfg); !strings.Contains(why, "answers at the socket "+socket) || !strings.Contains(why, "-socketPath") {
		t.Errorf("got %s", why)
	}
	if conn, err := net.DialTimeout("unix", socket, time.Second); err != nil {
		t.Errorf("the other one's socket is gone: %v", err)
	} else {
		_ = conn.Close()
	}
}

// TestAgentFileWithVariables: what the agent expands in its file is expanded here too.
func TestAgentFileWithVariables(t *testing.T) {
	s := spiretest.NewServer(t, spiretest.Options{})
	cfg, _ := agentFor(t, s)
	data := filepath.Join(t.TempDir(), "data")
	t.Setenv("AGENT_DATA", data)
	t.Setenv("AGENT_PORT", fmt.Sprint(s.Port))
	cfg.ConfigFile = filepath.Join(t.TempDir(), "agent.conf")
	if err := os.WriteFile(cfg.ConfigFile, []byte(`agent {
  data_dir = "$AGENT_DATA"
  server_port = $AGENT_PORT
}
plugins {
  NodeAttestor "join_token" { plugin_data {} }
  KeyManager "disk" { plugin_data { directory = "$AGENT_DATA" } }
  WorkloadAttestor "unix" { plugin_data {} }
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.ServerPort, cfg.Binary = 0, e2etest.Spire(t, "spire-agent")
	cfg.Args = append(cfg.Args, "-expandEnv=true")
	startAgent(t, cfg)
	if _, err := os.Stat(filepath.Join(data, "agent-data.json")); err != nil {
		t.Error(err)
	}
}

// TestAgentThatHangs: what neither answers, ends nor complains is said to do so. The program is no agent, only stuck as one.
func TestAgentThatHangs(t *testing.T) {
	cfg, log := agentFor(t, spiretest.NewServer(t, spiretest.Options{}))
	cfg.Binary = filepath.Join(t.TempDir(), "stuck")
	if err := os.WriteFile(cfg.Binary, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := spire.StartAgent(ctx, cfg)
		ended <- err
	}()
	log.sees(t, "does not answer at "+filepath.Join(cfg.StateDir, "agent.sock"))
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "does not say why") {
		t.Errorf("got %v", err)
	}
}

// TestServerStoppedWhileItWaits: a server that is asked to stop before it has started its program did nothing wrong.
func TestServerStoppedWhileItWaits(t *testing.T) {
	dir := spiretest.TempDir(t)
	ln, err := net.Listen("unix", filepath.Join(dir, "api.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	s := start(t, spire.ServerConfig{}, dir)
	conn, err := ln.Accept() // it looks whether somebody is there
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if err := s.stop(t); err != nil {
		t.Error(err)
	}
}
