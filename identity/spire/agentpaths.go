package spire

import (
	"path/filepath"
	"slices"
	"strings"
)

// Paths are the paths outside of the agent's own directory with which somebody could speak for the agent or whom it serves, or change whom it
// believes: its socket, its data and keys, what it reads, and where its join token comes from. Relative ones are relative to where it is started.
func (cfg *AgentConfig) Paths() ([]string, error) {
	var file agentFile
	if cfg.ConfigFile != "" {
		var err error
		if file, err = readAgentFile(cfg.ConfigFile, switched(cfg.Args, "expandEnv")); err != nil {
			return nil, err
		}
	}
	all := []string{cfg.ConfigFile, file.Agent.AdminSocket, file.Agent.DataDir, file.Agent.TrustBundle}
	for _, name := range []string{"socketPath", "dataDir", "trustBundle"} {
		path, _ := argument(cfg.Args, name)
		all = append(all, path)
	}
	for _, plugins := range []map[string]any{file.Plugins.NodeAttestor, file.Plugins.KeyManager, file.Plugins.WorkloadAttestor, file.Plugins.SVIDStore} {
		all = append(all, pathsIn("", plugins)...)
	}
	if cfg.GenJoinToken != nil {
		all = append(all, cfg.GenJoinToken.File, cfg.GenJoinToken.Socket)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(path string) bool { return path == "" }), nil
}

// pathsIn are the paths that plugins are configured with: what they prove the agent's identity with, where they keep its keys, what they
// believe of workloads, and what program they are. There are more plugins than can be known here, so each absolute path counts, whatever
// it is called, also as a URL of a socket; one that is relative is told by its name.
func pathsIn(name string, value any) (all []string) {
	switch value := value.(type) {
	case string:
		value = strings.TrimPrefix(value, "unix://")
		if filepath.IsAbs(value) || name == "directory" || name == "plugin_cmd" || strings.HasSuffix(name, "_path") {
			all = append(all, value)
		}
	case []any:
		for _, v := range value {
			all = append(all, pathsIn(name, v)...)
		}
	case []map[string]any:
		for _, v := range value {
			all = append(all, pathsIn(name, v)...)
		}
	case map[string]any:
		for name, v := range value {
			all = append(all, pathsIn(name, v)...)
		}
	}
	return all
}
