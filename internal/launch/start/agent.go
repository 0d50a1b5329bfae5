package start

import "github.com/swarmd/swarmd/identity/spire"

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
