package component

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

const (
	dockerSocket = "/var/run/docker.sock"
	pidsLimit    = 4096
	shmSize      = 1 << 30 // bytes, for weights and a program's own shared memory
	// stopSeconds is how long a component has to leave the swarm before the engine kills it.
	stopSeconds = 30
)

// plan is what the engine is asked for.
type plan struct {
	name    string
	config  *container.Config
	host    *container.HostConfig
	network *network.NetworkingConfig
	volumes []string // ours, to be there before
	user    string   // uid:gid, or a name if only the image knows whose it is
}

// build turns a Spec into what the engine takes. It only looks at the host, through h.
func build(s Spec, h host) (*plan, error) {
	if s.Role == "" || s.Node == "" && !s.Stateless {
		return nil, errors.New("component needs a role and a node name")
	}
	user, groups, err := identityOf(s, h)
	if err != nil {
		return nil, err
	}
	p := &plan{name: s.Name, user: numeric(user, h.imageUser)}
	p.config, err = s.config(h)
	if err != nil {
		return nil, err
	}
	p.config.User = user
	mounts, binds, env, err := s.mounts(h)
	if err != nil {
		return nil, err
	}
	if _, _, known := ids(p.user); known {
		for i := range mounts {
			if mounts[i].Target == engine.StateHome && mounts[i].Type == mount.TypeVolume {
				// The image's directory, which an empty volume would take over, is closed to others than the image's user.
				// Run makes the node's own in the volume.
				mounts[i].VolumeOptions = &mount.VolumeOptions{NoCopy: true}
			}
		}
	}
	p.config.Env = launch.LastWins(append(p.config.Env, env...), s.Vars, userEnv(s.Env, h.getenv))
	p.host, err = s.hostConfig()
	if err != nil {
		return nil, err
	}
	p.host.Mounts, p.host.Binds, p.host.GroupAdd = mounts, binds, groups
	published := s.Network != "host" && s.Network != "none"
	p.config.ExposedPorts, p.host.PortBindings, err = publish(s.Publish, s.Ports, published && h.isThis(s.HostIP))
	if err != nil {
		return nil, err
	}
	if p.network, err = engine.Endpoint(s.Network, s.IP, "ip"); err != nil {
		return nil, err
	}
	if !s.Stateless && s.StateDir == "" {
		p.volumes = append(p.volumes, StateVolume(s.Scope, s.Node))
	}
	if s.Spill {
		p.volumes = append(p.volumes, SpillVolume(s.Scope, s.Node))
	}
	return p, nil
}

// config is the part that moves with the container: what runs in it, and how it is called.
func (s Spec) config(h host) (*container.Config, error) {
	labels, err := s.labels()
	if err != nil {
		return nil, err
	}
	program := s.Program
	if program == nil {
		program = []string{"swarmd"}
	}
	hostname := s.Hostname
	if hostname == "" {
		hostname = s.Name
	}
	if s.Network == "host" {
		hostname = s.Hostname // that of the host, unless the user insists, who then hears from the engine
	}
	grace := stopSeconds
	attached := !s.Detach
	env := []string{"SWARM_SCOPE=" + s.Scope}
	if s.Stateless {
		env = append(env, "HOME=/tmp", "XDG_STATE_HOME=/tmp")
	} else {
		// The home of state is root's default; a user other than root finds it by the second.
		env = append(env, "HOME="+s.stateDir(), "XDG_STATE_HOME="+filepath.Dir(engine.StateHome), "SWARM_STATE_DIR="+s.stateDir())
		if s.Role == engine.RoleSpireServer && s.StateDir != "" {
			env = append(env, "SWARM_SERVER_SOCKET="+path.Join(s.stateDir(), "api.sock")) // for `swarmd spire-token`
		}
	}
	workDir := s.WorkDir
	if workDir == "" {
		workDir = "/" // the image's is closed to others than its user
	}
	return &container.Config{
		Image: s.ImageName(h.getenv), Hostname: hostname, Entrypoint: program, Cmd: s.Args, WorkingDir: workDir, Labels: labels, Env: env,
		Tty: s.TTY, OpenStdin: s.Interactive, StdinOnce: s.Interactive && attached,
		AttachStdin: s.Interactive && attached, AttachStdout: attached, AttachStderr: attached, StopTimeout: &grace,
	}, nil
}

