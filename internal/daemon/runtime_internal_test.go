package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/launch/sudo"
)

// TestContainersOptionsWithoutOne holds that the process runtime refuses, by name, every option that it can't follow.
func TestContainersOptionsWithoutOne(t *testing.T) {
	node := " --host-ip 127.0.0.1 --sentinel-ip 127.0.0.1 --identity embedded"
	values := map[string]string{"label": "a=b", "publish": "1:1", "volume": "/:/x", "restart": "no", "env": "A=1"}
	names := []string{"env"}
	for _, f := range containerFlags() {
		names = append(names, f.Names()[0])
	}
	for _, command := range []string{"run-sn" + node, "run-spire-server"} {
		for _, name := range names {
			args := command + " --" + name + "=" + values[name]
			if _, boolean := containerFlag(name).(*cli.BoolFlag); boolean {
				args = command + " --" + name
			} else if values[name] == "" {
				args += "x"
			}
			e := environment(nil)
			err := parse(t, e, strings.Fields(args), func(c *cli.Context) error {
				if c.Command.Name == "run-sn" {
					_, err := snConfig(c, e)
					return err
				}
				return withoutContainer(c, "env")
			})
			if name == "image" { // SWARM_IMAGE may stand in any environment
				if err != nil {
					t.Errorf("%s: %v", args, err)
				}
				continue
			}
			if want := "--" + name + " is for containers and this is --runtime process: "; err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: got %v, want one line with %q", args, err, want)
			}
		}
	}
	// An SL's variables are for its program.
	e := environment(nil)
	err := parse(t, e, strings.Fields("run-sl --host-ip h --sn-ip s --identity embedded --model-program p --model-program-args --lr=0.1 -e A=1 --ml-e B=2 --gpu 0,2"), func(c *cli.Context) error {
		cfg, err := slConfig(c, e)
		if diff := cmp.Diff(cfg.Args, []string{"--lr=0.1"}); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(cfg.Env, []string{"CUDA_VISIBLE_DEVICES=0,2", "NVIDIA_VISIBLE_DEVICES=0,2", "A=1", "B=2"}); err != nil || diff != "" || cfg.ML != nil {
			t.Error(err, cfg.ML, diff)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func containerFlag(name string) cli.Flag {
	for _, f := range containerFlags() {
		if f.Names()[0] == name {
			return f
		}
	}
	return nil
}

// TestProcessWithAContainersProgram is a host process whose ML program runs in a container.
func TestProcessWithAContainersProgram(t *testing.T) {
	dir := hostDirs(t)
	e := environment(map[string]string{"HOME": dir, "SUDO_UID": "1234", "SUDO_GID": "567"})
	args := "run-sl --host-ip h --sn-ip s --identity embedded --name sl-1 --ml-runtime docker --data-dir data --model-dir model --model-program ./train.py -e A=1 -e SWARM_X=2"
	err := parse(t, e, strings.Fields(args), func(c *cli.Context) error {
		cfg, err := slConfig(c, e)
		if err != nil {
			return err
		}
		user := "1234:567" // root calls for whoever called sudo
		if os.Geteuid() != 0 {
			user = fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid())
		}
		got := []string{cfg.ML.DataDir, cfg.ML.ModelDir, cfg.ModelDir, cfg.ML.Program, cfg.ML.Image, cfg.ML.User, cfg.ML.Spill, strings.Join(cfg.ML.Env, " ")}
		want := []string{dir + "/data", dir + "/model", dir + "/model", "./train.py", "swarm-ml-tf:latest", user, "", "A=1"}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Error(diff)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = parse(t, e, append(strings.Fields(args), "--data-dir=none"), func(c *cli.Context) error { _, err := slConfig(c, e); return err })
	if err == nil || !strings.Contains(err.Error(), "--data-dir: none: bad path: it does not exist") {
		t.Errorf("got %v", err)
	}
}

// TestSudo is --sudo with a sudo that only tells how it was called.
func TestSudo(t *testing.T) {
	hostDirs(t)
	var called []string
	fake := sudo.Sudo{
		UID: func() int { return 1000 }, Find: func() (string, error) { return "/bin/sudo", nil },
		Silent: func(context.Context, string) bool { return false },
		Exec: func(path string, argv, environ []string) error {
			called = append([]string{path, fmt.Sprint(len(environ))}, argv...)
			return errors.New("replaced")
		},
	}
	environ := []string{"HOME=/h", "SWARM_SCOPE=x", "DOCKER_HOST=unix:///x", "SPIFFE_ENDPOINT_SOCKET=y", "PATH=/p"}
	run := func(su sudo.Sudo, args ...string) (int, string) {
		var errs bytes.Buffer
		e := environment(map[string]string{"DOCKER_HOST": "unix:///x", "HOME": "/h"})
		e.Stderr, e.Sudo, e.Environ = &errs, su, func() []string { return environ }
		e.Signals = func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) }
		return Main(append([]string{"swarmd"}, args...), e), errs.String()
	}
	args := strings.Fields("run-sn --sudo --runtime docker --host-ip h --sentinel-ip h --socket-path agent.sock -e A=1,2")
	code, errs := run(fake, args...)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want := append([]string{"/bin/sudo", "5", "/bin/sudo", "--", "env", "SWARM_SCOPE=x", "DOCKER_HOST=unix:///x", "SPIFFE_ENDPOINT_SOCKET=y", self, "run-sn"}, args[2:]...)
	if diff := cmp.Diff(called, want); diff != "" || code != 1 || errs != "swarmd: --sudo: replaced\n" {
		t.Errorf("%d %q %s", code, errs, diff)
	}

	// What is wrong is said before sudo asks for a password.
	called = nil
	if code, errs := run(fake, append(args, "--sn-api-port=0")...); code != 1 || called != nil || !strings.Contains(errs, "--sn-api-port 0: want a port") {
		t.Errorf("%d %q %q", code, called, errs)
	}
	fake.Find = func() (string, error) { return "", errors.New("none") }
	if code, errs := run(fake, args...); code != 1 || called != nil || !strings.Contains(errs, "there is no sudo on this machine") {
		t.Errorf("%d %q %q", code, called, errs)
	}
}

// TestProgramsName holds that errors and help speak of the script that was called.
func TestProgramsName(t *testing.T) {
	for _, tt := range []struct{ prog, args, want string }{
		{"", "run-sn --host-ip", "swarmd: --host-ip: missing argument; see swarmd run-sn --help\n"},
		{"run-sn", "run-sn --host-ip", "run-sn: --host-ip: missing argument; see run-sn --help\n"},
		{"/x/run-sl", "run-sl --host-ip h x", "run-sl: run-sl takes no argument, got \"x\"; see run-sl --help\n"},
		{"", "run-sl --stall-grace 60", "swarmd: --stall-grace \"60\": want a time such as 90s or 5m\n"},
		{"", "run-sl --sl-fs-port x", "swarmd: --sl-fs-port \"x\": want a whole number\n"},
		{"run-sn", "run-sn --zzzzzzzzzzzz", "run-sn: unknown option --zzzzzzzzzzzz; see run-sn --help\n"},
		{"run-sn", "run-sn --runtime docker", "run-sn: mandatory parameter --host-ip not specified; give the address under which other nodes reach this one\n"},
	} {
		var out, errs bytes.Buffer
		e := environment(map[string]string{"SWARM_PROG": tt.prog})
		e.Stdout, e.Stderr = &out, &errs
		e.Signals = func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) }
		if code := Main(append([]string{"swarmd"}, strings.Fields(tt.args)...), e); code != 1 || errs.String() != tt.want || out.Len() > 0 {
			t.Errorf("%q %s: %d %q %q", tt.prog, tt.args, code, errs.String(), out.String())
		}
	}
}
