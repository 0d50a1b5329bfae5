package start

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

// The runtimes of an ML program.
const (
	Process = "process" // beside its daemon
	Docker  = "docker"  // in a container of its own
)

// DefaultLinger is for how long an SL serves the final model to others at most, unless told otherwise.
const DefaultLinger = 10 * Limit(time.Minute)

// SL is a Swarm Learning node with its ML program.
type SL struct {
	Node
	ML            ML
	SNs           []string `option:"sn-ip"`          // HOST[:PORT]
	SNService     string   `option:"sn-api-service"` // FQDN[:PORT] of an SN's API behind a proxy
	FSService     string   `option:"sl-fs-service"`  // FQDN[:PORT] of FSPort behind a proxy
	APIPort       Port     `option:"sn-api-port"`
	FSPort        Port     `option:"sl-fs-port"`
	DataDir       string   `option:"data-dir,host"`
	ModelDir      string   `option:"model-dir,host"`     // "": that of the program
	Program       string   `option:"model-program,host"` // relative to the model directory
	Args          Words    `option:"model-program-args"` // of Program
	Platform      string   `option:"sl-platform"`        // PYT or TF in any case; "": TF
	Python        string   `option:"python"`
	GPUs          string   `option:"gpu"` // 0,2 or all
	Attach        bool     `option:"attach"`
	BridgeDir     string   `option:"bridge-dir,host"`
	MaxModel      Size     `option:"max-model"`
	AllowPeers    []string `option:"allow-peer"` // patterns of SPIFFE IDs
	LogsTo        []string `option:"logs-to"`    // patterns of SPIFFE IDs, or logs.None
	ExpectedPeers int      `option:"expected-peers"`
	// CheckinDefault is one of those that state.ValidCheckin knows, in any case; "": none.
	CheckinDefault string `option:"checkin-default"`
	Waits
	RankOptions
	MinPeersTimeout Limit  `option:"min-peers-timeout"`
	Linger          *Limit `option:"linger"` // nil: DefaultLinger
	SessionTimeout  Limit  `option:"session-timeout"`
	MakeMeAdmin     string `option:"make-me-admin"`
	// Part is what the SL was started for by a host of tasks; zero: it was not.
	Part task.Part `option:"part"`
}

// ML is the ML program's container.
type ML struct {
	Runtime     string   `option:"ml-runtime,host"` // Process or Docker in any case; "": Docker if the SL is a container
	Client      string   `option:"ml-client"`       // see launch.ParseClient
	Image       string   `option:"ml-image"`        // "": that of the platform
	Entrypoint  Words    `option:"ml-entrypoint"`
	Cmd         Words    `option:"ml-cmd"`
	WorkDir     string   `option:"ml-w"`
	Name        string   `option:"ml-name"`
	Volumes     []string `option:"ml-v,host"`
	Env         []string `option:"ml-e,secret"`  // K=V
	User        string   `option:"ml-user,host"` // "": the caller's
	Devices     []string `option:"ml-device"`
	IPC         string   `option:"ml-ipc"`
	ShmSize     Size     `option:"ml-shm-size"`
	GroupAdd    []string `option:"ml-group-add"`
	CapAdd      []string `option:"ml-cap-add"`
	SecurityOpt []string `option:"ml-security-opt"`
	Privileged  bool     `option:"ml-privileged"`
	Network     string   `option:"ml-network"`
	Memory      Size     `option:"ml-memory"`
	CPUs        CPUs     `option:"ml-cpus"`
	Pids        Count    `option:"ml-pids"`
	GPUs        string   `option:"ml-gpus"` // as docker run --gpus takes them
	Hostname    string   `option:"ml-hostname"`
	IP          string   `option:"ml-ip"` // in Network
	DNS         []string `option:"ml-dns"`
	Labels      []string `option:"ml-label"` // K=V
}

// NodeName is the SL's name: the given one, else sl-HOST-PORT.
func (o *SL) NodeName() string { return o.Node.NodeName(naming.RoleSL, o.FSPort.Or(FSPort)) }

