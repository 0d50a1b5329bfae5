package start

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

// SWOPUserDir is where SWOP's container has the user's directory, and swopSecrets where it has that of secrets.
const SWOPUserDir, swopSecrets = "/platform/swarm/usr", "/platform/swarm/secrets"

// PolicyAsk is the value of SWOP.Policy by which the owner is asked about every task.
const PolicyAsk = "ask"

// SWOP is an operator node, which carries out tasks on its host.
type SWOP struct {
	Node
	UsrDir       string    `option:"usr-dir,host"`      // with the profile
	Profile      string    `option:"profile-file-name"` // a path in UsrDir
	Policy       string    `option:"policy,host"`       // a file, or PolicyAsk; "": what the profile says
	SecretsDir   string    `option:"secrets-dir,host"`  // with a file for each secret that jobs may have; "": there are none
	SNs          []string  `option:"sn-ip"`             // HOST[:PORT]
	SNService    string    `option:"sn-api-service"`    // FQDN[:PORT] of an SN's API behind a proxy
	APIPort      Port      `option:"sn-api-port"`
	FSPort       *FilePort `option:"swop-fs-port"`                // nil: SWOPFSPort, unless that is taken
	EngineSocket string    `option:"docker-socket-file,launcher"` // of the container engine that carries tasks out; "": as DOCKER_HOST says
	EngineGroup  ID        `option:"docker-group-id,launcher"`    // of that socket
	UID          ID        `option:"swop-uid,launcher"`           // of the container's user
	Keep         bool      `option:"keep-containers"`             // those that tasks have made stay when they end
	Labels       []string  `option:"host-label"`                  // K=V, which the swarm shows
	MLRuntime    string    `option:"ml-runtime,host"`             // Process or Docker, of what tasks run; "": the SWOP's own
	// PrepareTimeout bounds a host's preparation of a task, and the fetching of an image; SessionTimeout is that of the SLs that tasks start.
	// Nil: DefaultPrepare, DefaultSession.
	PrepareTimeout *Limit `option:"prepare-timeout"`
	SessionTimeout *Limit `option:"session-timeout"`
}

// SWOPFSPort is the port of a SWOP's file server unless told otherwise.
const SWOPFSPort FilePort = 30308

// FilePort is the port of a SWOP's file server; 0: it has none.
type FilePort int

// UnmarshalText reads a port, or 0.
func (p *FilePort) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 16)
	if err != nil {
		return errors.New("want a port from 1 to 65535, or 0 for none")
	}
	*p = FilePort(n) //nolint:gosec // 16 bits
	return nil
}

// Or is the port, or if it is not given another.
func (p *FilePort) Or(otherwise FilePort) FilePort {
	if p == nil {
		return otherwise
	}
	return *p
}

// What a SWOP waits for its tasks unless told otherwise.
const (
	DefaultPrepare = 2 * Limit(time.Hour)
	DefaultSession = Limit(time.Hour)
)

// Or is the limit, or if it is not given another.
func (l *Limit) Or(otherwise Limit) Limit {
	if l == nil {
		return otherwise
	}
	return *l
}

// ID is the number of a user or a group, in digits; "": none is given.
type ID string

// UnmarshalText reads a number.
func (i *ID) UnmarshalText(text []byte) error {
	if _, err := strconv.ParseUint(string(text), 10, 31); err != nil {
		return errors.New("want a number, as id prints them")
	}
	*i = ID(text)
	return nil
}

// NodeName is the SWOP's name: the given one, else swop-HOST.
func (o *SWOP) NodeName() string { return o.Node.NodeName(naming.RoleSWOP, 0) }

// Settle gives the SN of a service its place among the others, and a SWOP without an address that of this host.
func (o *SWOP) Settle() error {
	if err := settleSN(&o.SNs, &o.SNService); err != nil {
		return err
	}
	if o.Host != "" {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("%w; give --host-ip", err)
	}
	o.Host = host
	return nil
}

// Locate takes what the profile says of an SN, which wins over the options: its host, or FQDN[:PORT] of its API behind a proxy, and its
// port; 0: that of the options. It is called after Settle.
func (o *SWOP) Locate(host, service string, port Port) error {
	if port != 0 {
		o.APIPort = port
	}
	if host != "" || service != "" {
		o.SNs, o.SNService = nil, service
	}
	if host != "" {
		o.SNs = []string{host}
	}
	return settleSN(&o.SNs, &o.SNService)
}

// Check finds a SWOP that has no profile.
func (o *SWOP) Check() error {
	var errs []error
	for _, m := range [][3]string{
		{"usr-dir", o.UsrDir, "name the directory with the profile"}, {"profile-file-name", o.Profile, "name the profile in --usr-dir"},
	} {
		if m[1] == "" {
			errs = append(errs, fmt.Errorf("mandatory parameter --%s not specified; %s", m[0], m[2]))
		}
	}
	if !filepath.IsLocal(o.Profile) && o.Profile != "" {
		errs = append(errs, fmt.Errorf("--profile-file-name: %s: bad file: it lies outside of --usr-dir; put it there", o.Profile))
	}
	return errors.Join(errs...)
}

