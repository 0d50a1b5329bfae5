package local_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/launch/start"
)

// TestMain lets the test binary play swarmd: cluster starts whatever binary it is given, and this one behaves on its
// command line as swarmd's contract says, without a swarm behind it.
func TestMain(m *testing.M) {
	if os.Getenv("FAKE_SWARMD") == "" {
		os.Exit(m.Run())
	}
	os.Exit(fakeSwarmd(os.Args[1:]))
}

func fakeSwarmd(args []string) int {
	flags := map[string]string{}
	var env []string
	for i := 1; i < len(args); i++ {
		switch args[i] {
		case "--attach", "--found-at-once":
			flags[strings.TrimPrefix(args[i], "--")] = "yes"
		case "-e":
			env = append(env, args[i+1])
			i++
		default:
			flags[strings.TrimPrefix(args[i], "--")] = args[i+1]
			i++
		}
	}
	stop := make(chan os.Signal, 1)
	if os.Getenv("FAKE_STUBBORN") == "" {
		signal.Notify(stop, syscall.SIGTERM)
	} else {
		signal.Ignore(syscall.SIGTERM)
	}
	switch args[0] {
	case "run-authority":
		l, err := net.Listen("unix", filepath.Join(flags["dir"], "sn.sock"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer l.Close()
		<-stop
	case "run-sn":
		if os.Getenv("FAKE_SN_FAILS") != "" {
			fmt.Fprintln(os.Stderr, "no good")
			return 4
		}
		fmt.Fprintln(os.Stderr, "2026-01-01 00:00:00,000 : swarm.blCnt : INFO : Starting SWARM-API-SERVER on port: "+flags["sn-api-port"])
		<-stop
	case "run-sl":
		return fakeSL(flags, env, stop)
	}
	return 0
}

// fakeSL runs the program with /bin/sh and passes its lines on, or serves a bridge socket with nothing behind it.
func fakeSL(flags map[string]string, env []string, stop chan os.Signal) int {
	if flags["attach"] != "" {
		l, err := net.Listen("unix", filepath.Join(flags["bridge-dir"], "bridge.sock"))
		if err != nil {
			return 1
		}
		defer l.Close()
		<-stop
		return 0
	}
	var given start.Words
	if given.UnmarshalText([]byte(flags["model-program-args"])) != nil {
		return 1
	}
	cmd := exec.Command("/bin/sh", append([]string{flags["model-program"]}, given...)...)
	cmd.Dir = flags["model-dir"]
	cmd.Env = append(append(os.Environ(), env...), "DATA_DIR="+flags["data-dir"], "MODEL_DIR="+flags["model-dir"], "SWARM_PEER="+flags["name"])
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, 100*time.Millisecond
	if err := cmd.Start(); err != nil {
		return 1
	}
	go func() {
		<-stop
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}()
	_ = cmd.Wait()
	for line := range strings.Lines(out.String()) {
		_, _ = os.Stdout.WriteString("program | " + line)
	}
	return cmd.ProcessState.ExitCode()
}
