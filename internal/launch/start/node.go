package start

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/invitation"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/userdirs"
)

// The ports of nodes unless told otherwise.
const (
	P2PPort Port = 30303 // traffic between SNs
	APIPort Port = 30304 // an SN's API
	FSPort  Port = 30305 // file servers of SNs, and models of SLs
)

// Env is what a start depends on beside its options.
type Env struct {
	Getenv  func(string) string
	Version string // of swarmd, for the label; "": none
}

// contained reports whether this process runs in a component's container: a SWOP that starts SLs. Paths are those of the host, which it does
// not see.
func (e Env) contained() bool { return e.Getenv(InContainer) != "" }

// Node is what SNs and SLs have in common. The zero value of a field stands for its default.
type Node struct {
	Name         string   `option:"name"`
	Host         string   `option:"host-ip"` // under which the other nodes reach this one
	StateDir     string   `option:"state-dir,launcher"`
	Identity     string   `option:"identity,host"`    // embedded, embedded=DIR or spiffe
	SocketPath   string   `option:"socket-path,host"` // of the Workload API
	TrustDomains []string `option:"trust-domain"`     // foreign ones
	SPIFFEPrefix string   `option:"spiffe-prefix"`
	SwarmID      string   `option:"swarm-id"`
	LogLevel     string   `option:"log-level"`
	Metrics      Metrics  `option:"metrics,host"`
	Certificates
	// Mounted are the paths above that lie in volumes which Container.Volumes mounts: the node's container has them, and this host has not.
	Mounted   []string
	Agent     Agent
	Container component.Options

	Invite     string                 `option:"invite,launcher"` // where Invitation was read; what that says stands in the other fields
	Invitation *invitation.Invitation // nil: none
}

// Certificates are an identity from files.
type Certificates struct {
	Cert   string `option:"cert,file"`
	Key    string `option:"key,file"`
	CACert string `option:"cacert,file"`
	CAPath string `option:"capath,dir"`
	Roles  string `option:"cert-roles"`
}

// Agent are the options of a SPIRE agent of the node's own, by the names of spire.AgentOptions and spire.JoinOptions; nil: none is
// started. Those that take no value are "true" or "false".
type Agent map[string]string

// NodeName is the node's name: the given one, else ROLE-HOST-PORT, or ROLE-HOST of a node that listens nowhere.
func (n *Node) NodeName(role identity.Role, port Port) string {
	switch {
	case n.Name != "":
		return n.Name
	case port == 0:
		return fmt.Sprintf("%s-%s", role, strings.NewReplacer(":", "-").Replace(n.Host))
	}
	return fmt.Sprintf("%s-%s-%d", role, strings.NewReplacer(":", "-").Replace(n.Host), port)
}

// CheckHost finds a node that has no address.
func (n *Node) CheckHost() error {
	if n.Host == "" {
		return errors.New("mandatory parameter --host-ip not specified; give the address under which other nodes reach this one")
	}
	return nil
}

// Embedded reports whether identities come from the embedded authority.
func (n *Node) Embedded() bool {
	kind, _, _ := strings.Cut(n.Identity, "=")
	return strings.EqualFold(kind, "embedded")
}

// Socket finds the Workload API: an embedded authority's socket for the role, or an agent's.
func (n *Node) Socket(getenv func(string) string, role identity.Role) (string, error) {
	kind, dir, _ := strings.Cut(n.Identity, "=")
	switch strings.ToLower(kind) {
	case "embedded":
		if dir == "" {
			var err error
			if dir, err = userdirs.Of(getenv).Authority(); err != nil {
				return "", err
			}
		}
		return filepath.Join(dir, string(role)+".sock"), nil
	case "", "spiffe":
		socket := n.SocketPath
		if socket == "" {
			socket = getenv("SPIFFE_ENDPOINT_SOCKET")
		}
		if socket == "" {
			return "", fmt.Errorf("no identity: give --socket-path of a SPIFFE agent, or -serverAddress and -genJoinToken to start one, or run `swarmd run-authority` on this machine and give --identity embedded")
		}
		return identity.UnixPath(socket), nil
	}
	return "", fmt.Errorf("--identity %s: want embedded, embedded=DIR or spiffe", kind)
}

