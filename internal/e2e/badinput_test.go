package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// alone starts SL i at SN 1.
func (w *swarm) alone(i int, extra ...string) *e2etest.Proc {
	w.T.Helper()
	return e2etest.Start(w.T, "sl", w.Dir, nil, append(w.SLArgs(i, extra...), "--sn-ip", w.Addr(1))...)
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	w := newSwarm(t)
	w.one()
	for flag, extra := range map[string][]string{
		"--sn-p2p-port": {"--sn-api-port", "31304", "--sn-fs-port", "31305"},
		"--sn-api-port": {"--sn-p2p-port", "31303", "--sn-fs-port", "31305"},
		"--sn-fs-port":  {"--sn-p2p-port", "31303", "--sn-api-port", "31304"},
	} {
		state := w.Path("other" + flag)
		w.SN(1, append(extra, "--state-dir", state)...).Fails("is in use by swarmd (pid ", "stop that process or give another port with "+flag)
		if _, err := os.Stat(state); err == nil {
			t.Errorf("%s: a state directory was made", flag)
		}
	}
	// An SL on the SN's own address wants the SN's file server port.
	e2etest.Start(t, "sl", w.Dir, nil, "swarmd", "run-sl", "--name", "sl-1", "--host-ip", w.Addr(1), "--sn-ip", w.Addr(1), "--attach",
		"--identity", "embedded="+w.Path("ca"), "--state-dir", w.Path("sl1")).
		Fails("port 30305 on "+w.Addr(1)+" is in use by swarmd (pid ", "--sl-fs-port")
}

func TestUnreadableDirectories(t *testing.T) {
	t.Parallel()
	w := newSwarm(t)
	model, data := w.Path("model"), w.Path("data")
	w.CopyProgram(model)
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(w.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	binary := w.Path("swarmd") // a copy: nobody may not be able to reach the folder that it was built in
	// Copied by another process: a file that this one had open to write could be busy when it is run.
	if out, err := exec.Command("cp", filepath.Join(e2etest.BinDir, "swarmd"), binary).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := func(want ...string) {
		t.Helper()
		cmd := exec.Command(binary, "run-sl", "--host-ip", w.Addr(11), "--sn-ip", w.Addr(1), "--identity", "embedded",
			"--model-dir", model, "--data-dir", data, "--model-program", "train.py", "--state-dir", w.Path("state"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if os.Geteuid() == 0 { // who may read everything
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatalf("run as nobody: %v", err)
		}
		if cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("exit code %d, want 1", cmd.ProcessState.ExitCode())
		}
		for _, text := range want {
			if !strings.Contains(string(out), text) {
				t.Errorf("says %q, want %q", out, text)
			}
		}
	}
	if os.Geteuid() != 0 {
		_ = os.Chmod(data, 0)
	} else if err := os.Chmod(model, 0o777); err != nil {
		t.Fatal(err)
	}
	run("swarmd: data directory " + data + " is not accessible to this user: change its permissions or --data-dir")
	_ = os.Chmod(data, 0o755)
	_ = os.Chmod(model, 0o555)
	run("swarmd: model directory " + model + " is not accessible to this user: change its permissions or --model-dir")
}

// What a program does wrong is told in one line by its daemon, and to the others by the contract.
func TestProgramsThatFail(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	w.one()
	for i, c := range []struct {
		name, program string
		env           []string
		code          int
		want          []string
	}{
		{"exits at once", "import os, sys\nprint(os.environ['A'])\nsys.exit('no data here')\n", []string{"A=1,2", "MIN_PEERS=1"}, 1, []string{
			"program train.py: exit code 1; last lines:", "  1,2", "  no data here",
		}},
		{"exits with a code of its own", "import sys\nsys.exit(7)\n", nil, 7, []string{"program train.py: exit code 7"}},
		{"ends without a session", "print('done')\n", nil, 1, []string{"ended without a session", "on_train_begin"}},
		{"is told to train alone", "print('done')\n", []string{"SWARM_LOOPBACK=True"}, 0, nil},
		{"ends in the middle", "", []string{"MIN_PEERS=1", "EXIT_AT=1"}, 1, []string{"program train.py ended", "on_train_end"}},
		{"NaN weights", "", []string{"MIN_PEERS=1", "NAN_AT=1"}, 1, []string{"\"w\"", "NaN"}},
		{"weight file cut short", "", []string{"MIN_PEERS=1", "TRUNCATE=1"}, 1, []string{"weight file local is 16 bytes, want 4024"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			i := i + 1
			args := w.SLArgs(i, append(c.env, "CONTRACT=c"+string(rune('0'+i)))...)
			if c.program != "" {
				if err := os.WriteFile(w.Path("model"+string(rune('0'+i)), "train.py"), []byte(c.program), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			p := e2etest.Start(t, "sl", w.Dir, nil, append(args, "--sn-ip", w.Addr(1))...)
			if code := p.Exits(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			_, said, _ := strings.Cut(p.Output(), "\nswarmd: ")
			for _, want := range c.want {
				if !strings.Contains(said, want) {
					t.Errorf("says %q, want %q in it", said, want)
				}
			}
			if _, err := os.Stat(w.Bridge(i)); err == nil {
				t.Errorf("the bridge folder is left")
			}
		})
	}
}

func TestPeersWithDifferentLayers(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	w.one()
	first := w.alone(1, "MIN_PEERS=2", "SIZE_B=3")
	first.Sees("session opened at sl-1")
	second := w.alone(2, "MIN_PEERS=2", "SIZE_B=4")
	second.Sees(`tensor 1 "b" is float64[4] here and float64[3] in the contract`)
	if code := second.Exits(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	// The refused one left nothing behind: with a peer of the same model training goes on.
	third := w.alone(3, "MIN_PEERS=2", "SIZE_B=3")
	finish(t, first, third)
	w.Agree(1, 3)
}
