package spire

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// AgentOption is an option of a child agent on a command line of ours.
type AgentOption struct {
	Name  string // without its dash
	Bool  bool   // takes no value
	Usage string
}

// AgentVariable is the variable of an agent's option in camel case: SWARM_SPIRE_JOIN_TOKEN of joinToken. Unlike a command line
// nobody but its owner can read it.
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

// joinOptions say where a join token comes from; they are ours.
var joinOptions = []AgentOption{
	{"gen-join-token", true, "have a join token made by the SPIRE server: on this machine, or on its own over ssh"},
	{"spire-docker-name", false, "`CONTAINER` of the SPIRE server, to make a join token in"},
	{"spire-server-socket", false, "API socket of a SPIRE server on this machine, to make a join token (default: that of run-spire-server, or " + DefaultServerSocket + ")"},
	{"join-file", false, "`FILE` with a join token and its trust bundle, as `swarmd spire-token --json` prints it; nobody else is asked then"},
	{"ssh-user", false, "user for ssh to the SPIRE server's machine"},
	{"ssh-port", false, "port for ssh to the SPIRE server's machine"},
}

// JoinOptions returns the options that say where a join token comes from. The first is genJoinToken too. The caller owns
// the slice.
func JoinOptions() []AgentOption { return slices.Clone(joinOptions) }

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
func AgentOptions() []AgentOption { return slices.Clone(agentOptions) }

// ParseAgent makes a configuration of the options of AgentOptions and JoinOptions that a user gave: name to value, "true" or
// "false" for those that take none. It is nil without any. serverDir is where a SPIRE server of ours would have its state on
// this machine. Role, names, directory, plugin and log are the caller's to fill in.
func ParseAgent(given map[string]string, serverDir string) (*AgentConfig, error) {
	if len(given) == 0 {
		return nil, nil
	}
	cfg := &AgentConfig{
		ConfigFile: given["config"], ServerAddress: given["serverAddress"], TrustDomain: given["trustDomain"], JoinToken: given["joinToken"],
	}
	for _, o := range agentOptions {
		v, ok := given[o.Name]
		switch o.Name {
		case "config", "serverAddress", "serverPort", "joinToken", "trustDomain":
		default:
			if ok {
				cfg.Args = append(cfg.Args, "-"+o.Name+"="+v)
			}
		}
	}
	var err error
	if cfg.ServerPort, err = port("-serverPort", given["serverPort"]); err != nil {
		return nil, err
	}
	source := &TokenSource{
		File: given["join-file"], Socket: first(given["spire-server-socket"], ServerSocket(serverDir)), Docker: given["spire-docker-name"], SSHUser: given["ssh-user"], ServerAddress: cfg.ServerAddress,
		Wait: tokenWait,
	}
	if source.SSHPort, err = port("--ssh-port", given["ssh-port"]); err != nil {
		return nil, err
	}
	// A file has the token that was made: who was invited has nobody make one.
	if given["gen-join-token"] == "true" || given["join-file"] != "" {
		if cfg.JoinToken != "" {
			return nil, errors.New("-joinToken and -genJoinToken: give one of the two")
		}
		cfg.GenJoinToken = source
		return cfg, nil
	}
	for _, o := range joinOptions[1:] {
		if _, ok := given[o.Name]; ok {
			return nil, fmt.Errorf("--%s says how a join token is made: give -genJoinToken too", o.Name)
		}
	}
	return cfg, nil
}

// ServerSocket finds the API socket of a SPIRE server on this machine: that of run-spire-server, whose state directory is dir, if there is
// one, else where SPIRE's own programs look.
func ServerSocket(dir string) string {
	if own := filepath.Join(dir, "api.sock"); dir != "" {
		if _, err := os.Stat(own); err == nil {
			return own
		}
	}
	return DefaultServerSocket
}

// port reads a port; "" and "0" are none.
func port(option, text string) (int, error) {
	if text == "" || text == "0" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%s %s: want a port from 1 to 65535", option, text)
	}
	return int(n), nil
}
