package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

// place is what becomes of an option when the command runs in a container.
type place int

const (
	onward  place = iota // swarmd in the container gets it as it is
	stays                // it is for the launcher or for the container
	file                 // a file of this host, mounted at the same path
	dir                  // a directory of this host, likewise
	joins                // where a join token is had from: the launcher gets it
	unseen               // its values go by variables: every user of this host can read a command line
	another              // translated one by one
)

// placeOf names the options that are not simply passed on.
func placeOf(name string) place {
	switch name {
	case "runtime", "config-file", "state-dir", "env":
		return stays
	case "cert", "key", "cacert", "config", "trustBundle":
		return file
	case "capath":
		return dir
	case "ml-e", "joinToken":
		return unseen
	case "identity", "socket-path", "ml-runtime", "ml-user", "ml-v", "data-dir", "model-dir", "model-program", "bridge-dir":
		return another
	}
	if slices.ContainsFunc(containerFlags(), func(f cli.Flag) bool { return f.Names()[0] == name }) {
		return stays
	}
	if name == "gen-join-token" {
		return onward // the launcher leaves the token in a file for it
	}
	if slices.ContainsFunc(spire.JoinOptions(), func(o spire.AgentOption) bool { return o.Name == name }) {
		return joins
	}
	return onward
}

// arguments returns the values of an option as it is given to swarmd in the container.
func arguments(c *cli.Context, f cli.Flag) []string {
	name := f.Names()[0]
	switch f.(type) {
	case *cli.StringSliceFlag:
		var list []string
		for _, v := range c.StringSlice(name) {
			list = append(list, "--"+name+"="+v)
		}
		return list
	default:
		return []string{fmt.Sprintf("--%s=%v", name, c.Value(name))}
	}
}

// hidden gives an option to swarmd in the container without its values, and the variables that it finds them by.
func hidden(c *cli.Context, name string) (args, vars []string) {
	if name == "joinToken" {
		return nil, []string{agentEnv(name)[0] + "=" + c.String(name)}
	}
	for _, kv := range c.StringSlice(name) {
		k, _, _ := strings.Cut(kv, "=")
		args, vars = append(args, "--"+name+"="+k), append(vars, mlVariable+kv)
	}
	return args, vars
}

// mlVariable begins the names of variables in a component's container that hold those of --ml-e.
const mlVariable = "SWARM_ML_E_"

// keyValues are the K=V of --env or --ml-e. In a component's container those that the launcher passed on are a K alone, and
// the value is in the environment.
func keyValues(c *cli.Context, e Env, option string) []string {
	given := slices.Clone(c.StringSlice(option))
	if e.Getenv("SWARM_IN_CONTAINER") == "" {
		return given
	}
	prefix := ""
	if option == "ml-e" {
		prefix = mlVariable
	}
	for i, k := range given {
		if k != "" && !strings.Contains(k, "=") {
			given[i] = k + "=" + e.Getenv(prefix+k)
		}
	}
	return given
}

