// Package component runs the swarm's components (SN, SL, SPIRE server, SWCI, SWOP) as containers: it makes a container from
// docker-like options, gives it state, files, ports and the isolation that suit its role, starts it, and shows what it says.
package component

import (
	"io"
	"log/slog"

	"github.com/swarmd/swarmd/identity/spire"
)

// Options are what users say about a component's container, in the words of docker run. Tags are as in internal/launch/start.
type Options struct {
	Name     string // of the container; "": the engine's choice
	Hostname string `option:"hostname,launcher"` // "": Name
	Network  string `option:"network,launcher"`  // "": the engine's default bridge
	User     string `option:"user,launcher"`     // name or uid, and :group or :gid; "": see Run
	WorkDir  string `option:"workdir,launcher"`  // in the container
	IP       string `option:"ip,launcher"`       // in Network, which must be a user's; "": the engine's choice
	Restart  string `option:"restart,launcher"`  // no, always, unless-stopped, on-failure[:times]; "": no
	Image    string `option:"image,launcher"`    // "": SWARM_IMAGE, else engine.ImageSwarmd

	// Without any of these four the container is attached with input and a terminal if the launcher has one, else detached.
	Detach      bool `option:"detach,launcher"`
	Interactive bool `option:"interactive,launcher"` // standard input stays open
	TTY         bool `option:"tty,launcher"`
	Attach      bool // show the output, though there may be no terminal
	Remove      bool `option:"rm,launcher"` // when it ends

	Env         []string `option:"env,launcher"`          // K=V, or K for the launcher's own value
	Labels      []string `option:"label,launcher"`        // K=V or K
	DNS         []string `option:"dns,launcher"`          // servers
	SecurityOpt []string `option:"security-opt,launcher"` // beside ours
	Publish     []string `option:"publish,launcher"`      // [[ip:]host:]container[/udp], ranges too
	Volumes     []string `option:"volume,launcher"`       // SRC:DST[:ro|rw]; a SRC without / and . is a named volume
}

// Spec is a component's container.
type Spec struct {
	Options
	Role     string // one of the engine's roles
	Node     string // the node's name, which labels, state and reconciliation go by; "" only of a Stateless component
	Platform string // PYT or TF of an SL, else ""
	Scope    string // "": engine.OSScope()
	Version  string // of swarmd, for the label; "": none
	// Assignment are the labels of the assignment that the component is started for; nil: it is started for none.
	Assignment map[string]string

	Program []string // what runs in the container; nil: swarmd
	Args    []string // after Program
	// Vars are K=V for the component that come from us. The user's Env wins over them.
	Vars []string

	Ports  []Port // the component's listeners, the same inside and outside; published if HostIP is this host's
	HostIP string

	// Files are files and directories of the host that the component reads: certificates, keys, configurations. They are
	// mounted read-only at the same absolute path, which Args must use. Missing ones are errors.
	Files []string
	// Mounts are directories of the host with a place in the container, such as an SL's model directory.
	Mounts []Mount
	// SocketPath is the Workload API's socket of an agent on the host, "" for none. Its directory is mounted at the same
	// path, so that the agent may be started anew.
	SocketPath string
	// StateDir is a directory of the host for the node's state; it is made if missing. "": the volume StateVolume.
	StateDir  string
	Stateless bool // no state at all: each container begins anew
	// EngineSocket gives the component the engine: to an SL, which starts its program's container.
	EngineSocket bool
	// BridgeDir is the SL's bridge directory, at the same path inside and outside, in memory. "": none.
	BridgeDir string
	// Spill gives an SL the volume SpillVolume at engine.SpillDir.
	Spill bool

	// Agent is what the user said about the node's own SPIRE agent, nil without one. The launcher finds the server's address
	// if it is not given, and gets the join token for GenJoinToken on this host before the component starts. It tells swarmd
	// so by variables, beside the options that stand in Args. SWCI, whose program reads none, gets all of the agent's options
	// and files from here.
	Agent *spire.AgentConfig
}

// Port is one that a component listens on.
type Port struct {
	Number int
	Proto  string // "": tcp
}

// Mount is a directory of the host in the container. Source is made absolute and must exist.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// IO is how Run speaks with its user.
type IO struct {
	Stdin          io.Reader // an *os.File of a terminal makes a terminal; nil: none
	Stdout, Stderr io.Writer
	Log            *slog.Logger
	Getenv         func(string) string
}

// Terminal decides what the user left open: without -d, -i and -t a launcher with a terminal is attached to it, and one
// without runs the container in the background.
func (o Options) Terminal(has bool) Options {
	switch {
	case o.Detach || o.Interactive || o.TTY || o.Attach:
	case has:
		o.Interactive, o.TTY = true, true
	default:
		o.Detach = true
	}
	return o
}
