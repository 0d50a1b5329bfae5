package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/launch/sudo"
	"github.com/swarmd/swarmd/internal/version"
)

// environment is an Env of variables and nothing else.
func environment(vars map[string]string) Env {
	e := Env{Stdout: io.Discard, Stderr: io.Discard, Getenv: func(k string) string { return vars[k] }, Environ: func() []string { return nil }}
	e.Sudo = sudo.OS()
	return e
}

// parse reads a command line with the real tables and gives its context to use, in place of the command.
func parse(t *testing.T, e Env, args []string, use func(*cli.Context) error) error {
	t.Helper()
	app := newApp(e)
	for _, c := range app.Commands {
		c.Action = use
	}
	args, err := normalise(app, append([]string{"swarmd"}, args...), e)
	if err != nil {
		return err
	}
	if args, err = withFile(app, args, e); err != nil {
		return err
	}
	// urfave reads variables of the process itself.
	return app.RunContext(context.WithoutCancel(t.Context()), args)
}

// translated is what a start command becomes.
func translated(t *testing.T, e Env, args ...string) (component.Spec, error) {
	t.Helper()
	var spec component.Spec
	err := parse(t, e, append(args, "--runtime=docker"), func(c *cli.Context) (err error) {
		switch c.Command.Name {
		case "run-sn":
			spec, err = snSpec(c, e)
		case "run-sl":
			spec, err = slSpec(c, e)
		case "run-swop":
			var o *start.SWOP
			if o, _, err = swopNode(c, e); err == nil {
				spec, err = o.Component(startEnv(e))
			}
		case "run-spire-server":
			var o start.SpireServer
			if err = read(c, &o); err == nil {
				spec, err = o.Component(startEnv(e))
			}
		default:
			t.Fatalf("no component: %s", c.Command.Name)
		}
		return err
	})
	return spec, err
}

// hostDirs is a host with the files that the tables name, and the process's working directory.
func hostDirs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"data", "model", "certs", "extra"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"model/train.py", "agent.conf", "server.conf", "certs/c.pem", "certs/k.pem", "certs/ca.pem", "bundle.pem", "agent.sock"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	return dir
}

