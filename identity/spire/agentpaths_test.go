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
	text := `agent { data_dir = "/d" trust_bundle_path = "/b" socket_path = "/unused" admin_socket_path = "/admin.sock" }
plugins {
  NodeAttestor "join_token" { plugin_data {} }
  KeyManager "disk" { plugin_data { directory = "/keys" } }
  WorkloadAttestor "own" { plugin_cmd = "/opt/attests" plugin_data {} }
  WorkloadAttestor "docker" { plugin_data { docker_socket_path = "unix:///engine.sock" } }
  SVIDStore "files" { plugin_cmd = "/opt/stores" plugin_data { dir = "/svids" } }
}`
	popConf := filepath.Join(t.TempDir(), "pop.conf")
	popText := `agent { data_dir = "/d" }
plugins {
  NodeAttestor "x509pop" {
    plugin_cmd = "/opt/pop"
    plugin_data {
      private_key_path = "/srv/k.pem"
      certificate_path = "c.pem"
      mode = "spiffe"
      more { tokens = ["/srv/t1", "/srv/t2", "x"] }
    }
  }
  KeyManager "other" { plugin_data { keys_path = "keys.json" seed = "/srv/seed" bits = 2048 } }
}`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(popConf, []byte(popText), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		given map[string]string
		want  []string
	}{
		{map[string]string{"serverAddress": "s", "joinToken": "t"}, nil},
		{map[string]string{"serverAddress": "s", "socketPath": "/run/x/a.sock", "dataDir": "/data", "trustBundle": "/t.pem"}, []string{"/data", "/run/x/a.sock", "/t.pem"}},
		{map[string]string{"config": conf}, []string{"/admin.sock", "/b", "/d", "/engine.sock", "/keys", "/opt/attests", "/opt/stores", "/svids", conf}},
		{map[string]string{"config": popConf}, []string{"/d", "/opt/pop", "/srv/k.pem", "/srv/seed", "/srv/t1", "/srv/t2", "c.pem", "keys.json", popConf}},
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
