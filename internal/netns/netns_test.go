package netns_test

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/netns"
)

// TestMain plays a program on a host when it is asked to: "greet ADDR" says hello to whoever connects, "dial ADDR" prints what
// it hears.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "dial" {
		c, err := net.DialTimeout("tcp", os.Args[2], time.Second)
		if err == nil {
			b, _ := io.ReadAll(c)
			_, _ = os.Stdout.Write(b)
			return
		}
		os.Exit(1)
	}
	if len(os.Args) == 3 && os.Args[1] == "greet" {
		l, err := net.Listen("tcp", os.Args[2])
		if err != nil {
			os.Exit(1)
		}
		_, _ = os.Stdout.WriteString("ready\n")
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello")
			_ = c.Close()
		}
	}
	os.Exit(m.Run())
}

func network(t *testing.T) *netns.Net {
	t.Helper()
	if err := netns.Available(); err != nil {
		t.Skip(err)
	}
	n, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func add(t *testing.T, n *netns.Net) *netns.Host {
	t.Helper()
	h, err := n.Add()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// greeter listens on a host until the test ends.
func greeter(t *testing.T, h *netns.Host) string {
	t.Helper()
	argv := h.Command(os.Args[0], "greet", h.Addr+":4000")
	cmd := exec.Command(argv[0], argv[1:]...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	return h.Addr + ":4000"
}

func hears(h *netns.Host, addr string) bool {
	argv := h.Command(os.Args[0], "dial", addr)
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	return err == nil && string(out) == "hello"
}

func TestHostsReachEachOtherUntilCut(t *testing.T) {
	n := network(t)
	a, b, c := add(t, n), add(t, n), add(t, n)
	at := greeter(t, b)
	if !hears(a, at) || !hears(c, at) {
		t.Fatal("hosts on one switch do not reach each other")
	}
	if err := a.Cut(b); err != nil {
		t.Fatal(err)
	}
	if hears(a, at) {
		t.Error("a cut link carries")
	}
	if !hears(c, at) {
		t.Error("cutting a from b cut c from b")
	}
	if err := a.Heal(b); err != nil {
		t.Fatal(err)
	}
	if !hears(a, at) {
		t.Error("a healed link does not carry")
	}
	if sent, err := b.Sent(); err != nil || sent == 0 {
		t.Errorf("b sent %d bytes, %v", sent, err)
	}
}

// TestHostsHearOnlyWhomTheyShall deafens one to another, and moves two to a switch of their own.
func TestHostsHearOnlyWhomTheyShall(t *testing.T) {
	n := network(t)
	a, b, c := add(t, n), add(t, n), add(t, n)
	at := greeter(t, b)
	steps := []struct {
		name         string
		do           []func() error
		fromA, fromC bool // whether a and c reach b
	}{
		{"b deaf to a", []func() error{func() error { return b.Deafen(a) }}, false, true},
		{"b hears a", []func() error{func() error { return b.Hear(a) }}, true, true},
		{"b apart", []func() error{b.Part}, false, false},
		{"b and c apart", []func() error{c.Part}, false, true},
		{"all together", []func() error{b.Rejoin, c.Rejoin}, true, true},
		{"limited and not", []func() error{func() error { return b.Limit(1_000_000) }, b.Unlimit}, true, true},
	}
	for _, s := range steps {
		for _, do := range s.do {
			if err := do(); err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
		}
		if gotA, gotC := hears(a, at), hears(c, at); gotA != s.fromA || gotC != s.fromC {
			t.Errorf("%s: a reaches b: %t, c does: %t; want %t and %t", s.name, gotA, gotC, s.fromA, s.fromC)
		}
	}
}

func TestNothingIsLeft(t *testing.T) {
	n := network(t)
	h := add(t, n)
	if err := h.Limit(1_000_000); err != nil {
		t.Error(err)
	}
	name := h.Command()[3]
	extra, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := extra.Close(); err != nil {
		t.Error(err)
	}
	list, err := exec.Command("ip", "netns", "list").Output()
	if err != nil || !strings.Contains(string(list), name) {
		t.Errorf("namespace %s is not in %q, %v", name, list, err)
	}
}

// TestHostsControlCongestionAsMostDo wants cubic where the kernel allows it in namespaces, and elsewhere a network all the same.
func TestHostsControlCongestionAsMostDo(t *testing.T) {
	h := add(t, network(t))
	allowed, err := os.ReadFile("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
	if err != nil {
		t.Fatal(err)
	}
	c := h.Command("cat", "/proc/sys/net/ipv4/tcp_congestion_control")
	out, err := exec.Command(c[0], c[1:]...).Output()
	if err != nil || h.Congestion != strings.TrimSpace(string(out)) {
		t.Errorf("the host uses %q (%v) and says %q", out, err, h.Congestion)
	}
	if may := slices.Contains(strings.Fields(string(allowed)), netns.Cubic); may != (h.Congestion == netns.Cubic) {
		t.Errorf("the host uses %q where %q are allowed", h.Congestion, strings.TrimSpace(string(allowed)))
	}
}

func TestHostsKnowNames(t *testing.T) {
	n := network(t)
	a, b := add(t, n), add(t, n)
	at := greeter(t, b)
	if hears(a, "b.test:4000") {
		t.Fatal("a host has a name before one was given")
	}
	n.Names = filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(n.Names, []byte(b.Addr+" b.test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !hears(a, "b.test:4000") || !hears(a, at) {
		t.Error("a host is not reached by its name and by its address")
	}
	if own, err := os.ReadFile("/etc/hosts"); err == nil && strings.Contains(string(own), "b.test") {
		t.Error("this machine knows the name too")
	}
}
