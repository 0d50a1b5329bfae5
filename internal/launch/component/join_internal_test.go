package component

import (
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/identity/spire"
)

// TestSWCIsTokenIsOnNoCommandLine: every user of the host can read the command lines of containers.
func TestSWCIsTokenIsOnNoCommandLine(t *testing.T) {
	t.Parallel()
	agent := &spire.AgentConfig{ServerAddress: "spire", JoinToken: "hush", Args: []string{"-insecureBootstrap=true"}}
	l := &launcher{spec: Spec{Role: naming.RoleSWCI, Agent: agent, Args: []string{"shell"}, Vars: []string{"TERM=xterm"}}}
	l.tellAgent(agent)
	if line := strings.Join(l.spec.Args, " "); line != "shell -serverAddress=spire -insecureBootstrap=true" {
		t.Errorf("its command line is %q", line)
	}
	if want := []string{"SWARM_SPIRE_JOIN_TOKEN=hush", "TERM=xterm"}; !slices.Equal(l.spec.Vars, want) {
		t.Errorf("its environment has %q, want %q", l.spec.Vars, want)
	}
}