// ProfilePath is where this process finds the profile.
func (o *SWOP) ProfilePath() string { return filepath.Join(o.UsrDir, o.Profile) }

// CheckSNs finds a SWOP that knows no SN, by its options and by its profile.
func (o *SWOP) CheckSNs() error {
	if strings.Trim(strings.Join(o.SNs, ""), ", ") == "" {
		return errors.New("mandatory parameter --sn-ip not specified; give the address of an SN, here or as apisrv in the profile")
	}
	return nil
}

// Getenv is the environment in which the container engine is looked for: --docker-socket-file wins over what is there.
func (o *SWOP) Getenv(getenv func(string) string) func(string) string {
	if o.EngineSocket == "" {
		return getenv
	}
	return func(name string) string {
		if name == "DOCKER_HOST" {
			return "unix://" + o.EngineSocket
		}
		return getenv(name)
	}
}

// Component is the container of the SWOP, which speaks with the engine of its host. The paths of this host are checked.
func (o *SWOP) Component(env Env) (component.Spec, error) {
	if err := o.Check(); err != nil {
		return component.Spec{}, err
	}
	s, err := o.component(naming.RoleSWOP, o.NodeName(), o, env)
	if err != nil {
		return s, err
	}
	if runtime, err := Runtime("ml-runtime", o.MLRuntime, Docker); err != nil || runtime != Docker {
		return s, cmp.Or(err, errors.New("--ml-runtime process is for a SWOP that is a process, and this is --runtime docker: leave one of the two out"))
	}
	if port := o.FSPort.Or(SWOPFSPort); port != 0 {
		s.Ports = []component.Port{{Number: int(port)}}
	}
	s.EngineSocket = true
	s.Args = append(s.Args, "--ml-runtime="+Docker)
	s.Vars = append(s.Vars, "SWARM_IMAGE="+s.ImageName(env.Getenv)) // SLs are of the SWOP's own
	dir, err := HostDir("usr-dir", o.UsrDir, "directory", readable)
	if err == nil {
		_, err = HostFile("profile-file-name", o.ProfilePath())
	}
	if err == nil && o.EngineSocket != "" {
		err = hostSocket("docker-socket-file", o.EngineSocket)
	}
	if err != nil {
		return s, err
	}
	s.Vars = append(s.Vars, hostUsrVariable+"="+dir, ownVariable+"="+joinPaths(o.onHost(env.Getenv, s.StateDir)))
	s.Mounts = append(s.Mounts, component.Mount{Source: dir, Target: SWOPUserDir})
	s.Args = append(s.Args, "--usr-dir="+SWOPUserDir)
	if o.SecretsDir != "" {
		dir, err := HostDir("secrets-dir", o.SecretsDir, "directory", 0)
		if err != nil {
			return s, err
		}
		s.Mounts = append(s.Mounts, component.Mount{Source: dir, Target: swopSecrets, ReadOnly: true})
		s.Args = append(s.Args, "--secrets-dir="+swopSecrets)
	}
	switch o.Policy {
	case "":
	case PolicyAsk:
		s.Args = append(s.Args, "--policy="+PolicyAsk)
	default:
		file, err := HostFile("policy", o.Policy)
		if err != nil {
			return s, err
		}
		s.Args, s.Files = append(s.Args, "--policy="+file), append(s.Files, file)
	}
	if o.UID != "" && s.User == "" {
		if s.User, err = o.user(env); err != nil {
			return s, err
		}
	}
	return s, o.identify(&s, env)
}

// Run starts the SWOP's container, as component.Run does. If another process has the port of its file server, which is published, and nobody
// has named that port, it is started without one.
func (o *SWOP) Run(ctx context.Context, e *engine.Engine, env Env, user component.IO) (exit int, err error) {
	s, err := o.Component(env)
	if err != nil {
		return 0, err
	}
	exit, err = component.Run(ctx, e, s, user)
	if o.FSPort != nil || engine.TakenPort(err) != int(SWOPFSPort) {
		return exit, err
	}
	user.Log.Warn("this host has no file server, so that logs go through SNs", "err", err, "remedy", "give a port that is free with --swop-fs-port, or 0")
	without := *o
	without.FSPort = new(FilePort)
	return without.Run(ctx, e, env, user)
}

// user is that of the container, in the group that may use the engine's socket.
func (o *SWOP) user(env Env) (string, error) {
	group := string(o.EngineGroup)
	if group == "" {
		socket, local := strings.CutPrefix(cmp.Or(o.Getenv(env.Getenv)("DOCKER_HOST"), "unix:///var/run/docker.sock"), "unix://")
		var info unix.Stat_t
		if err := unix.Stat(socket, &info); !local || err != nil {
			return "", fmt.Errorf("--swop-uid %s: the group of the engine's socket is not known here: give --docker-group-id", o.UID)
		}
		group = strconv.Itoa(int(info.Gid))
	}
	return string(o.UID) + ":" + group, nil
}
