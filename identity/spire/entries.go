package spire

import (
	"fmt"
	"strings"

	"github.com/swarmd/swarmd/identity"
)

// AgentPath returns the path of the agent that hands out the identities of a role, /swarm/<role>-agent, or of one node,
// /swarm/<role>-agent/<name>.
func AgentPath(role identity.Role, name string) string {
	path := "/swarm/" + string(role) + "-agent"
	if name != "" {
		path += "/" + name
	}
	return path
}

// ParseNode reads ROLE/NAME, such as "sl/hospital-a", or ROLE alone, whose name is "".
func ParseNode(s string) (identity.Role, string, error) {
	roleName, name, named := strings.Cut(s, "/")
	role, err := identity.ParseRole(roleName)
	if err != nil {
		return "", "", fmt.Errorf("%q: want ROLE or ROLE/NAME: %w", s, err)
	}
	if named {
		if err := identity.ValidName(name); err != nil {
			return "", "", fmt.Errorf("%q: %w", s, err)
		}
	}
	return role, name, nil
}
