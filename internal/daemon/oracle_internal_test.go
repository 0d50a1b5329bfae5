package daemon

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
)

// dockerRun is what matters of a `docker run`: what the world sees of the container, and what the container sees of the host.
type dockerRun struct {
	Name, Hostname, Network, User, WorkDir string
	Detach, Interactive, TTY, Remove       bool
	HostPorts, Mounts, Env, Labels         []string
}

// readDocker reads a docker command as the original's scripts write it. Of ports only the host's side is compared: inside,
// ours are the same as outside.
func readDocker(t *testing.T, text string) dockerRun {
	t.Helper()
	var d dockerRun
	words := strings.Fields(text)
	for i := 0; i < len(words); i++ {
		value := func() string { i++; return words[i] }
		switch words[i] {
		case "--name":
			d.Name = value()
		case "--hostname":
			d.Hostname = value()
		case "--net":
			d.Network = value()
		case "-u":
			d.User = value()
		case "-w":
			d.WorkDir = value()
		case "-d":
			d.Detach = true
		case "-it":
			d.Interactive, d.TTY = true, true
		case "--rm":
			d.Remove = true
		case "-p":
			host, _, _ := strings.Cut(value(), ":")
			d.HostPorts = append(d.HostPorts, host)
		case "-v":
			d.Mounts = append(d.Mounts, value())
		case "-e":
			d.Env = append(d.Env, value())
		case "-l":
			d.Labels = append(d.Labels, value())
		default:
			t.Fatalf("%q in %q", words[i], text)
		}
	}
	return d.sorted()
}

func (d dockerRun) sorted() dockerRun {
	for _, list := range [][]string{d.HostPorts, d.Mounts, d.Env, d.Labels} {
		slices.Sort(list)
	}
	return d
}

