package spire

import "slices"

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
	all := []string{cfg.ConfigFile, file.Agent.DataDir, file.Agent.TrustBundle}
	for _, name := range []string{"socketPath", "dataDir", "trustBundle"} {
		path, _ := argument(cfg.Args, name)
		all = append(all, path)
	}
	for _, manager := range file.Plugins.KeyManager {
		all = append(all, manager.Data.Directory, manager.Data.File)
	}
	if cfg.GenJoinToken != nil {
		all = append(all, cfg.GenJoinToken.File, cfg.GenJoinToken.Socket)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(path string) bool { return path == "" }), nil
}