// componentSpec translates a start command into the container that runs it. What the options mean to the node has been
// checked before; here the paths of this host are.
func componentSpec(c *cli.Context, e Env, role, node string) (component.Spec, error) {
	s := component.Spec{
		Role: role, Node: node, Scope: engine.Scope(e.Getenv), Version: version(), HostIP: c.String("host-ip"),
		Options: component.Options{
			Name: c.String("name"), Hostname: c.String("hostname"), Network: c.String("network"), User: c.String("user"),
			WorkDir: c.String("workdir"), Restart: c.String("restart"), Image: c.String("image"), Detach: c.Bool("detach"),
			Interactive: c.Bool("interactive"), TTY: c.Bool("tty"), Remove: c.Bool("rm"), Env: c.StringSlice("env"),
			Labels: c.StringSlice("label"), Publish: c.StringSlice("publish"), Volumes: c.StringSlice("volume"),
		},
		Vars: []string{"SWARM_IN_CONTAINER=1"},
	}
	if prog := e.Getenv("SWARM_PROG"); prog != "" {
		s.Vars = append(s.Vars, "SWARM_PROG="+filepath.Base(prog)) // its errors read as ours
	}
	s.Args = []string{c.Command.Name, "--runtime=" + runtimeProcess}
	for _, f := range c.Command.Flags {
		name := f.Names()[0]
		if !c.IsSet(name) {
			continue
		}
		switch placeOf(name) {
		case onward:
			s.Args = append(s.Args, arguments(c, f)...)
		case file, dir:
			path, err := hostFileOrDir(name, c.String(name))
			if err != nil {
				return s, err
			}
			s.Files = append(s.Files, path)
			s.Args = append(s.Args, "--"+name+"="+path)
		case unseen:
			args, vars := hidden(c, name)
			s.Args, s.Vars = append(s.Args, args...), append(s.Vars, vars...)
		case stays, joins, another:
		}
	}
	if err := errors.Join(checkNames(node, c.String("name")), checkEnv("env", s.Env), checkLabels(s.Labels)); err != nil {
		return s, err
	}
	return s, withHostState(c, &s)
}

func hostFileOrDir(name, path string) (string, error) {
	if placeOf(name) == file {
		return hostFile(name, path)
	}
	return hostDir(name, path, "directory", unix.R_OK|unix.X_OK)
}

// withHostState takes a directory of the user's for the state.
func withHostState(c *cli.Context, s *component.Spec) error {
	if dir := c.String("state-dir"); dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		s.StateDir = abs
	}
	return nil
}

func checkNames(node, container string) error {
	if err := identity.ValidName(node); err != nil {
		return fmt.Errorf("--name: %w", err)
	}
	return checkName("name", container)
}

// checkLabels keeps users from saying what only swarmd may say.
func checkLabels(labels []string) error {
	for _, l := range labels {
		if strings.HasPrefix(l, "io.swarmd.") {
			return fmt.Errorf("--label %s: labels that begin with io.swarmd. are swarmd's own: choose another name", l)
		}
	}
	return nil
}

// nodeSpec is componentSpec for SN and SL, which have ports, and an identity that the caller adds by withIdentity.
func nodeSpec(c *cli.Context, e Env, role, node string, ports ...string) (component.Spec, error) {
	s, err := componentSpec(c, e, role, node)
	if err != nil {
		return s, err
	}
	for _, name := range ports {
		n := c.Int(name)
		if n < 1 || n > 65535 {
			return s, fmt.Errorf("--%s %d: want a port from 1 to 65535", name, n)
		}
		s.Ports = append(s.Ports, component.Port{Number: n})
	}
	return s, nil
}

// withIdentity gives a node in a container its identity: files are mounted already, an agent of its own is started there, an
// agent or authority of this host is reached through its socket. Whether it deals with the engine must be in s already: that
// decides as whom it runs.
func withIdentity(c *cli.Context, e Env, s *component.Spec) error {
	agent, err := agentConfig(c, e)
	if err != nil {
		return err
	}
	if agent != nil {
		agent.Role = identity.Role(s.Role)
		s.Agent = agent
		return nil
	}
	if c.String("cert") != "" {
		return nil
	}
	socket, err := socketPath(c, e, s.Role)
	if err != nil {
		return err
	}
	if socket, err = filepath.Abs(socket); err != nil {
		return err
	}
	s.SocketPath = socket
	if !fromAuthority(c) {
		s.Args = append(s.Args, "--socket-path="+socket)
		return nil
	}
	s.Args = append(s.Args, "--identity=embedded="+filepath.Dir(socket))
	info, err := os.Stat(socket)
	if err != nil {
		return pathError("identity", "embedded="+filepath.Dir(socket), "directory", err, "start the authority first: swarmd run-authority")
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && s.User == "" && !s.EngineSocket {
		s.User = fmt.Sprintf("%d:%d", st.Uid, st.Gid) // nobody else may use the socket
	}
	return nil
}
