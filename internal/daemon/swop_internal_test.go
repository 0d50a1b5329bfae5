package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/swop"
	"github.com/swarmd/swarmd/internal/work/containers"
	"github.com/swarmd/swarmd/node"
)

const swopProfile = `groupname: g
taskrunner: runner-1
policyuri: POLICY
network: n
resourcemgr:
apls:
apisrv:
  locator: {host: HOST, port: 31000, service: null}
envvars: null
nodes:
  - slnodedef: {idx: 0, identity: null, slhostname: null, usrhostname: null, privatedata: null, slenvvars: null, usrenvvars: null}
  - slnodedef: {idx: 1, identity: null, slhostname: null, usrhostname: null, privatedata: null, slenvvars: null, usrenvvars: null}
`

// usrDir is a user's directory with a profile that names an SN, or null.
func usrDir(t *testing.T, sn string) string {
	t.Helper()
	dir := t.TempDir()
	text := strings.NewReplacer("HOST", sn, "POLICY", "null").Replace(swopProfile)
	if err := os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// swopOf is what a command line and variables come to as a process.
func swopOf(t *testing.T, vars map[string]string, args ...string) (cfg node.SWOPConfig, err error) {
	t.Helper()
	vars["HOME"] = t.TempDir()
	e := environment(vars)
	err = parse(t, e, append([]string{"run-swop"}, args...), func(c *cli.Context) (err error) {
		_, cfg, err = swopNode(c, e)
		return err
	})
	return cfg, err
}

// TestProfileMakesTheSWOP holds what of a SWOP its profile says, and that it wins over options.
func TestProfileMakesTheSWOP(t *testing.T) {
	cfg, err := swopOf(t, map[string]string{}, "--usr-dir", usrDir(t, "sn.example"), "--profile-file-name", "p.yaml", "--sn-ip", "other", "--socket-path", "s", "--host-ip", "h")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(cfg.SNs, []string{"sn.example:31000"}) || cfg.Offer.Taskrunner != "runner-1" || cfg.Offer.Peers != 2 || cfg.Offer.Group != "g" || cfg.Name != "swop-h" || cfg.Local || !cfg.Process {
		t.Errorf("%+v", cfg)
	}
	if want := (swop.FilePort{Number: 30308}); cfg.Files != want {
		t.Errorf("the file server: %+v", cfg.Files)
	}
	for _, kind := range []string{task.RunSwarm, task.PullImage} {
		if cfg.Types(swop.Given{})[kind].Executor == nil {
			t.Errorf("tasks of type %s are not carried out", kind)
		}
	}
	for _, tt := range []struct {
		args []string
		want time.Duration
	}{{nil, 2 * time.Hour}, {[]string{"--prepare-timeout", "5m"}, 5 * time.Minute}, {[]string{"--prepare-timeout", "0"}, 0}} {
		cfg, err := swopOf(t, map[string]string{}, append(tt.args, "--usr-dir", usrDir(t, "sn.example"), "--profile-file-name", "p.yaml", "--socket-path", "s")...)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{task.RunSwarm, task.PullImage} {
			if got := cfg.Types(swop.Given{})[kind].Limit; got != tt.want {
				t.Errorf("%v: preparation of %s is bounded by %v", tt.args, kind, got)
			}
		}
	}
	for _, kind := range []string{task.MakeUserContainer, task.MakeSwarmUserContent} {
		if got := cfg.Types(swop.Given{})[kind]; got.Executor != nil || !strings.Contains(got.Refuses, kind+" only with a container engine: start it with --ml-runtime docker") {
			t.Errorf("%s on a host with processes: %+v", kind, got)
		}
	}
	inContainers, err := swopOf(t, map[string]string{}, "--usr-dir", usrDir(t, "sn.example"), "--profile-file-name", "p.yaml", "--socket-path", "s", "--ml-runtime", "docker")
	for _, kind := range []string{task.MakeUserContainer, task.MakeSwarmUserContent} {
		if err == nil && inContainers.Types(swop.Given{})[kind].Executor == nil {
			t.Errorf("a host with an engine does no %s", kind)
		}
	}
	if err != nil || inContainers.Process || inContainers.Runtime != "process" {
		t.Errorf("--ml-runtime docker: %v, %+v", err, inContainers)
	}
	if p, err := cfg.Policy("a.example"); err != nil || !strings.HasPrefix(p.String(), "no policy") {
		t.Errorf("%v, %v", p, err)
	}
}

// TestWhatASWOPKeepsAndGives: no task is given its state, its policy or its profile, and programs are held to its owner's terms.
func TestWhatASWOPKeepsAndGives(t *testing.T) {
	dir, state := usrDir(t, "sn.example"), t.TempDir()
	cfg, err := swopOf(t, map[string]string{}, "--usr-dir", dir, "--profile-file-name", "p.yaml", "--socket-path", "/run/s", "--state-dir", state, "--policy", dir+"/policy", "--ml-runtime", "docker")
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{state, dir + "/policy", dir + "/p.yaml", "/run/s", "/var/run/docker.sock"} {
		if !slices.Contains(cfg.Own, own) {
			t.Errorf("%s is no path of the host's own: %q", own, cfg.Own)
		}
	}
	terms := policy.Terms{Limits: policy.Limits{CPUs: 3}}
	if r, ok := cfg.Types(swop.Given{Terms: terms})[task.RunSwarm].Executor.(*containers.Runner); !ok || r.Terms != terms {
		t.Errorf("programs are held to %+v", r)
	}
}

// TestSWOPIsStartedByTheOriginalsVariables holds those of its containers.
func TestSWOPIsStartedByTheOriginalsVariables(t *testing.T) {
	dir := usrDir(t, "null")
	cfg, err := swopOf(t, map[string]string{"SWOP_PROFILE": "p.yaml", "USR_DIR": dir, "SN_NODE_IP": "sn.example", "SWARM_LOCAL_ID": "x", "SWOP_FS_PORT": "30308"}, "--socket-path", "s", "--policy", "ask")
	if err != nil {
		t.Fatal(err)
	}
	if want := (swop.FilePort{Number: 30308, Named: true}); cfg.Files != want {
		t.Errorf("the file server: %+v", cfg.Files)
	}
	if !slices.Equal(cfg.SNs, []string{"sn.example:31000"}) || !cfg.Local {
		t.Errorf("%+v", cfg)
	}
	if p, err := cfg.Policy("a.example"); err != nil || strings.HasPrefix(p.String(), "no policy") {
		t.Errorf("--policy ask: %v, %v", p, err)
	}
	e := environment(map[string]string{"HOME": dir, "SWOP_UID": "7", "SWOP_DOCKER_GID": "8", "SWOP_KEEP_CONTAINERS": "1"})
	spec, err := translated(t, e, "run-swop", "--usr-dir", dir, "--profile-file-name", "p.yaml", "--sn-ip", "s", "--host-ip", "h", "--cert", filepath.Join(dir, "p.yaml"))
	if err != nil || spec.User != "7:8" || !slices.Contains(spec.Args, "--keep-containers=true") || !spec.EngineSocket {
		t.Errorf("%v, %+v", err, spec)
	}
}

func TestSWOPIsChecked(t *testing.T) {
	dir := usrDir(t, "null")
	if err := os.WriteFile(filepath.Join(dir, "bad.yaml"), []byte("groupname: g\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	placeholder := strings.NewReplacer("HOST", "<SN-IP>", "POLICY", "null").Replace(swopProfile)
	if err := os.WriteFile(filepath.Join(dir, "open.yaml"), []byte(placeholder), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"":                                       "mandatory parameter --usr-dir not specified",
		"--profile-file-name p":                  "mandatory parameter --usr-dir not specified",
		"--usr-dir D":                            "mandatory parameter --profile-file-name not specified",
		"--usr-dir D --profile-file-name p.yaml": "mandatory parameter --sn-ip not specified; give the address of an SN, here or as apisrv in the profile",
		"--usr-dir D --profile-file-name none --sn-ip s":                  "bad file: it does not exist",
		"--usr-dir D --profile-file-name bad.yaml --sn-ip s":              "bad.yaml:1: ",
		"--usr-dir D --profile-file-name open.yaml --sn-ip s":             "<SN-IP>",
		"--usr-dir D --profile-file-name p.yaml --sn-ip a/b":              "--sn-ip a/b: neither an address nor a host name",
		"--usr-dir D --profile-file-name p.yaml --sn-ip s --ml-runtime x": "--ml-runtime x: want process or docker",
		"--usr-dir D --profile-file-name p.yaml --sn-ip s --swop-uid x":   "--swop-uid x: want a number",
		"--usr-dir D --profile-file-name p.yaml --sn-ip s -d":             "--detach is for containers and this is --runtime process",
	} {
		t.Run(args, func(t *testing.T) {
			_, err := swopOf(t, map[string]string{}, append(strings.Fields(strings.ReplaceAll(args, "D", dir)), "--socket-path", "s")...)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// TestWhereSLsInContainersHaveTheirIdentityFrom: a SWOP's own agent serves them where it sees their processes, or another one gets a token of its
// own; a SWOP that could give them none does not start.
func TestWhereSLsInContainersHaveTheirIdentityFrom(t *testing.T) {
	dir, state := usrDir(t, "sn.example"), t.TempDir()
	line := []string{"--usr-dir", dir, "--profile-file-name", "p.yaml", "--host-ip", "h", "--state-dir", state, "-serverAddress", "spire"}
	for how, socket := range map[string]string{"-joinToken=t": filepath.Join(state, "spire-agent", "agent.sock"), "-genJoinToken": ""} {
		cfg, err := swopOf(t, map[string]string{}, append(line, "--ml-runtime=docker", how)...)
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := cfg.Types(swop.Given{})[task.RunSwarm].Executor.(*containers.Runner); !ok || r.Host.SocketPath != socket || (len(r.Host.Agent) == 0) != (socket != "") {
			t.Errorf("%s: SLs have %+v", how, r.Host)
		}
		_, err = translated(t, environment(map[string]string{"HOME": dir}), append([]string{"run-swop", how}, line...)...)
		if refused := err != nil && strings.Contains(err.Error(), "--runtime process --ml-runtime docker"); refused != (socket != "") {
			t.Errorf("in a container, %s: %v", how, err)
		}
	}
	named := strings.ReplaceAll(swopProfile, "identity: null", "identity: [{attribute: {aType: SPIFFE_SOCKETPATH, mType: BIND, src: "+dir+", tgt: /s, subPath: p.yaml}}]")
	if err := os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(strings.NewReplacer("HOST", "sn.example", "POLICY", "null").Replace(named)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := translated(t, environment(map[string]string{"HOME": dir}), append([]string{"run-swop", "-joinToken=t"}, line...)...); err != nil {
		t.Errorf("with identities in the profile: %v", err)
	}
}
