package start

import (
	"path/filepath"

	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/invited"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

// AgentDir is the directory of the SPIRE agent that the node runs, which with an invitation may be another node's; empty: it runs none.
func (n *Node) AgentDir(getenv func(string) string, stateDir string) string {
	if agent, err := n.AgentConfig(getenv); err != nil || agent == nil {
		return ""
	}
	if n.Invitation != nil {
		return invited.AgentDir(stateDir, n.Invitation, engine.Scope(getenv))
	}
	return filepath.Join(stateDir, "spire-agent")
}

// AgentSocket is the socket of that agent: SLs of which a SWOP's profile names no identity ask it too.
func (n *Node) AgentSocket(getenv func(string) string, stateDir string) string {
	dir := n.AgentDir(getenv, stateDir)
	if given := n.Agent["socketPath"]; dir == "" || given != "" {
		return given
	}
	return filepath.Join(dir, "agent.sock")
}

// agentOptions are the names of all options of a node's own agent.
func agentOptions() []string {
	var names []string
	for _, o := range append(spire.AgentOptions(), spire.JoinOptions()...) {
		names = append(names, o.Name)
	}
	return names
}

// agentPlace is the place of one of them.
func agentPlace(name string) Place {
	switch name {
	case "config", "trustBundle":
		return File
	case "joinToken":
		return Secret
	}
	for i, o := range spire.JoinOptions() {
		if i > 0 && o.Name == name { // the first says that there is to be a token: the launcher leaves it in a file
			return Join
		}
	}
	return Onward
}