// BridgePath returns the SL's bridge directory, given or by default; root says that the daemon runs as root. Scopes must not share one, as they may
// have nodes of one name.
func (o *SL) BridgePath(getenv func(string) string, root bool) string {
	if o.BridgeDir != "" {
		return o.BridgeDir
	}
	home, node := "/dev/shm/swarmd", o.NodeName()
	if !root {
		home = fmt.Sprintf("/dev/shm/swarmd-%d", os.Geteuid())
	}
	if scope := engine.Scope(getenv); scope != engine.DefaultScope {
		node += "@" + scope
	}
	return filepath.Join(home, node)
}

// PlatformName returns PYT or TF, the latter where no platform is given.
func (o *SL) PlatformName() (string, error) {
	switch p := strings.ToUpper(o.Platform); p {
	case "":
		return "TF", nil
	case "PYT", "TF":
		return p, nil
	}
	return "", fmt.Errorf("--sl-platform %s: unsupported platform; want PYT or TF", o.Platform)
}

// MLRuntime returns Process or Docker; own is the SL's own runtime, one of the two, which is the default.
func (o *SL) MLRuntime(own string) (string, error) { return Runtime("ml-runtime", o.ML.Runtime, own) }

// Runtime reads an option that is Process or Docker in any case. otherwise is the value of one that is not given.
func Runtime(option, given, otherwise string) (string, error) {
	switch r := strings.ToLower(given); r {
	case "":
		return otherwise, nil
	case Process, Docker:
		return r, nil
	}
	return "", fmt.Errorf("--%s %s: want process or docker (Podman is docker too: name its socket with DOCKER_HOST)", option, given)
}

// Settle gives what was said by services its place in the other fields: afterwards SNs and Host say where an SN and the node are.
func (o *SL) Settle() (err error) {
	if err := settleSN(&o.SNs, &o.SNService); err != nil {
		return err
	}
	if o.ML.GPUs != "" {
		if o.GPUs != "" {
			return fmt.Errorf("--gpu %s and --ml-gpus %s: give one of the two", o.GPUs, o.ML.GPUs)
		}
		if o.GPUs, err = dockerGPUs(o.ML.GPUs); err != nil {
			return err
		}
		o.ML.GPUs = ""
	}
	if o.FSService != "" {
		o.Host, err = passed("sl-fs-service", o.FSService, &o.FSPort, FSPort, "sl-fs-port")
	}
	return err
}

// Check finds what is wrong with an SL whose program runs in a runtime, but for paths: the first of Problems.
func (o *SL) Check(runtime string) error {
	for _, err := range o.Problems(runtime) {
		return err
	}
	return nil
}

// Problems finds all that is wrong with an SL whose program runs in a runtime, but for paths.
func (o *SL) Problems(runtime string) (all []error) {
	add := func(err error) {
		if err != nil {
			all = append(all, err)
		}
	}
	if strings.Trim(strings.Join(o.SNs, ""), ", ") == "" {
		add(errors.New("mandatory parameter --sn-ip not specified; give the address of an SN"))
	}
	_, err := o.PlatformName()
	add(err)
	client, err := launch.ParseClient(o.ML.Client)
	add(err)
	if err == nil && client == launch.ClientOriginal && o.Attach {
		add(errors.New("--ml-client original is for a program that this node starts: leave out --attach, or start the program by hand with swarmd ml-client -folder=DIR -- COMMAND"))
	}
	add(errors.Join(checkEnv("env", o.Container.Env), checkEnv("ml-e", o.ML.Env), checkEnv("ml-label", o.ML.Labels), checkLabels("ml-label", o.ML.Labels)))
	_, err = gpus(o.GPUs)
	add(err)
	if o.Program == "" && !o.Attach && (runtime == Process || o.ML.Cmd == nil && o.ML.Entrypoint == nil) {
		add(errors.New("mandatory parameter --model-program not specified; name the program in --model-dir, or give --attach to start one by hand"))
	}
	add(o.checkArgs(runtime))
	add(o.checkRanks(runtime))
	return all
}

// checkArgs finds what is wrong with arguments for the program that runs in a runtime.
func (o *SL) checkArgs(runtime string) error {
	switch {
	case len(o.Args) == 0:
		return nil
	case o.Attach:
		return errors.New("--model-program-args: --attach starts no program: give them to the one that you start by hand")
	case runtime == Docker && (o.ML.Cmd != nil || o.ML.Entrypoint != nil):
		return errors.New("--model-program-args: --ml-cmd and --ml-entrypoint replace --model-program: write the arguments into --ml-cmd")
	}
	if err := launch.CheckArgs(o.Args); err != nil {
		return fmt.Errorf("--model-program-args: %w", err)
	}
	return nil
}

