package cmdline_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/cmdline"
)

// started are the options of a start command.
func started() cmdline.Table {
	return cmdline.NewTable(append(flags(), &cli.StringFlag{Name: "sn-ip"}, &cli.StringFlag{Name: "log-level"}, &cli.BoolFlag{Name: "sentinel"}, &cli.BoolFlag{Name: "web"}, &cli.IntFlag{Name: "web-port"})...)
}

func TestOriginals(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct {
		rest  string
		says  []string
		error string
	}{
		"--host-ip h --apls-ip a --apls-port=1": {rest: "--host-ip", says: []string{"--apls-ip changes nothing: no licence is needed", "--apls-port changes nothing: no licence is needed"}},
		"--apls-ip a --apls-ip b":               {says: []string{"--apls-ip changes nothing: no licence is needed"}},
		"--pull --read-only -i":                 {rest: "-i", says: []string{"--pull changes nothing: no image is pulled: docker pull fetches one", "--read-only changes nothing: the container's root is read-only"}},
		"--pull always -i":                      {rest: "-i", says: []string{"--pull changes nothing: no image is pulled: docker pull fetches one"}},
		"--pull=always":                         {says: []string{"--pull changes nothing: no image is pulled: docker pull fetches one"}},
		"--ml-it":                               {says: []string{"--ml-it changes nothing: the program has no terminal; its output is in the SL's"}},
		"--sn-docker-name sn1":                  {says: []string{"--sn-docker-name changes nothing: --sn-ip alone says where the SN is; in a network of the engine a container's name will do"}},
		"--memory 3g":                           {error: "--memory is not taken here: limit a component's container with docker update"},
		"-m 3g":                                 {error: "-m is not taken here"},
		"--sidecar x":                           {error: "--sidecar is not taken here: an SL starts one program beside it"},
		"--apls-ip":                             {error: "--apls-ip: missing argument"},
		"--sentinel-api-port 1":                 {rest: "--sentinel-api-port"}, // run-sn's
	} {
		table := started()
		known := cmdline.Originals("run-sl", table)
		l := table.Add(known).Split(strings.Fields(args))
		says, err := l.Without(known)
		if want.error != "" {
			if err == nil || !strings.HasPrefix(err.Error(), want.error) {
				t.Errorf("%s: error %v, want %q", args, err, want.error)
			}
			continue
		}
		var rest []string
		for _, o := range l.Options {
			rest = append(rest, o.Typed)
		}
		if err != nil || !slices.Equal(says, want.says) || strings.Join(rest, " ") != want.rest {
			t.Errorf("%s: %q, rest %q, %v; want %q, rest %q", args, says, rest, err, want.says, want.rest)
		}
	}
}

// TestDockersOptions holds that every option of docker container create is known to a start command, its own or the original's.
func TestDockersOptions(t *testing.T) {
	t.Parallel()
	own := strings.Fields("hostname h name network net user u workdir w restart env e label l publish p volume v rm interactive i tty t detach d dns ip security-opt help runtime")
	for _, name := range strings.Fields(`add-host annotation attach a blkio-weight blkio-weight-device cap-add cap-drop cgroup-parent cgroupns cidfile cpu-count
		cpu-percent cpu-period cpu-quota cpu-rt-period cpu-rt-runtime cpu-shares c cpus cpuset-cpus cpuset-mems device device-cgroup-rule device-read-bps
		device-read-iops device-write-bps device-write-iops disable-content-trust dns dns-option dns-opt dns-search domainname entrypoint env e env-file expose gpus
		group-add health-cmd health-interval health-retries health-start-interval health-start-period health-timeout help hostname h init interactive i
		io-maxbandwidth io-maxiops ip ip6 ipc isolation kernel-memory label l label-file link link-local-ip log-driver log-opt mac-address memory m
		memory-reservation memory-swap memory-swappiness mount name net net-alias network network-alias no-healthcheck oom-kill-disable oom-score-adj pid pids-limit
		platform privileged publish p publish-all P pull quiet q read-only restart rm runtime security-opt shm-size stop-signal stop-timeout storage-opt sysctl tmpfs
		tty t ulimit use-api-socket user u userns uts volume v volume-driver volumes-from workdir w`) {
		known := cmdline.Originals("run-sn", cmdline.Table{})
		if o, ok := known[name]; !slices.Contains(own, name) && (!ok || o.Says == "" && o.Use == "") {
			t.Errorf("--%s is not known", name)
		}
	}
}

