package spire_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/identity/spire"
)

func TestParseAgent(t *testing.T) {
	dir := t.TempDir()
	parse := func(pairs ...string) (*spire.AgentConfig, error) {
		given := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			given[pairs[i]] = pairs[i+1]
		}
		return spire.ParseAgent(given, dir)
	}
	if cfg, err := parse(); cfg != nil || err != nil {
		t.Errorf("without options: %+v, %v", cfg, err)
	}
	cfg, err := parse("serverAddress", "h", "serverPort", "8082", "joinToken", "t", "trustBundleUrl", "https://x", "retryBootstrap", "false")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.ServerAddress != "h" || cfg.ServerPort != 8082 || cfg.JoinToken != "t" || cfg.GenJoinToken != nil ||
		strings.Join(cfg.Args, " ") != "-retryBootstrap=false -trustBundleUrl=https://x" {
		t.Errorf("got %+v", cfg)
	}
	// A token is asked for at the default socket, at run-spire-server's where there is one, or where the user says.
	want := spire.DefaultServerSocket
	for range 2 {
		cfg, err = parse("gen-join-token", "true", "serverAddress", "h", "ssh-user", "u", "ssh-port", "22")
		if err != nil || cfg.GenJoinToken == nil || cfg.GenJoinToken.Socket != want || cfg.GenJoinToken.SSHUser != "u" || cfg.GenJoinToken.SSHPort != 22 || cfg.GenJoinToken.ServerAddress != "h" {
			t.Errorf("got %+v, %v, want socket %s", cfg, err, want)
		}
		want = filepath.Join(dir, "api.sock")
		if err := os.WriteFile(want, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if cfg, err = parse("gen-join-token", "true", "spire-server-socket", "/x"); err != nil || cfg.GenJoinToken.Socket != "/x" {
		t.Errorf("got %+v, %v", cfg, err)
	}
	// A component in a container finds the token of its invitation in a file, and has none made.
	if cfg, err = parse("join-file", "/f", "serverAddress", "h"); err != nil || cfg.GenJoinToken == nil || cfg.GenJoinToken.File != "/f" {
		t.Errorf("got %+v, %v", cfg, err)
	}
	for want, pairs := range map[string][]string{
		"give one of the two":                {"joinToken", "t", "gen-join-token", "true"},
		"give -genJoinToken too":             {"spire-docker-name", "c", "gen-join-token", "false"},
		"-serverPort 65536: want a port":     {"serverPort", "65536"},
		"--ssh-port x: want a port from 1 t": {"ssh-port", "x", "gen-join-token", "true"},
	} {
		if _, err := parse(pairs...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", pairs, err, want)
		}
	}
}