// AgentConfig is the configuration of the node's own SPIRE agent; nil without one.
func (n *Node) AgentConfig(getenv func(string) string) (*spire.AgentConfig, error) {
	server, _ := userdirs.Of(getenv).SPIREServer() // without a home there is no server in it
	cfg, err := spire.ParseAgent(n.Agent, server)
	if err != nil || cfg == nil {
		return nil, err
	}
	cfg.NodeName = n.Name
	if n.Invitation != nil {
		cfg.GenJoinToken, cfg.Shared = &spire.TokenSource{Invitation: n.Invitation}, true
	}
	if cfg.GenJoinToken != nil {
		cfg.GenJoinToken.Exec = component.LocalExec()
	}
	some := ""
	for _, o := range agentOptions() {
		if _, given := n.Agent[o]; given {
			some = o
		}
	}
	if n.Embedded() {
		return nil, fmt.Errorf("-%s starts a SPIRE agent, --identity embedded needs none: give one of the two", some)
	}
	if n.SocketPath != "" {
		return nil, fmt.Errorf("-%s starts a SPIRE agent, --socket-path names one that runs already: give one of the two (-socketPath says where the started one puts its socket)", some)
	}
	return cfg, nil
}

// identify gives a node in a container its identity: files are mounted already, an agent of its own is started there, an agent or
// authority of this host is reached through its socket. Whether it deals with the engine must be in s already: that decides as
// whom it runs.
func (n *Node) identify(s *component.Spec, env Env) error {
	role := identity.Role(s.Role)
	agent, err := n.AgentConfig(env.Getenv)
	if err != nil {
		return err
	}
	if agent != nil {
		agent.Role = role
		s.Agent = agent
		return nil
	}
	if n.Cert != "" {
		return nil
	}
	socket, err := n.Socket(env.Getenv, role)
	if err != nil {
		return err
	}
	if socket, err = filepath.Abs(socket); err != nil {
		return err
	}
	if slices.Contains(n.Mounted, socket) {
		s.Args = append(s.Args, "--socket-path="+socket)
		return nil
	}
	s.SocketPath = socket
	if !n.Embedded() {
		s.Args = append(s.Args, "--socket-path="+socket)
		return nil
	}
	s.Args = append(s.Args, "--identity=embedded="+filepath.Dir(socket))
	if env.contained() {
		return nil
	}
	info, err := os.Stat(socket)
	if err != nil {
		return pathError("identity", "embedded="+filepath.Dir(socket), "directory", err, "start the authority first: swarmd run-authority")
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && s.User == "" && !s.EngineSocket {
		s.User = fmt.Sprintf("%d:%d", st.Uid, st.Gid) // nobody else may use the socket
	}
	return nil
}

// component is the container of a node, without its ports and its identity. options is the struct that the node is part of.
func (n *Node) component(role, node string, options any, env Env) (component.Spec, error) {
	if err := n.CheckHost(); err != nil {
		return component.Spec{}, err
	}
	s, err := newSpec(role, node, n.Name, n.Container, env)
	if err != nil {
		return s, err
	}
	s.HostIP = n.Host
	if err := n.Metrics.publish(&s); err != nil {
		return s, err
	}
	return s, tell(&s, options, n.StateDir, env, n.Mounted...)
}

// newSpec is a component's container before anything is said to what runs in it.
func newSpec(role, node, name string, options component.Options, env Env) (component.Spec, error) {
	s := component.Spec{
		Role: role, Node: node, Scope: scope(env), Version: env.Version, Options: options, Vars: []string{InContainer + "=1"},
	}
	s.Name = name
	s.Vars = append(s.Vars, programVar(env)...)
	s.Args = []string{"run-" + role, "--runtime=process"}
	return s, errors.Join(checkNames(node, name), checkEnv("env", s.Env), checkLabels("label", s.Labels))
}

// programVar has the errors of what runs in a container read as ours.
func programVar(env Env) []string {
	if prog := env.Getenv("SWARM_PROG"); prog != "" {
		return []string{"SWARM_PROG=" + filepath.Base(prog)}
	}
	return nil
}

// tell gives the component its options, and a directory of the user's for its state. mounted are files that it has without the host's.
func tell(s *component.Spec, options any, stateDir string, env Env, mounted ...string) (err error) {
	t := told{unseen: env.contained(), mounted: mounted}
	if err := t.add(options); err != nil {
		return err
	}
	s.Args, s.Vars, s.Files = append(s.Args, t.args...), append(s.Vars, t.vars...), append(s.Files, t.files...)
	s.StateDir, err = abs(stateDir)
	return err
}