// ImageName names the image that a component is started from.
func (o Options) ImageName(getenv func(string) string) string {
	for _, image := range []string{o.Image, getenv("SWARM_IMAGE")} {
		if image != "" {
			return image
		}
	}
	return engine.ImageSwarmd
}

func (s Spec) labels() (map[string]string, error) {
	labels := map[string]string{}
	for _, l := range s.Labels {
		k, v, _ := strings.Cut(l, "=")
		if k == "" {
			return nil, fmt.Errorf("-l %s: want KEY=VALUE", l)
		}
		if strings.HasPrefix(k, "io.swarmd.") {
			return nil, fmt.Errorf("-l %s: labels io.swarmd.* are ours: name it otherwise", l)
		}
		labels[k] = v
	}
	maps.Copy(labels, s.Assignment)
	maps.Copy(labels, s.ourLabels())
	return labels, nil
}

// ourLabels mark what is ours: containers and volumes.
func (s Spec) ourLabels() map[string]string {
	labels := map[string]string{engine.LabelRole: s.Role, engine.LabelScope: s.Scope}
	for k, v := range map[string]string{engine.LabelNode: s.Node, engine.LabelPlatform: s.Platform, engine.LabelSwarmd: s.Version} {
		if v != "" {
			labels[k] = v
		}
	}
	return labels
}

// hostConfig is the isolation and what the engine does when the component ends.
func (s Spec) hostConfig() (*container.HostConfig, error) {
	pids := int64(pidsLimit)
	if err := s.keepsIsolation(); err != nil {
		return nil, err
	}
	hc := &container.HostConfig{
		AutoRemove: s.Remove, NetworkMode: container.NetworkMode(s.Network), CapDrop: []string{"ALL"},
		SecurityOpt: append([]string{"no-new-privileges"}, s.SecurityOpt...), DNS: s.DNS,
		ReadonlyRootfs: true, Tmpfs: map[string]string{"/tmp": "rw,nosuid,nodev,mode=1777", "/run": "rw,nosuid,nodev"},
		Resources: container.Resources{PidsLimit: &pids},
	}
	if s.EngineSocket {
		// It hands bridge files over to the ML program's user, and writes into the caller's model directory.
		hc.CapAdd = []string{"CHOWN", "DAC_OVERRIDE"}
	}
	if s.BridgeDir != "" && !s.EngineSocket {
		hc.ShmSize = shmSize
	}
	mode, times, limited := strings.Cut(s.Restart, ":")
	policy := container.RestartPolicy{Name: container.RestartPolicyMode(mode)}
	if limited {
		n, err := strconv.Atoi(times)
		if err != nil || n < 0 || mode != "on-failure" {
			return nil, fmt.Errorf("--restart %s: want no, always, unless-stopped or on-failure[:TIMES]", s.Restart)
		}
		policy.MaximumRetryCount = n
	}
	if !slices.Contains([]string{"", "no", "always", "unless-stopped", "on-failure"}, mode) {
		return nil, fmt.Errorf("--restart %s: want no, always, unless-stopped or on-failure[:TIMES]", s.Restart)
	}
	if s.Remove && mode != "" && mode != "no" {
		return nil, fmt.Errorf("--rm and --restart %s: what is removed can't be started again: give one of the two", s.Restart)
	}
	hc.RestartPolicy = policy
	return hc, nil
}

// keepsIsolation refuses security options that open the component's container. It holds the node's key.
func (s Spec) keepsIsolation() error {
	for _, o := range s.SecurityOpt {
		name, value, _ := strings.Cut(strings.Replace(o, ":", "=", 1), "=")
		opens := value == "unconfined" || name == "label" && (value == "disable" || strings.HasSuffix(value, "spc_t")) || strings.HasPrefix(value, "{") || name == "no-new-privileges" && value != "" && value != "true"
		if opens || !slices.Contains([]string{"label", "apparmor", "seccomp", "no-new-privileges"}, name) {
			return fmt.Errorf("--security-opt %s: a component's container is not opened: give label=…, or a profile of apparmor or seccomp; for the program there is --ml-security-opt", o)
		}
	}
	return nil
}