func TestTakeVariables(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		command, args string
		env           map[string]string
		want          []cmdline.Option
		says          []string
		error         string
	}{
		"an option":            {"run-sl", "-e SN_NODE_IP=a", nil, []cmdline.Option{{Typed: "-e SN_NODE_IP", Name: "sn-ip", Value: "a", Given: true}}, nil, ""},
		"the environment's":    {"run-sl", "", map[string]string{"SN_NODE_IP": "a"}, []cmdline.Option{{Typed: "$SN_NODE_IP", Name: "sn-ip", Value: "a", Given: true}}, nil, ""},
		"0.3's of an SL":       {"run-sl", "", map[string]string{"SENTINEL_NODE_IP": "a"}, []cmdline.Option{{Typed: "$SENTINEL_NODE_IP", Name: "sn-ip", Value: "a", Given: true}}, nil, ""},
		"the line wins":        {"run-sl", "--sn-ip b -e SN_NODE_IP=a", nil, nil, nil, ""},
		"its own wins":         {"run-sl", "-e SN_NODE_IP=a", map[string]string{"SWARM_SN_IP": "b"}, nil, nil, ""},
		"a switch":             {"run-sn", "--env=SN_I_AM_SENTINEL=1", nil, []cmdline.Option{{Typed: "-e SN_I_AM_SENTINEL", Name: "sentinel", Value: "true", Given: true}}, nil, ""},
		"a switch that is off": {"run-sn", "-e SN_I_AM_SENTINEL=0", nil, nil, nil, ""},
		"a level":              {"run-sl", "-e SL_LOG_LEVEL=WARNING", nil, []cmdline.Option{{Typed: "-e SL_LOG_LEVEL", Name: "log-level", Value: "warn", Given: true}}, nil, ""},
		"nothing":              {"run-sl", "-e SL_RAM_INTENSIVE=False", nil, nil, []string{"-e SL_RAM_INTENSIVE changes nothing: medians are merged leaf by leaf, in little memory"}, ""},
		"another's":            {"run-sn", "-e SL_RAM_INTENSIVE=False", nil, nil, nil, ""},
		"not this command's":   {"run-spire-server", "-e SN_API_SERVICE=x", nil, nil, []string{"-e SN_API_SERVICE changes nothing: run-spire-server has no --sn-api-service"}, ""},
		"common names":         {"run-sl", "", map[string]string{"LOGS_DIR": "/x", "MLCMD": "x"}, nil, nil, ""},
		"common names, typed":  {"run-sl", "-e LOGS_DIR=/x", nil, nil, []string{"-e LOGS_DIR changes nothing: logs go to standard error, and so to docker logs"}, ""},
		"refused":              {"run-sl", "-e MLCMD=x", nil, nil, nil, "-e MLCMD is not taken here: name the program with --model-program"},
		"the web mode":         {"run-swci", "-e SWCI_MODE=web", map[string]string{"SWCI_WEB_PORT": "1"}, []cmdline.Option{{Typed: "-e SWCI_MODE", Name: "web", Value: "true", Given: true}, {Typed: "$SWCI_WEB_PORT", Name: "web-port", Value: "1", Given: true}}, nil, ""},
		"not the web mode":     {"run-swci", "-e SWCI_MODE=cli", nil, nil, nil, ""},
	} {
		l := started().Split(strings.Fields(tt.args))
		before := len(l.Options)
		says, err := l.TakeVariables(tt.command, started(), func(n string) string { return tt.env[n] })
		if tt.error != "" {
			if err == nil || !strings.HasPrefix(err.Error(), tt.error) {
				t.Errorf("%s: error %v, want %q", name, err, tt.error)
			}
			continue
		}
		if diff := cmp.Diff(slices.Concat(l.Options[before:], []cmdline.Option{}), slices.Concat(tt.want, []cmdline.Option{})); err != nil || diff != "" || !slices.Equal(says, tt.says) {
			t.Errorf("%s: %v, %q (want %q)\n%s", name, err, says, tt.says, diff)
		}
	}
}
