package rendezvous_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/pause"
	"github.com/swarmd/swarmd/internal/rendezvous"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == rendezvous.Command {
		os.Exit(rendezvous.Begin(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == keeps {
		os.Exit(keep(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// keeps is the first argument by which this program is a keeper, with whom the rank is to end that it starts.
const keeps = "keeps"

func keep(words []string) int {
	runtime.LockOSThread()                      // whose end the signal tells
	cmd := exec.Command(words[0], words[1:]...) //nolint:noctx // the test ends it
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdout, os.Stderr, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		return 1
	}
	return 0
}

// begins is a rank with a program in a shell.
func begins(t *testing.T, m rendezvous.Meeting, script string) *exec.Cmd {
	t.Helper()
	words := append(m.Wrap(os.Args[0]), "sh", "-c", script)
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.WaitDelay = time.Minute // what serves has its streams, and under the race detector a process takes a second to end
	return cmd
}

// free is a port that is free.
func free(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String())
}

// TestBegin: a rank that is started first waits for rank 0, and each is the process that it was started as.
func TestBegin(t *testing.T) {
	t.Parallel()
	at := free(t)
	one := begins(t, rendezvous.Meeting{At: at, Own: at.Addr(), Within: time.Minute}, "echo one; exit 7")
	out := new(strings.Builder)
	one.Stdout = out
	if err := one.Start(); err != nil {
		t.Fatal(err)
	}
	zero := begins(t, rendezvous.Meeting{At: at, Own: at.Addr(), Ranks: []netip.Addr{at.Addr(), at.Addr()}, Within: time.Minute}, "echo $$; read x")
	in, err := zero.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := zero.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := zero.Start(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := one.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 7 || out.String() != "one\n" {
		t.Errorf("rank 1: %v, %q", err, out)
	}
	if status, _ := asks(t, at, "PUT", "/global/0", "x"); status != "200 OK" {
		t.Error(status)
	}
	pid := make([]byte, 16)
	n, err := said.Read(pid)
	if err != nil || strings.TrimSpace(string(pid[:n])) != itoa(zero.Process.Pid) {
		t.Errorf("the program is process %q, %v, want %d", pid[:n], err, zero.Process.Pid)
	}
	_ = in.Close()
	_ = zero.Wait()
	closes(t, at)
}

// closes waits until nobody listens there.
func closes(t *testing.T, at netip.AddrPort) {
	t.Helper()
	for {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", at.String())
		if err != nil {
			return
		}
		_ = c.Close()
		waits(t)
	}
}

// waits until the next look at what will be.
func waits(t *testing.T) {
	t.Helper()
	if err := pause.For(t.Context(), 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
}

// TestProgramsThatWaitForAllTheirChildren have none but their own, and what ends their group does not end the rendezvous.
func TestProgramsThatWaitForAllTheirChildren(t *testing.T) {
	t.Parallel()
	at := free(t)
	program := "trap '' TERM; kill -TERM 0; exec python3 -c 'import os, urllib.request, urllib.error\nif os.fork() == 0: os._exit(0)\ntry:\n    while True: os.wait()\nexcept ChildProcessError: pass\n" +
		"try: urllib.request.urlopen(\"http://" + at.String() + "/a/b\")\nexcept urllib.error.HTTPError as e: print(e.code)'"
	zero := begins(t, rendezvous.Meeting{At: at, Own: at.Addr(), Ranks: []netip.Addr{at.Addr()}}, strings.ReplaceAll(program, "\\n", "\n"))
	zero.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := zero.CombinedOutput()
	if err != nil || string(out) != "404\n" {
		t.Errorf("%v, %s", err, out)
	}
	closes(t, at)
}

// TestRanksEndWithTheirKeeper, also one whose keeper is killed, and with rank 0 what serves.
func TestRanksEndWithTheirKeeper(t *testing.T) {
	t.Parallel()
	for range 4 { // from whatever thread the program begins
		at := free(t)
		for _, ranks := range [][]netip.Addr{{at.Addr()}, nil} {
			m := rendezvous.Meeting{At: at, Own: at.Addr(), Ranks: ranks, Within: time.Minute}
			if ranks == nil {
				m.At, _ = serves(t, "127.0.0.1")
			}
			words := append(m.Wrap(os.Args[0]), "sh", "-c", "echo $$; exec sleep 600")
			keeper := exec.CommandContext(t.Context(), os.Args[0], append([]string{keeps}, words...)...)
			out, err := keeper.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := keeper.Start(); err != nil {
				t.Fatal(err)
			}
			var pid int
			if _, err := fmt.Fscan(out, &pid); err != nil {
				t.Fatal(err)
			}
			_ = keeper.Process.Kill()
			for runs(pid) {
				waits(t)
			}
			_ = keeper.Wait()
		}
		closes(t, at)
	}
}

// runs reports whether a process has not ended.
func runs(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(raw), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

// TestWhatKeepsARankFromBeginning is reported in a line, and its exit code is that of a program which was not started.
func TestWhatKeepsARankFromBeginning(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := netip.MustParseAddrPort(l.Addr().String())
	for _, tt := range []struct {
		words []string
		want  string
	}{
		{append(rendezvous.Meeting{At: taken, Own: taken.Addr(), Ranks: []netip.Addr{taken.Addr()}}.Wrap(os.Args[0]), "true"), "HOROVOD_GLOO_RENDEZVOUS_PORT in env"},
		{append(rendezvous.Meeting{At: free(t), Own: taken.Addr(), Within: time.Millisecond}.Wrap(os.Args[0]), "true"), "rank 0 did not answer at 127.0.0.1:"},
		{[]string{os.Args[0], rendezvous.Command, "-at=x"}, "-at: "},
		{[]string{os.Args[0], rendezvous.Command, "-at=127.0.0.1:1", "-own=127.0.0.1", "-ranks=x"}, "-ranks: "},
		{[]string{os.Args[0], rendezvous.Command, "-at=127.0.0.1:1"}, "-own: "},
		{[]string{os.Args[0], rendezvous.Command, "-at=127.0.0.1:1", "-own=127.0.0.1"}, "there is no program to begin"},
	} {
		out, err := exec.CommandContext(t.Context(), tt.words[0], tt.words[1:]...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 126 || !strings.Contains(string(out), tt.want) {
			t.Errorf("%q: %v, %s, want %s", tt.words[1:], err, out, tt.want)
		}
	}
}

// TestAwait: what answers as something else does is not rank 0.
func TestAwait(t *testing.T) {
	t.Parallel()
	at, _ := serves(t, "127.0.0.1")
	if err := rendezvous.Await(t.Context(), at, func(string) {}); err != nil {
		t.Error(err)
	}
	away, _ := serves(t, "10.0.0.1")
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	for at, want := range map[netip.AddrPort]string{
		away: "it closes connections: rank 0 may have refused this host's address, see its log",
		netip.MustParseAddrPort(web.Listener.Addr().String()): "something else listens there, which answers 404 Not Found",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := rendezvous.Await(ctx, at, func(string) {}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "whether that port is open between the hosts") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestTheHostsName leads to the rank's address, for its program alone.
func TestTheHostsName(t *testing.T) {
	t.Parallel()
	own := netip.Addr{}
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		if p, err := netip.ParsePrefix(x.String()); err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() {
			own = p.Addr()
		}
	}
	if !own.IsValid() {
		t.Skip("this machine has no address but loopback")
	}
	before, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	at, _ := serves(t, "127.0.0.1")
	out, err := begins(t, rendezvous.Meeting{At: at, Own: own, Within: time.Minute}, "getent ahostsv4 $(hostname)").CombinedOutput()
	here := begins(t, rendezvous.Meeting{At: at, Own: own, Here: true, Within: time.Minute}, "exit 0")
	if out, err := here.CombinedOutput(); err != nil { // whatever it may
		t.Errorf("%v, %s", err, out)
	}
	if err != nil && os.Geteuid() != 0 && strings.Contains(string(out), "have /etc/hosts lead it there") {
		return // as it may not
	}
	for line := range strings.Lines(string(out)) {
		if a, _, _ := strings.Cut(line, " "); a != own.String() {
			t.Errorf("it leads to %s, want %s", line, own)
		}
	}
	if after, _ := os.Hostname(); err != nil || len(out) == 0 || after != before {
		t.Errorf("%v, %s, the host is called %s, before %s", err, out, after, before)
	}
}
