package jobnet

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/procs"
)

// TestWhatHoldsAnAddressSleeps: it is a program of its machine, which runs until it is killed; for other machines there is none.
func TestWhatHoldsAnAddressSleeps(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		raw, err := Sleeper(arch)
		if err != nil {
			t.Fatal(err)
		}
		f, err := elf.NewFile(bytes.NewReader(raw))
		if err != nil {
			t.Fatalf("%s: %v", arch, err)
		}
		if f.Machine != machine || len(f.Progs) != 1 || f.Entry != f.Progs[0].Vaddr+120 || f.Progs[0].Filesz != uint64(len(raw)) {
			t.Errorf("%s: %+v", arch, f.FileHeader)
		}
	}
	if _, err := Sleeper("s390x"); err == nil || !strings.Contains(err.Error(), "network: host") {
		t.Error(err)
	}
	raw, err := Sleeper(runtime.GOARCH)
	if err != nil {
		t.Skip(err)
	}
	file := filepath.Join(t.TempDir(), "hold")
	if err := os.WriteFile(file, raw, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sleeps := func() bool { // in the kernel, of its own will
		stat := string(procs.Read(cmd.Process.Pid, "stat", 4<<10))
		return strings.HasPrefix(stat[strings.LastIndexByte(stat, ')')+1:], " S")
	}
	for deadline := time.After(10 * time.Second); !sleeps(); {
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatal("it does not sleep")
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
}

// TestNetworksThatMembersMayShare: others are refused with what their owners can do.
func TestNetworksThatMembersMayShare(t *testing.T) {
	subnets := func(all ...string) (n network.Inspect) {
		for _, s := range all {
			n.IPAM.Config = append(n.IPAM.Config, network.IPAMConfig{Subnet: s})
		}
		return n
	}
	overlay := subnets("10.9.0.0/16")
	overlay.Scope = "swarm"
	for _, tt := range []struct {
		n    network.Inspect
		want string
	}{
		{subnets("10.9.0.0/16"), "<nil>"},
		{subnets("fd00:9::/64", "10.9.0.0/16"), "<nil>"},
		{subnets("fd00:9::/64"), "addresses of IPv6 alone"},
		{subnets(), "--subnet"},
		{overlay, "--attachable"},
	} {
		if got := fmt.Sprint(mayShare(tt.n, "lab")); !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %s, want %s", tt.n.IPAM, got, tt.want)
		}
	}
}

// TestWhatPassesOfANetwork: managers of overlays that are away for now end no member.
func TestWhatPassesOfANetwork(t *testing.T) {
	for _, tt := range []struct {
		err    error
		passes bool
	}{
		{errors.New("attaching to network failed, make sure your network options are correct and check manager logs: context deadline exceeded"), true},
		{fmt.Errorf("start container x: %w", context.DeadlineExceeded), true},
		{errors.New("Error response from daemon: context deadline exceeded"), true},
		{errors.New("Address already in use"), true},
		{errors.New("user specified IP address is supported only when connecting to networks with user configured subnets"), false},
		{fmt.Errorf("network lab: %w", errdefs.ErrNotFound), false},
		{errors.New("exec format error"), false},
	} {
		if _, is := errors.AsType[*work.Passing](Joining(tt.err)); is != tt.passes {
			t.Errorf("%v passes: %v", tt.err, is)
		}
	}
	if Joining(nil) != nil {
		t.Error("nothing is an error")
	}
}

// TestAddressesOfOneNetwork: all hosts have told some, and no two the same.
func TestAddressesOfOneNetwork(t *testing.T) {
	if all, err := Told([]task.Site{{Node: "a", Own: "10.9.0.1"}, {Node: "b", Own: "10.9.0.2"}}); err != nil || len(all) != 2 || all[1].String() != "10.9.0.2" {
		t.Error(all, err)
	}
	for want, b := range map[string]string{"host b has not told": "", "hosts a and b both tell the address 10.9.0.1": "10.9.0.1"} {
		if _, err := Told([]task.Site{{Node: "a", Own: "10.9.0.1"}, {Node: "b", Own: b}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	world := []task.Site{{Node: "a"}, {Node: "b"}}
	says := func(b string, change func(*network.Inspect)) string {
		n := network.Inspect{Name: "lab", IPAM: network.IPAM{Config: []network.IPAMConfig{{Subnet: "10.9.0.0/16", AuxAddress: map[string]string{"x": "10.9.0.9"}}}}}
		change(&n)
		err := checkTold(n, world, []netip.Addr{netip.MustParseAddr("10.9.0.2"), netip.MustParseAddr(b)})
		return fmt.Sprint(err)
	}
	plain := func(*network.Inspect) {}
	another := func(n *network.Inspect) {
		n.IPAM.Config = append(n.IPAM.Config, network.IPAMConfig{Subnet: "10.8.0.64/26"})
	}
	routed := func(n *network.Inspect) { n.IPAM.Config[0].Gateway = "10.9.7.7" }
	bridged := func(n *network.Inspect) { n.Driver = "bridge" }
	for _, tt := range []struct {
		b      string
		change func(*network.Inspect)
		want   string
	}{
		{"10.8.0.2", plain, "host b tells the address 10.8.0.2 of its member, and network lab has 10.9.0.0/16 on this host"},
		{"10.8.0.70", another, "<nil>"},
		{"10.8.0.70", func(n *network.Inspect) { n.IPAM.Config = nil }, "<nil>"}, // the engine does not say
		{"10.9.0.1", plain, "<nil>"},
		{"10.9.0.1", bridged, "host b tells the address 10.9.0.1 of its member, which no container has in network lab"},
		{"10.9.7.7", plain, "<nil>"},
		{"10.9.7.7", routed, "the network's own"},
		{"10.9.0.9", plain, "the network's own"},
		{"10.9.0.0", plain, "the network's own"},
		{"10.9.255.255", plain, "the network's own"},
		{"10.8.0.64", another, "the network's own"},
		{"10.8.0.127", another, "the network's own"},
		{"10.8.0.126", another, "<nil>"},
	} {
		if got := says(tt.b, tt.change); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.b, got, tt.want)
		}
	}
}

// TestTheBridgeOfANetwork: the addresses that the engine's host has in it. An overlay has none there.
func TestTheBridgeOfANetwork(t *testing.T) {
	n := network.Inspect{Driver: "bridge", IPAM: network.IPAM{Config: []network.IPAMConfig{{Subnet: "10.9.0.0/16"}, {Subnet: "fd00:9::/64", Gateway: "fd00:9::7"}, {Subnet: "?"}}}}
	if all := BridgeOf(n); !slices.Equal(all, []string{"10.9.0.1", "fd00:9::7"}) {
		t.Error(all)
	}
	n.Driver = "overlay"
	if all := BridgeOf(n); len(all) > 0 {
		t.Error(all)
	}
}
