package start

import (
	"strings"
	"unicode"

	"github.com/swarmd/swarmd/identity/spire"
)

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

// AgentVariable is the variable of an agent's option in camel case: SWARM_SPIRE_JOIN_TOKEN.
func AgentVariable(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return "SWARM_SPIRE_" + b.String()
}
