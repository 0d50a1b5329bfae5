package start

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

const (
	// InContainer is the variable that tells swarmd that it runs in a component's container.
	InContainer = "SWARM_IN_CONTAINER"
	// ExitFile is the variable that names the file in which an SL notes its exit code, for who started it and may be gone by then.
	ExitFile = "SWARM_EXIT_FILE"
	// mlVariable begins the names of variables in a component's container that hold those of --ml-e.
	mlVariable = "SWARM_ML_E_"
	// minMemory is what engines ask of a limit at least, in bytes.
	minMemory = 6 << 20
)

// Reveal gives the variables of the component and of its program their values in a component's container, where those that the
// launcher passed on are a K alone, and the value is in the environment.
func (o *SL) Reveal(getenv func(string) string) {
	if getenv(InContainer) == "" {
		return
	}
	o.Container.Env, o.ML.Env = reveal(o.Container.Env, "", getenv), reveal(o.ML.Env, mlVariable, getenv)
}

func reveal(given []string, prefix string, getenv func(string) string) []string {
	given = slices.Clone(given)
	for i, k := range given {
		if k != "" && !strings.Contains(k, "=") {
			given[i] = k + "=" + getenv(prefix+k)
		}
	}
	return given
}

// MLContainer is the ML program's container as the SL's daemon asks for it. In a component's container the launcher has checked the
// paths, which are the host's; elsewhere they are checked here.
func (o *SL) MLContainer(env Env) (*container.Spec, error) {
	s, err := o.mlSpec(env)
	if err != nil {
		return nil, err
	}
	in := env.Getenv(InContainer) != ""
	s.Node, s.Scope, s.BridgeDir = o.NodeName(), scope(env), o.BridgePath(env.Getenv, in || isRoot())
	if in {
		s.Spill = component.SpillVolume(s.Scope, s.Node)
		return s, nil
	}
	p, err := o.paths(env)
	if err == nil {
		err = o.keepIdentity(p)
	}
	s.DataDir, s.ModelDir, s.Program, s.Mounts = p.data, p.model, p.program, p.mounts
	return s, err
}

// mlSpec translates the options of the ML program's container. The paths in it are as given.
func (o *SL) mlSpec(env Env) (*container.Spec, error) {
	m := o.ML
	s := &container.Spec{
		Name: m.Name, Client: m.Client, Image: m.Image, Program: o.Program, Args: o.Args, WorkDir: m.WorkDir, Entrypoint: m.Entrypoint, Cmd: m.Cmd,
		Env: slices.Concat(forProgram(o.Container.Env), m.Env), Mounts: m.Volumes, Network: m.Network, Pids: int64(m.Pids), Devices: m.Devices,
		GroupAdd: m.GroupAdd, CapAdd: m.CapAdd, SecurityOpt: m.SecurityOpt, IPC: m.IPC, Privileged: m.Privileged,
		Hostname: m.Hostname, IP: m.IP, DNS: m.DNS, Labels: m.Labels, Memory: int64(m.Memory), ShmSize: int64(m.ShmSize), CPUs: float64(m.CPUs), DataDir: o.DataDir, ModelDir: o.ModelDir,
	}
	var err error
	if s.Platform, err = o.PlatformName(); err != nil {
		return nil, err
	}
	s.AnyFramework = o.Platform == "" && (m.Entrypoint != nil || m.Cmd != nil)
	if s.Image == "" {
		s.Image = map[string]string{"PYT": engine.ImagePYT, "TF": engine.ImageTF}[s.Platform]
	}
	if s.GPUs, err = gpus(o.GPUs); err != nil {
		return nil, err
	}
	if s.User, err = mlUser(m.User, Caller(env.Getenv)); err != nil {
		return nil, err
	}
	if s.Memory != 0 && s.Memory < minMemory {
		err = fmt.Errorf("--ml-memory %s: engines take 6m at least; without a unit it is bytes", m.Memory)
	}
	return s, errors.Join(err, checkName("ml-name", s.Name))
}

// forProgram are those of the user's variables that reach the ML program: what configures swarmd is the component's own business.
func forProgram(given []string) []string {
	program := []string{"SWARM_LOOPBACK=", "SWARM_METRICS_FILE=", "SWARM_VERIFY="} // which the Python package reads
	return slices.DeleteFunc(slices.Clone(given), func(kv string) bool {
		if slices.ContainsFunc(program, func(p string) bool { return strings.HasPrefix(kv, p) }) {
			return false
		}
		return strings.HasPrefix(kv, "SWARM_") || strings.HasPrefix(kv, "SPIFFE_")
	})
}

// mlUser is uid:gid in numbers. A name or a uid alone is looked up among this host's users, as nobody in the image knows
// them; "" is the caller.
func mlUser(given, caller string) (string, error) {
	if given == "" {
		return caller, nil
	}
	bad := func(why string) error {
		return fmt.Errorf("--ml-user %s: %s; want UID:GID in numbers", given, why)
	}
	name, group, hasGroup := strings.Cut(given, ":")
	u, err := user.LookupId(name)
	if err != nil {
		u, err = user.Lookup(name)
	}
	uid := name
	if err == nil {
		uid = u.Uid
	} else if !number(name) {
		return "", bad("there is no user " + name + " on this host")
	}
	if !hasGroup {
		if err != nil {
			return "", bad("user " + name + " is unknown on this host and so is its group")
		}
		return uid + ":" + u.Gid, nil
	}
	if !number(group) {
		g, err := user.LookupGroup(group)
		if err != nil {
			return "", bad("there is no group " + group + " on this host")
		}
		group = g.Gid
	}
	return uid + ":" + group, nil
}

// Caller is the user on whose behalf we run, as uid:gid: under sudo the one who called it.
func Caller(getenv func(string) string) string {
	uid, gid := getenv("SUDO_UID"), getenv("SUDO_GID")
	if isRoot() && number(uid) && number(gid) {
		return uid + ":" + gid
	}
	return fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid())
}

// number reports whether the text is a user's or group's number.
func number(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil
}