// TestOriginalsOptions compares containers with what the scripts of v0.3 make of the same options: names, ports, mounts,
// variables. D stands for the working directory.
func TestOriginalsOptions(t *testing.T) {
	dir := hostDirs(t)
	docker := "--name n1 --network net1 -l a=b --label c=d=e -p 8081:8081 --publish 9:9/udp -u 1000:1000 -v ./extra:/x -w /w --rm -d -e A=1,2 --env B=-x"
	options := component.Options{
		Name: "n1", Network: "net1", Labels: []string{"a=b", "c=d=e"}, Publish: []string{"8081:8081", "9:9/udp"}, User: "1000:1000",
		Volumes: []string{"./extra:/x"}, WorkDir: "/w", Remove: true, Detach: true, Env: []string{"A=1,2", "B=-x"},
	}
	ours := []string{"SWARM_IN_CONTAINER=1"}
	for name, tt := range map[string]struct {
		args string
		want component.Spec
	}{
		"spire server": {
			"run-spire-server -config server.conf -logLevel=DEBUG --node sl/a " + docker,
			component.Spec{
				Options: options, Role: "spire-server", Node: "n1", Files: []string{"D/server.conf"},
				Args: []string{"run-spire-server", "--runtime=process", "--config=D/server.conf", "--node=sl/a", "--name=n1", "--log-level=DEBUG"},
			},
		},
		"spire server alone": {
			"run-spire-server --hostname h -it --image own:1 --restart on-failure:3 --state-dir state",
			component.Spec{
				Options: component.Options{Hostname: "h", Interactive: true, TTY: true, Image: "own:1", Restart: "on-failure:3"},
				Role:    "spire-server", Node: "spire-server", StateDir: "D/state", Args: []string{"run-spire-server", "--runtime=process"},
			},
		},
		"sentinel": {
			"run-sn --host-ip=sn1 --sentinel-ip=sn1 --apls-ip a --apls-port 5814 --apls-docker-name apls -serverAddress spire " + docker,
			component.Spec{
				Options: options, Role: "sn", Node: "n1", HostIP: "sn1", Ports: []component.Port{{Number: 30303}, {Number: 30304}, {Number: 30305}},
				Args: []string{
					"run-sn", "--runtime=process", "--name=n1", "--host-ip=sn1",
					"--serverAddress=spire", "--sentinel-ip=sn1",
				},
				Agent: &spire.AgentConfig{ServerAddress: "spire", Role: "sn", NodeName: "n1"},
			},
		},
		"sn with ports and agent's configuration": {
			"run-sn --host-ip 10.0.0.2 --sentinel-ip 10.0.0.1 --sn-p2p-port 10000 --sn-api-port=10001 --sn-fs-port 10002 --sentinel-fs-port 10003 -config agent.conf -joinToken T -trustBundle=bundle.pem -insecureBootstrap",
			component.Spec{
				Role: "sn", Node: "sn-10.0.0.2-10000", HostIP: "10.0.0.2", Ports: []component.Port{{Number: 10000}, {Number: 10001}, {Number: 10002}},
				Files: []string{"D/agent.conf", "D/bundle.pem"}, Vars: []string{"SWARM_SPIRE_JOIN_TOKEN=T"},
				Args: []string{
					"run-sn", "--runtime=process", "--host-ip=10.0.0.2", "--config=D/agent.conf", "--insecureBootstrap=true",
					"--trustBundle=D/bundle.pem", "--sentinel-ip=10.0.0.1", "--sn-p2p-port=10000", "--sn-api-port=10001", "--sn-fs-port=10002", "--sentinel-fs-port=10003",
				},
				Agent: &spire.AgentConfig{
					ConfigFile: "agent.conf", JoinToken: "T", Role: "sn", Args: []string{"-insecureBootstrap=true", "-trustBundle=bundle.pem"},
				},
			},
		},
		"sn with files": {
			"run-sn --host-ip h --sentinel-ip h --cert certs/c.pem --key certs/k.pem --cacert certs/ca.pem --capath certs --name sn-1",
			component.Spec{
				Options: component.Options{Name: "sn-1"}, Role: "sn", Node: "sn-1", HostIP: "h", Ports: []component.Port{{Number: 30303}, {Number: 30304}, {Number: 30305}},
				Files: []string{"D/certs/c.pem", "D/certs/k.pem", "D/certs/ca.pem", "D/certs"},
				Args: []string{
					"run-sn", "--runtime=process", "--name=sn-1", "--host-ip=h", "--cert=D/certs/c.pem", "--key=D/certs/k.pem", "--cacert=D/certs/ca.pem",
					"--capath=D/certs", "--sentinel-ip=h",
				},
			},
		},
		"sl": {
			"run-sl --host-ip=sl1 --sn-ip=sn1 --sn-api-port=10001 --sl-fs-port=16000 --data-dir=data --model-dir=./model --model-program=train.py --sl-platform pYt --gpu=0,3 -socketPath /own.sock -serverAddress spire -genJoinToken --spire-docker-name spire --ssh-user u --ssh-port 22 --ml-user 7:8 --ml-v ./extra:/x:ro --ml-memory 8g " + docker,
			component.Spec{
				Options: options, Role: "sl", Node: "n1", Platform: "PYT", HostIP: "sl1", Ports: []component.Port{{Number: 16000}},
				Mounts: []component.Mount{{Source: "D/model", Target: "/platform/swarmml/model"}}, BridgeDir: "/dev/shm/swarmd/n1", Spill: true, EngineSocket: true,
				Args: []string{
					"run-sl", "--runtime=process", "--name=n1", "--host-ip=sl1", "--serverAddress=spire", "--socketPath=/own.sock", "--gen-join-token=true",
					"--ml-memory=8g", "--sn-ip=sn1", "--sn-api-port=10001", "--sl-fs-port=16000", "--sl-platform=pYt", "--gpu=0,3",
					"--bridge-dir=/dev/shm/swarmd/n1", "--ml-runtime=docker", "--env=A", "--env=B", "--ml-user=7:8", "--ml-v=D/extra:/x:ro",
					"--data-dir=D/data", "--model-dir=D/model", "--model-program=train.py",
				},
				Agent: &spire.AgentConfig{
					ServerAddress: "spire", Role: "sl", NodeName: "n1", Args: []string{"-socketPath=/own.sock"},
					GenJoinToken: &spire.TokenSource{Docker: "spire", SSHUser: "u", SSHPort: 22, ServerAddress: "spire", Socket: spire.DefaultServerSocket},
				},
			},
		},
		"sl with a program and no model directory": {
			"run-sl --host-ip sl1 --sn-ip sn1 --socket-path agent.sock --model-program model/train.py --ml-user 7:8 --name sl-1",
			component.Spec{
				Options: component.Options{Name: "sl-1"}, Role: "sl", Node: "sl-1", Platform: "TF", HostIP: "sl1", Ports: []component.Port{{Number: 30305}},
				SocketPath: "D/agent.sock", Mounts: []component.Mount{{Source: "D/model", Target: "/platform/swarmml/model"}},
				BridgeDir: "/dev/shm/swarmd/sl-1", Spill: true, EngineSocket: true,
				Args: []string{
					"run-sl", "--runtime=process", "--name=sl-1", "--host-ip=sl1", "--sn-ip=sn1", "--socket-path=D/agent.sock", "--bridge-dir=/dev/shm/swarmd/sl-1",
					"--ml-runtime=docker", "--ml-user=7:8", "--model-dir=D/model", "--model-program=train.py",
				},
			},
		},
		"sl with the program in it": {
			"run-sl --host-ip sl1 --sn-ip sn1 --socket-path agent.sock --model-dir model --data-dir data --model-program train.py --ml-runtime process --name sl-1",
			component.Spec{
				Options: component.Options{Name: "sl-1"}, Role: "sl", Node: "sl-1", Platform: "TF", HostIP: "sl1", Ports: []component.Port{{Number: 30305}},
				SocketPath: "D/agent.sock", BridgeDir: "/dev/shm/swarmd/sl-1",
				Mounts: []component.Mount{
					{Source: "D/model", Target: "/platform/swarmml/model"},
					{Source: "D/data", Target: "/platform/swarmml/data", ReadOnly: true},
				},
				Args: []string{
					"run-sl", "--runtime=process", "--name=sl-1", "--host-ip=sl1", "--sn-ip=sn1", "--socket-path=D/agent.sock", "--bridge-dir=/dev/shm/swarmd/sl-1",
					"--ml-runtime=process", "--data-dir=/platform/swarmml/data", "--model-dir=/platform/swarmml/model", "--model-program=train.py",
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := translated(t, environment(map[string]string{"HOME": dir}), strings.Fields(tt.args)...)
			if err != nil {
				t.Fatal(err)
			}
			want := tt.want
			want.Scope, want.Version, want.Vars = "default", version.Read().Version, slices.Concat(ours, want.Vars)
			for _, paths := range [][]string{want.Files, want.Args, {want.StateDir, want.SocketPath}} {
				for i := range paths {
					paths[i] = strings.ReplaceAll(paths[i], "D/", dir+"/")
				}
			}
			want.StateDir, want.SocketPath = strings.ReplaceAll(want.StateDir, "D/", dir+"/"), strings.ReplaceAll(want.SocketPath, "D/", dir+"/")
			for i := range want.Mounts {
				want.Mounts[i].Source = strings.ReplaceAll(want.Mounts[i].Source, "D/", dir+"/")
			}
			if diff := cmp.Diff(got, want, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(spire.TokenSource{}, "Exec", "Wait")); diff != "" {
				t.Errorf("(-got +want)\n%s", diff)
			}
		})
	}
}

// TestAuthoritysOwner holds that who reaches an authority's socket is its owner, and that an SL with the engine's socket
// runs as the user that the component package chooses for it.
func TestAuthoritysOwner(t *testing.T) {
	dir := hostDirs(t)
	authority := filepath.Join(dir, "authority")
	if err := os.Mkdir(authority, 0o755); err != nil {
		t.Fatal(err)
	}
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		uid, gid = 1234, 567
	}
	for _, name := range []string{"sn.sock", "sl.sock"} {
		name = filepath.Join(authority, name)
		if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Chown(name, uid, gid)); err != nil {
			t.Fatal(err)
		}
	}
	owner := fmt.Sprintf("%d:%d", uid, gid)
	sl := "run-sl --host-ip h --sn-ip s --model-dir model --model-program train.py --identity embedded=" + authority
	for args, want := range map[string]string{
		"run-sn --host-ip h --sentinel-ip h --identity embedded=" + authority: owner,
		sl:                           "",
		sl + " -u 7:8":               "7:8",
		sl + " --ml-runtime process": owner,
		sl + " --attach":             owner,
	} {
		s, err := translated(t, environment(map[string]string{"HOME": dir}), strings.Fields(args)...)
		if err != nil || s.User != want {
			t.Errorf("%s: user %q, %v; want %q", args, s.User, err, want)
		}
	}
}

