package spire

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoTokenOnTheCommandLine: every user of the machine can read it. The file with the token is for its owner alone.
func TestNoTokenOnTheCommandLine(t *testing.T) {
	const plugins = "plugins {\n  NodeAttestor \"join_token\" { plugin_data {} }\n}\n"
	for name, own := range map[string]string{
		"no file":      "",
		"block":        "agent {\n  server_address = \"h\" # }\n}\n" + plugins,
		"one line":     plugins + "agent { server_address = \"h\" }",
		"other token":  "agent {\n  join_token = \"stale\"\n  server_address = \"h\"\n}\n" + plugins,
		"assigned":     "agent = {\n  server_address = \"h\"\n}\n" + plugins,
		"two blocks":   "agent { data_dir = \"d\" }\nagent { server_address = \"h\" }\n" + plugins,
		"multibyte":    "# äöü – €\nagent {\n  server_address = \"h\"\n}\n" + plugins,
		"carriage ret": "agent {\r\n  server_address = \"h\"\r\n}\r\n" + plugins,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := AgentConfig{
				Binary: "/bin/false", Role: "sn", NodeName: "sn-1", ServerAddress: "h", JoinToken: "hush", StateDir: filepath.Join(dir, "s"),
				Args: []string{"-insecureBootstrap=true"}, Log: slog.New(slog.DiscardHandler),
			}
			if own != "" {
				cfg.ConfigFile = filepath.Join(dir, "own.conf")
				if err := os.WriteFile(cfg.ConfigFile, []byte(own), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, err := newAgentSetup(cfg)
			if err != nil {
				t.Fatal(err)
			}
			args, _, err := s.prepare(nil)
			if err != nil {
				t.Fatal(err)
			}
			if line := strings.Join(args, " "); strings.Contains(line, "hush") {
				t.Errorf("the agent's command line is %q", line)
			}
			path, _ := argument(args, "config")
			info, err := os.Stat(path)
			if err != nil || info.Mode().Perm() != 0o600 || filepath.Dir(path) != s.cfg.StateDir {
				t.Fatalf("the agent reads %s: %v, %v", path, info, err)
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Agent struct {
					JoinToken string `hcl:"join_token"`
				} `hcl:"agent"`
			}
			if err := decode(&got, string(raw)); err != nil || got.Agent.JoinToken != "hush" {
				t.Errorf("the agent reads the token %q, %v, from\n%s", got.Agent.JoinToken, err, raw)
			}
		})
	}
}

// TestTokenOfJSON: a configuration in JSON has no place for the token, so the agent is given it as SPIRE's users do.
func TestTokenOfJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own.conf")
	if err := os.WriteFile(file, []byte(`{"agent": {"server_address": "h"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := confWithToken(file, "hush", false); text != "" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestTokenIsNotExpanded: what looks like a variable in a token is none.
func TestTokenIsNotExpanded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own.conf")
	if err := os.WriteFile(file, []byte("agent {}"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := confWithToken(file, "a$HOME", true)
	if err != nil || !strings.Contains(expand(text), `join_token = "a$HOME"`) {
		t.Errorf("got %q, %v", expand(text), err)
	}
}