// mounts are those of the component and then the user's, as the engine's mounts, which must exist, and binds, whose missing
// source the engine makes as root; and the variables that belong to them.
func (s Spec) mounts(h host) (mounts []mount.Mount, binds, env []string, err error) {
	switch {
	case s.Stateless && s.Agent != nil && s.Agent.GenJoinToken != nil:
		// For the join token: a volume without a name goes with its container.
		mounts = append(mounts, mount.Mount{Type: mount.TypeVolume, Target: s.stateDir(), VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: s.ourLabels()}})
	case s.Stateless:
	case s.StateDir != "":
		dir, err := filepath.Abs(s.StateDir)
		if err != nil {
			return nil, nil, nil, err
		}
		mounts = append(mounts, mount.Mount{Type: mount.TypeBind, Source: dir, Target: s.stateDir()})
	default:
		mounts = append(mounts, mount.Mount{Type: mount.TypeVolume, Source: StateVolume(s.Scope, s.Node), Target: engine.StateHome})
	}
	if s.Spill {
		mounts = append(mounts, mount.Mount{Type: mount.TypeVolume, Source: SpillVolume(s.Scope, s.Node), Target: engine.SpillDir})
	}
	for _, f := range s.Files {
		p, err := hostPath(f, h)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("bad file: %w", err)
		}
		mounts = append(mounts, bind(p, true))
	}
	if s.SocketPath != "" {
		p, err := hostPath(strings.TrimPrefix(s.SocketPath, "unix://"), h)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("--socket-path: %w: is the SPIFFE agent running?", err)
		}
		// The directory, for the socket is another file when the agent has been started anew.
		mounts = append(mounts, bind(filepath.Dir(p), true))
		env = append(env, "SPIFFE_ENDPOINT_SOCKET=unix://"+p)
	}
	for _, m := range s.Mounts {
		p, err := hostPath(m.Source, h)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("bad path: %w", err)
		}
		mounts = append(mounts, mount.Mount{Type: mount.TypeBind, Source: p, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	if s.BridgeDir != "" && (s.EngineSocket || !strings.HasPrefix(s.BridgeDir, "/dev/shm/")) {
		// A program that runs in this very container finds a directory in the container's own memory.
		// The daemon makes and removes its directory, hence the one above. A bind, since the engine then makes it if it is
		// missing, as root: were it the caller's, the daemon would refuse it.
		binds = append(binds, filepath.Dir(s.BridgeDir)+":"+filepath.Dir(s.BridgeDir))
	}
	if s.EngineSocket {
		m, e, err := engineAccess(h)
		if err != nil {
			return nil, nil, nil, err
		}
		mounts, env = append(mounts, m...), append(env, e...)
	}
	for _, v := range s.Volumes {
		m, err := userMount(v, h)
		if err != nil {
			return nil, nil, nil, err
		}
		mounts = append(mounts, m)
	}
	mounts, err = withoutTwins(mounts)
	return mounts, binds, env, err
}

// engineAccess lets the component reach the engine that the launcher speaks with.
func engineAccess(h host) ([]mount.Mount, []string, error) {
	where := h.getenv("DOCKER_HOST")
	if where == "" {
		where = "unix://" + dockerSocket
	}
	u, err := url.Parse(where)
	if err != nil {
		return nil, nil, fmt.Errorf("DOCKER_HOST %s: %w", where, err)
	}
	if u.Scheme == "unix" {
		source := u.Path
		if there := h.getenv(engineSocket); there != "" && source == dockerSocket {
			source = there
		}
		m := mount.Mount{Type: mount.TypeBind, Source: source, Target: dockerSocket}
		return []mount.Mount{m}, []string{"DOCKER_HOST=unix://" + dockerSocket, engineSocket + "=" + source}, nil
	}
	env := []string{"DOCKER_HOST=" + where}
	var mounts []mount.Mount
	if v := h.getenv("DOCKER_TLS_VERIFY"); v != "" {
		env = append(env, "DOCKER_TLS_VERIFY="+v)
	}
	if certs := h.getenv("DOCKER_CERT_PATH"); certs != "" {
		env, mounts = append(env, "DOCKER_CERT_PATH="+certs), append(mounts, bind(certs, true))
	}
	return mounts, env, nil
}

// userEnv gives a bare K the launcher's own value, or drops it if there is none, as docker run does.
func userEnv(given []string, getenv func(string) string) []string {
	var env []string
	for _, kv := range given {
		if !strings.Contains(kv, "=") {
			v := getenv(kv)
			if v == "" {
				continue
			}
			kv += "=" + v
		}
		env = append(env, kv)
	}
	return env
}