// TestAnImagesOwnCommandNeedsNoPlatform: nobody has said which framework it needs, so that none is looked for.
func TestAnImagesOwnCommandNeedsNoPlatform(t *testing.T) {
	dir := hostDirs(t)
	for more, want := range map[string]string{
		"--ml-entrypoint python3": "", "--ml-entrypoint python3 --sl-platform pyt": "PYT", "--model-dir model --model-program train.py": "TF",
	} {
		e := environment(map[string]string{"HOME": dir})
		args := append(strings.Fields("run-sl --runtime process --ml-runtime docker --host-ip h --sn-ip s --socket-path agent.sock --name sl-1 --ml-image i"), strings.Fields(more)...)
		err := parse(t, e, args, func(c *cli.Context) error {
			cfg, err := slConfig(c, e)
			if cfg.Platform != want {
				t.Errorf("%s: platform %q, want %q", more, cfg.Platform, want)
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", more, err)
		}
	}
}

// TestDaemonUnderstandsItsLauncher reads the arguments of the SL's container as the daemon in it does: the ML program's
// container is what the user asked for.
func TestDaemonUnderstandsItsLauncher(t *testing.T) {
	dir := hostDirs(t)
	none := map[string]string{"HOME": dir}
	outer, err := translated(t, environment(none), "run-sl", "--host-ip", "sl1", "--sn-ip", "sn1", "--socket-path", "agent.sock", "--name", "sl-1",
		"--data-dir", "data", "--model-dir", "model", "--sl-platform", "pyt", "--gpu", "ALL", "--ml-entrypoint", "python3", "--ml-cmd", `-u "my prog.py" --lr=0.1`,
		"--ml-w", "/work", "--ml-name", "ml1", "--ml-v", "extra:/x", "--ml-v", "./extra:/y:ro", "--ml-e", "C=3", "-e", "A=1,2", "-e", "SWARM_LOG_LEVEL=debug", "-e", "SWARM_LOOPBACK=true",
		"--ml-user", "1000:1000", "--ml-device", "/dev/kfd", "--ml-device", "/dev/dri", "--ml-ipc", "host", "--ml-shm-size", "8g", "--ml-group-add", "video",
		"--ml-cap-add", "SYS_PTRACE", "--ml-security-opt", "seccomp=unconfined", "--ml-privileged", "--ml-network", "lab", "--ml-memory", "512m", "--ml-cpus", "1.5", "--ml-pids", "100",
		"--expected-peers", "2", "--max-model", "2g", "--linger", "1m")
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{"SWARM_SCOPE": "lab"}
	for _, kv := range slices.Concat(outer.Vars, outer.Env) {
		k, v, _ := strings.Cut(kv, "=")
		vars[k] = v
	}
	inner := environment(vars)
	t.Chdir("/") // what is relative to the host's directory is wrong there
	err = parse(t, inner, outer.Args, func(c *cli.Context) error {
		cfg, err := slConfig(c, inner)
		if err != nil {
			return err
		}
		want := &container.Spec{
			Node: "sl-1", Platform: "PYT", Scope: "lab", Name: "ml1", Image: "swarm-ml-pyt:latest", Entrypoint: []string{"python3"},
			Cmd: []string{"-u", "my prog.py", "--lr=0.1"}, WorkDir: "/work", Env: []string{"A=1,2", "SWARM_LOOPBACK=true", "C=3"},
			DataDir: dir + "/data", ModelDir: dir + "/model", BridgeDir: "/dev/shm/swarmd/sl-1", Spill: "swarmd-lab-sl-1-spill",
			Mounts: []string{"extra:/x", dir + "/extra:/y:ro"}, User: "1000:1000", GPUs: "all", Network: "lab", Memory: 512 << 20, CPUs: 1.5, Pids: 100, ShmSize: 8 << 30,
			Devices: []string{"/dev/kfd", "/dev/dri"}, GroupAdd: []string{"video"}, CapAdd: []string{"SYS_PTRACE"}, SecurityOpt: []string{"seccomp=unconfined"},
			IPC: "host", Privileged: true,
		}
		if cfg.MaxModel != 2<<30 {
			t.Errorf("the largest model has %d bytes", cfg.MaxModel)
		}
		if diff := cmp.Diff(cfg.ML, want); diff != "" {
			t.Errorf("(-got +want)\n%s", diff)
		}
		if cfg.ModelDir != "/platform/swarmml/model" || cfg.SpillDir != "/platform/swarmml/spill" || cfg.BridgeDir != "/dev/shm/swarmd/sl-1" {
			t.Errorf("this process's paths: %q %q %q", cfg.ModelDir, cfg.SpillDir, cfg.BridgeDir)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestScopesKeepApart holds that two scopes may have nodes of one name.
func TestScopesKeepApart(t *testing.T) {
	dir := hostDirs(t)
	args := strings.Fields("run-sl --host-ip h --sn-ip s --socket-path agent.sock --name sl-1 --model-dir model --model-program train.py")
	s, err := translated(t, environment(map[string]string{"HOME": dir, "SWARM_SCOPE": "lab"}), args...)
	if err != nil || s.Scope != "lab" || s.BridgeDir != "/dev/shm/swarmd/sl-1@lab" || !slices.Contains(s.Args, "--bridge-dir="+s.BridgeDir) {
		t.Errorf("%v: scope %s, bridge %s, %v", err, s.Scope, s.BridgeDir, s.Args)
	}
}

// TestEveryOptionHasAPlace holds that an option of a start command which names something of this host is not handed to a
// container that can't see it.
func TestEveryOptionHasAPlace(t *testing.T) {
	words := []string{"FILE", "directory", "socket", "path"}
	inside := map[string]bool{ // paths in the container, or of nothing at all
		"dataDir": true, "socketPath": true, "trustBundleFormat": true, "capath": true, "cert-roles": true, "ml-w": true, "ml-ipc": true, "logFile": true, "expandEnv": true, "rank-volume": true,
	}
	app := newApp(environment(nil))
	for _, c := range app.Commands {
		places := map[string]map[string]start.Place{"run-sn": start.Places(&start.SN{}), "run-sl": start.Places(&start.SL{}), "run-swop": start.Places(&start.SWOP{}), "run-spire-server": start.Places(&start.SpireServer{})}[c.Name]
		if places == nil {
			continue
		}
		for _, f := range c.Flags {
			name := f.Names()[0]
			place, known := places[name]
			switch name {
			case "runtime", "config-file", "sudo": // the command's own
				known, place = true, start.Launcher
			}
			if !known {
				t.Errorf("%s --%s is no option of internal/launch/start", c.Name, name)
			}
			delete(places, name)
			doc, ok := f.(cli.DocGenerationFlag)
			if !ok || inside[name] || place != start.Onward {
				continue
			}
			for _, w := range words {
				if strings.Contains(doc.GetUsage(), w) {
					t.Errorf("%s --%s (%s) goes into the container as it is", c.Name, name, doc.GetUsage())
				}
			}
		}
		for name := range places {
			t.Errorf("%s has no option --%s", c.Name, name)
		}
	}
}

// TestRefusedBeforeAnythingIsMade holds that mistakes are found on the host, in words that name the option and a remedy.
func TestRefusedBeforeAnythingIsMade(t *testing.T) {
	hostDirs(t)
	sl := "run-sl --host-ip h --sn-ip s --socket-path agent.sock --model-dir model --model-program train.py "
	sn := "run-sn --host-ip h --sentinel-ip h --socket-path agent.sock "
	for args, want := range map[string]string{
		"run-sl --sn-ip s":   "mandatory parameter --host-ip not specified; ",
		"run-sn --host-ip h": "no identity: give --socket-path",
		"run-sl --host-ip h --sn-ip s --socket-path agent.sock": "mandatory parameter --model-program not specified; ",
		"run-sl --host-ip h --socket-path agent.sock":           "mandatory parameter --sn-ip not specified; ",
		"run-sn --host-ip h --socket-path agent.sock":           "mandatory parameter --sentinel-ip not specified; ",
		sl + "--data-dir /none":                                 "--data-dir: /none: bad path: it does not exist; name a directory of this host",
		sl + "--data-dir agent.conf":                            "--data-dir: agent.conf: bad path: it is a file; ",
		"run-sl --host-ip h --sn-ip s --socket-path agent.sock --model-dir none --model-program train.py":          "--model-dir: none: bad path: it does not exist; ",
		"run-sl --host-ip h --sn-ip s --socket-path agent.sock --model-dir model --model-program none.py":          "--model-program: ",
		"run-sl --host-ip h --sn-ip s --socket-path agent.sock --model-dir model --model-program ../data/train.py": "leads out of the model directory",
		"run-sl --host-ip h --sn-ip s --socket-path agent.sock --model-program none.py":                            "--model-program: none.py: bad file: it does not exist; ",
		sl + "--sl-platform JAX":                 "--sl-platform JAX: unsupported platform; want PYT or TF",
		sl + "--gpu 0;1":                         "--gpu 0;1: want all, or indexes from 0 on such as 0,2",
		sl + "--gpu 1,0,1":                       "--gpu 1,0,1: 1 is named twice",
		sl + "--gpu all,1":                       "--gpu all,1: want all",
		sl + "--ml-v none/x:/x":                  "--ml-v: none/x:/x: bad mount: it does not exist; create none/x or",
		sl + "--ml-v /tmp":                       "--ml-v: /tmp: bad mount: want HOST-PATH:CONTAINER-PATH",
		sl + "--ml-v /tmp:x":                     "must begin with /",
		sl + "--ml-v /tmp:/x:rx":                 "want :ro or :rw, not :rx",
		sl + "--max-model 8x":                    "--max-model 8x: want a size such as 512m or 8g",
		sl + "--ml-memory 8x":                    "--ml-memory 8x: want a size such as 512m or 8g",
		sl + "--ml-memory 512":                   "--ml-memory 512: engines take 6m at least",
		sl + "--ml-cpus none":                    "--ml-cpus none: want a number",
		sl + "--ml-cpus NaN":                     "--ml-cpus NaN: want a number",
		sl + "--ml-pids 0":                       "--ml-pids 0: want 1 or more",
		sl + "--ml-user nobody-knows":            "--ml-user nobody-knows: there is no user nobody-knows on this host; want UID:GID",
		sl + "--ml-user 4000000000":              "--ml-user 4000000000: ",
		sl + "--ml-user 123456":                  "--ml-user 123456: user 123456 is unknown on this host and so is its group",
		sl + "--ml-cmd 'x":                       "--ml-cmd 'x: a quote is not closed",
		sl + "--model-program-args 'x":           "--model-program-args 'x: a quote is not closed",
		sl + "--ml-cmd x --model-program-args x": "--model-program-args: --ml-cmd and --ml-entrypoint replace --model-program: ",
		sl + "--ml-runtime process --ml-cmd x":   "--ml-cmd is for the ML program's container and this is --ml-runtime process: name the program with --model-program, its arguments with --model-program-args, or ",
		sl + "--ml-e A":                          "--ml-e A: want K=V",
		sl + "--ml-name x/y":                     "--ml-name x/y: no name for a container",
		sl + "--ml-foo x":                        "--ml-foo is an unsupported option; ",
		sl + "--ml-immage x":                     "--ml-immage is an unsupported option; did you mean --ml-image?",
		sl + "--ml-runtime podman":               "--ml-runtime podman: want process or docker",
		sl + "--ml-runtime process --ml-image x": "--ml-image is for the ML program's container and this is --ml-runtime process",
		sl + "-e A":                              "--env A: want K=V",
		sl + "--python /usr/bin/python3":         "--python is for a program that runs as a process and this is --ml-runtime docker: ",
		sl + "--sn-ip s:0":                       "--sn-ip s:0: neither an address nor a host name: want HOST or HOST:PORT",
		sl + "--sn-ip 10.0.0.300":                "--sn-ip 10.0.0.300: neither an address nor a host name: ",
		sl + "--sn-ip 10.0.0.1,,a/b":             "--sn-ip a/b: neither an address nor a host name: ",
		sl + "--sn-api-port 0":                   "--sn-api-port 0: want a port from 1 to 65535",
		sn + "--sentinel-ip 10.0.0.300":          "--sentinel-ip 10.0.0.300: neither an address nor a host name: ",
		sn + "--admit anyone":                    "--admit \"anyone\": want operator, or leave it out",
		sn + "--join s:0":                        "--join s:0: want HOST or HOST:PORT",
		sl + "--name a/b":                        "--name: ",
		sn + "-l io.swarmd.role=x":               "--label io.swarmd.role=x: labels that begin with io.swarmd. are swarmd's own",
		sn + "--sn-p2p-port 0":                   "--sn-p2p-port 0: want a port from 1 to 65535",
		sn + "--sn-fs-port 70000":                "--sn-fs-port 70000: want a port",
		sn + "-p":                                "-p: missing argument",
		sn + "--cert certs/none.pem":             "give one of the two",
		"run-sn --host-ip h --sentinel-ip h --cert certs/none.pem --key k": "--cert: certs/none.pem: bad file: it does not exist; name a file of this host",
		"run-sn --host-ip h --sentinel-ip h -config none.conf":             "--config: none.conf: bad file: ",
		"run-sn --host-ip h --sentinel-ip h --identity embedded=/none":     "start the authority first: swarmd run-authority",
		"run-spire-server -config none.conf":                               "--config: none.conf: bad file: it does not exist; ",
	} {
		t.Run(args, func(t *testing.T) {
			spec, err := translated(t, environment(nil), strings.Fields(args)...)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, %+v; want one line with %q", err, spec, want)
			}
		})
	}
}