// Component is the container of the SL. Its daemon starts the program's container beside itself and therefore gets the paths of this
// host; if the program is to run within it, paths are those of its own container. The paths of this host are checked.
func (o *SL) Component(env Env) (component.Spec, error) {
	runtime, err := o.MLRuntime(Docker)
	if err == nil {
		err = CheckRanksPlace(o)
	}
	if err == nil {
		err = o.Check(runtime)
	}
	if err != nil {
		return component.Spec{}, err
	}
	s, err := o.component(naming.RoleSL, o.NodeName(), o, env)
	if err != nil {
		return s, err
	}
	s.Ports = []component.Port{{Number: int(o.FSPort.Or(FSPort))}}
	s.Platform, _ = o.PlatformName()
	s.EngineSocket = runtime == Docker && !o.Attach
	s.Spill = s.EngineSocket
	if err := o.identify(&s, env); err != nil {
		return s, err
	}
	if s.BridgeDir, err = filepath.Abs(o.BridgePath(env.Getenv, true)); err != nil {
		return s, err
	}
	s.Args = append(s.Args, "--bridge-dir="+s.BridgeDir, "--ml-runtime="+runtime)
	for _, kv := range s.Env {
		k, _, _ := strings.Cut(kv, "=")
		s.Args = append(s.Args, "--env="+k) // see Reveal
	}
	if o.Attach {
		return s, nil
	}
	if s.EngineSocket {
		if _, err := o.MLContainer(env); err != nil {
			return s, err
		}
	}
	return s, o.bringProgram(&s, env)
}

// Run starts the SL's container and, by its daemon, the program's, which it tries first. It blocks, returns and explains errors as
// component.Run does.
func (o *SL) Run(ctx context.Context, e *engine.Engine, env Env, user component.IO) (exit int, err error) {
	s, err := o.Component(env)
	if err != nil {
		return 0, err
	}
	if s.EngineSocket {
		ml, err := o.MLContainer(env)
		if err != nil {
			return 0, err
		}
		if err := container.New(e, user.Log).Check(ctx, *ml); err != nil {
			return 0, err
		}
	}
	return component.Run(ctx, e, s, user)
}

// bringProgram gives the component what it needs of this host to run the program.
func (o *SL) bringProgram(s *component.Spec, env Env) error {
	p, err := o.paths(env)
	if err == nil && env.contained() { // else MLContainer sees to it, with the host's files
		err = o.keepIdentity(p)
	}
	if err != nil {
		return err
	}
	if p.model != "" {
		s.Mounts = append(s.Mounts, component.Mount{Source: p.model, Target: engine.ModelDir})
	}
	if s.EngineSocket {
		user, err := mlUser(o.ML.User, Caller(env.Getenv))
		if err != nil {
			return err
		}
		s.Args = append(s.Args, "--ml-user="+user)
		for _, m := range p.mounts {
			s.Args = append(s.Args, "--ml-v="+m)
		}
	} else {
		if p.data != "" {
			s.Mounts = append(s.Mounts, component.Mount{Source: p.data, Target: engine.DataDir, ReadOnly: true})
		}
		p.data, p.model = Inside(p.data, engine.DataDir), Inside(p.model, engine.ModelDir)
	}
	for _, kv := range [][2]string{{"data-dir", p.data}, {"model-dir", p.model}, {"model-program", p.program}} {
		if kv[1] != "" {
			s.Args = append(s.Args, "--"+strings.Join(kv[:], "="))
		}
	}
	return nil
}

// ProcessEnv are the variables of a program without a container of its own: its GPUs, and what the user says.
func (o *SL) ProcessEnv() []string {
	gpu, err := gpus(o.GPUs)
	var env []string
	switch {
	case err != nil || gpu == "":
	case gpu == "all":
		env = []string{"NVIDIA_VISIBLE_DEVICES=all"}
	default:
		env = []string{"CUDA_VISIBLE_DEVICES=" + gpu, "NVIDIA_VISIBLE_DEVICES=" + gpu}
	}
	return slices.Concat(env, o.Container.Env, o.ML.Env)
}

// Inside is where a directory of the host, if there is one, lies in the container.
func Inside(host, target string) string {
	if host == "" {
		return ""
	}
	return target
}
