package spire_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/swarmd/swarmd/identity/spire"
)

// TestAgentPaths: the paths of an agent that somebody else must not have, from options and from a configuration file.
func TestAgentPaths(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "agent.conf")
	text := `agent { data_dir = "/d" trust_bundle_path = "/b" socket_path = "/unused" }
plugins {
  NodeAttestor "join_token" { plugin_data {} }
  KeyManager "disk" { plugin_data { directory = "/keys" } }
}`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		given map[string]string
		want  []string
	}{
		{map[string]string{"serverAddress": "s", "joinToken": "t"}, nil},
		{map[string]string{"serverAddress": "s", "socketPath": "/run/x/a.sock", "dataDir": "/data", "trustBundle": "/t.pem"}, []string{"/data", "/run/x/a.sock", "/t.pem"}},
		{map[string]string{"config": conf}, []string{"/b", "/d", "/keys", conf}},
		{map[string]string{"serverAddress": "s", "gen-join-token": "true", "spire-server-socket": "/server.sock", "join-file": "/join"}, []string{"/join", "/server.sock"}},
	} {
		cfg, err := spire.ParseAgent(tt.given, "")
		if err != nil {
			t.Fatal(err)
		}
		got, err := cfg.Paths()
		slices.Sort(tt.want)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%v: %q, %v, want %q", tt.given, got, err, tt.want)
		}
	}
}
