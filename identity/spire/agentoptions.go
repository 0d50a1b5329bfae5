package spire

import "strings"

// AgentOption is an option of `spire-agent run`.
type AgentOption struct {
	Name  string // without its dash
	Bool  bool   // takes no value
	Usage string
}

// agentOptions is what `spire-agent run -help` lists; a test compares the two.
var agentOptions = []AgentOption{
	{"allowUnauthenticatedVerifiers", true, "let clients without an entry fetch trust bundles"},
	{"config", false, "the agent's configuration `FILE` (default: one is written)"},
	{"dataDir", false, "directory for the agent's data (default: spire-agent in the state directory)"},
	{"expandEnv", true, "expand variables of the environment in the agent's configuration file"},
	{"insecureBootstrap", true, "join without verifying the server"},
	{"joinToken", false, "join token made by the SPIRE server"},
	{"logFile", false, "file for the agent's log"},
	{"logFormat", false, "form of the agent's log: text or json"},
	{"logLevel", false, "level of the agent's log: debug, info, warn or error"},
	{"logSourceLocation", true, "name source files in the agent's log"},
	{"rebootstrapDelay", false, "how long a server's certificate must not fit before the agent bootstraps anew"},
	{"rebootstrapMode", false, "never, auto or always"},
	{"retryBootstrap", true, "try again when the server can't be reached"},
	{"serverAddress", false, "address or host name of the SPIRE server"},
	{"serverPort", false, "port of the SPIRE server (default 8081)"},
	{"socketPath", false, "path of the child agent's socket (default: agent.sock in its directory)"},
	{"trustBundle", false, "`FILE` with the SPIRE server's certificates"},
	{"trustBundleFormat", false, "form of the trust bundle: pem or spiffe"},
	{"trustBundleUrl", false, "where to download the SPIRE server's certificates"},
	{"trustDomain", false, "trust domain of agent and server (default swarm.learning)"},
}

// AgentOptions returns every option of `spire-agent run`, sorted by name. The caller owns the slice.
func AgentOptions() []AgentOption { return append([]AgentOption(nil), agentOptions...) }

// argument returns the value of an option among arguments as AgentConfig takes them.
func argument(args []string, name string) (value string, given bool) {
	for _, a := range args {
		key, v, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if key == name {
			value, given = v, true
		}
	}
	return value, given
}
