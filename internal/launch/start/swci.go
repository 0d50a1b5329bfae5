package start

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/launch/component"
)

// UserDirs returns where SWCI's container has the user's directory: for scripts for the original's releases, old and new.
func UserDirs() []string { return []string{"/platform/swci/usr", "/platform/swarm/usr"} }

// SWCI is swarmctl's prompt. It needs no identity to start: it has commands that need none.
type SWCI struct {
	Name         string   `option:"name,launcher"`    // of the container; "": the engine's choice
	UsrDir       string   `option:"usr-dir,host"`     // with the startup script and the files that commands name; "": none
	Script       string   `option:"init-script-name"` // directly in UsrDir
	SNs          []string `option:"sn"`               // HOST:PORT
	Web          bool     `option:"web"`              // serves programs in place of a prompt
	WebPort      int      `option:"web-port"`         // where; 0: the default
	WebClients   []string `option:"web-client"`       // SPIFFE ID patterns of those who may use it
	Metrics      Metrics  `option:"metrics,host"`     // of web mode
	TrustDomains []string `option:"trust-domain"`     // foreign ones
	SPIFFEPrefix string   `option:"spiffe-prefix"`
	Certificates
	SocketPath string             // of the Workload API on this host; "": none
	Agent      *spire.AgentConfig // of its own; nil: none
	Container  component.Options  // always removed, and always with standard input
}

// Component is the container of the prompt. The paths of this host in it are checked.
func (o *SWCI) Component(env Env) (component.Spec, error) {
	s := component.Spec{
		Role: naming.RoleSWCI, Scope: scope(env), Version: env.Version, Options: o.Container, Stateless: true,
		Program: []string{"swarmctl"}, Args: []string{"run-swci", "--runtime=process"},
		// The container's root can't be written, and what swarmctl keeps ends with it anyway.
		Vars: []string{InContainer + "=1", "XDG_STATE_HOME=/tmp/state", "HOME=/tmp", "TERM=xterm"},
	}
	if o.Container.Detach && !o.Web {
		return s, errors.New("a prompt can't run in the background: leave -d out; a startup script that ends in EXIT needs nobody at the prompt")
	}
	if err := errors.Join(checkName("name", o.Name), checkLabels("label", s.Labels)); err != nil {
		return s, err
	}
	s.Name, s.Remove, s.Interactive = o.Name, true, !o.Container.Detach
	if term := env.Getenv("TERM"); term != "" {
		s.Vars[len(s.Vars)-1] = "TERM=" + term
	}
	s.Vars = append(s.Vars, programVar(env)...)
	if err := o.Metrics.publish(&s); err != nil {
		return s, err
	}
	if o.UsrDir != "" {
		source, err := HostDir("usr-dir", o.UsrDir, "path", readable)
		if err != nil {
			return s, err
		}
		for _, target := range UserDirs() {
			s.Mounts = append(s.Mounts, component.Mount{Source: source, Target: target})
		}
		s.Args = append(s.Args, "--usr-dir="+UserDirs()[0])
	}
	if err := tell(&s, o, "", env); err != nil {
		return s, err
	}
	return s, o.identify(&s)
}

// identify gives the prompt its identity: files are mounted already, an agent is started inside, one of this host is reached through
// its socket.
func (o *SWCI) identify(s *component.Spec) (err error) {
	switch {
	case o.Agent != nil:
		agent := *o.Agent
		agent.Role, s.Agent = identity.RoleSWCI, &agent
		return nil
	case o.SocketPath == "":
		return nil
	}
	if s.SocketPath, err = filepath.Abs(o.SocketPath); err != nil {
		return err
	}
	s.Args = append(s.Args, "--identity="+s.SocketPath)
	var info unix.Stat_t
	if err := unix.Stat(s.SocketPath, &info); err != nil {
		return pathError("identity", s.SocketPath, "socket", err, "start the agent or the authority first")
	}
	if s.User == "" && info.Mode&0o006 != 0o006 {
		s.User = fmt.Sprintf("%d:%d", info.Uid, info.Gid) // nobody else may speak with it
	}
	return nil
}