// ours is what a command line of ours makes, with the ML program's container where there is one: its mounts, and its
// variables that the component does not have.
func ours(t *testing.T, dir string, args []string) dockerRun {
	t.Helper()
	e := environment(map[string]string{"HOME": dir})
	s, err := translated(t, e, args...)
	if err != nil {
		t.Fatal(err)
	}
	o := s.Terminal(false)
	d := dockerRun{
		Name: o.Name, Hostname: o.Hostname, Network: o.Network, User: o.User, WorkDir: o.WorkDir, Detach: o.Detach, Interactive: o.Interactive,
		TTY: o.TTY, Remove: o.Remove, Env: o.Env, Labels: o.Labels,
	}
	if d.Hostname == "" {
		d.Hostname = o.Name // which internal/launch/component sees to
	}
	for _, p := range s.Ports {
		d.HostPorts = append(d.HostPorts, strconv.Itoa(p.Number))
	}
	for _, p := range o.Publish {
		host, _, _ := strings.Cut(p, ":")
		d.HostPorts = append(d.HostPorts, host)
	}
	for _, f := range s.Files {
		d.Mounts = append(d.Mounts, f+":CONF:ro") // at its own path, the original's at one of its image
	}
	d.Mounts = append(d.Mounts, o.Volumes...)
	if s.Role != "sl" {
		return d.sorted()
	}
	vars := map[string]string{}
	for _, kv := range slices.Concat(s.Vars, o.Env) {
		k, v, _ := strings.Cut(kv, "=")
		vars[k] = v
	}
	inner := environment(vars)
	err = parse(t, inner, s.Args, func(c *cli.Context) error {
		cfg, err := slConfig(c, inner)
		if err != nil {
			return err
		}
		if cfg.ML.DataDir != "" {
			d.Mounts = append(d.Mounts, cfg.ML.DataDir+":/platform/swarmml/data:ro")
		}
		d.Mounts = append(d.Mounts, cfg.ML.ModelDir+":/platform/swarmml/model")
		for _, kv := range o.Env { // the original's program saw the container's variables
			if !slices.Contains(cfg.ML.Env, kv) {
				t.Errorf("the program lacks %s", kv)
			}
		}
		if cfg.ML.GPUs != "" {
			d.Env = append(d.Env, "NVIDIA_VISIBLE_DEVICES="+cfg.ML.GPUs)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return d.sorted()
}

// TestOracle compares our containers with those of the scripts of release 0.3, option by option, as far as the world outside
// of them is concerned. D is the working directory. Ports are those of a --host-ip that is this host.
func TestOracle(t *testing.T) {
	dir := hostDirs(t)
	sn, sl := "run-sn --host-ip h --sentinel-ip h -serverAddress s ", "run-sl --host-ip h --sn-ip s -serverAddress s --model-dir model --model-program train.py --ml-user 1:1 "
	snPorts, slPorts := "-p 30303:30303 -p 30304:30304 -p 30305:30305 ", "-p 30305:30305 -v D/model:/platform/swarmml/model "
	for args, docker := range map[string]string{
		"run-spire-server": "-d",
		"run-spire-server -config server.conf -logLevel x":  "-d -v D/server.conf:CONF:ro",
		"run-spire-server -p 8081:8081 --name sp -it --rm":  "-p 8081:8081 --name sp --hostname sp -it --rm",
		"run-spire-server --publish=8443:8443 --hostname h": "-d -p 8443:8443 --hostname h",
		sn:                              "-d " + snPorts,
		sn + "--name n1":                "-d --name n1 --hostname n1 " + snPorts,
		sn + "--name=n1 --hostname=h1":  "-d --name n1 --hostname h1 " + snPorts,
		sn + "--net n --rm --detach":    "-d --net n --rm " + snPorts,
		sn + "--network=n -u 1:2 -w /w": "-d --net n -u 1:2 -w /w " + snPorts,
		sn + "-i -t":                    "-it " + snPorts,
		sn + "-l a=b --label c=d -e A=1 --env B=-2 -e C=x,y":              "-d -l a=b -l c=d -e A=1 -e B=-2 -e C=x,y " + snPorts,
		sn + "-v D/extra:/x --volume D/data:/y":                           "-d -v D/extra:/x -v D/data:/y " + snPorts,
		sn + "--sn-p2p-port 10000 --sn-api-port=10001 --sn-fs-port 10002": "-d -p 10000:30303 -p 10001:10001 -p 10002:30305",
		sn + "--sentinel-fs-port 99 --apls-ip a --apls-port 1":            "-d " + snPorts,
		sn + "-genJoinToken --spire-docker-name x":                        "-d " + snPorts,
		sn + "-config agent.conf -p 9999:9999":                            "-d -v D/agent.conf:CONF:ro -p 9999:9999 " + snPorts,
		sl:                                                                "-d " + slPorts,
		sl + "--data-dir=data":                                            "-d -v D/data:/platform/swarmml/data:ro " + slPorts,
		sl + "--sl-fs-port 16000 --name sl-1":                             "-d --name sl-1 --hostname sl-1 -p 16000:30305 -v D/model:/platform/swarmml/model",
		sl + "--gpu 0,2 --sl-platform pyt":                                "-d -e NVIDIA_VISIBLE_DEVICES=0,2 " + slPorts,
		sl + "--gpu=ALL --sl-platform=TF":                                 "-d -e NVIDIA_VISIBLE_DEVICES=all " + slPorts,
		sl + "-e MAX_EPOCHS=5 -e MIN_PEERS=2 -it":                         "-it -e MAX_EPOCHS=5 -e MIN_PEERS=2 " + slPorts,
		sl + "--sn-api-port 1 --apls-docker-name a -v D/extra:/x -u 0":    "-d -v D/extra:/x -u 0 " + slPorts,
	} {
		t.Run(args, func(t *testing.T) {
			here := func(text string) string { return strings.ReplaceAll(text, "D/", dir+"/") }
			if diff := cmp.Diff(ours(t, dir, strings.Fields(here(args))), readDocker(t, here(docker))); diff != "" {
				t.Errorf("(-ours +original's)\n%s", diff)
			}
		})
	}
}
