package runjob

import (
	"bytes"
	"debug/elf"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/network"

	"github.com/swarmd/swarmd/consensus/task"
)

// TestWhatHoldsAnAddressSleeps: it is a program of its machine, which runs until it is killed; for other machines there is none.
func TestWhatHoldsAnAddressSleeps(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		raw, err := holdProgram(arch)
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
	if _, err := holdProgram("s390x"); err == nil || !strings.Contains(err.Error(), "network: host") {
		t.Error(err)
	}
	raw, err := holdProgram(runtime.GOARCH)
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
		stat := string(of(cmd.Process.Pid, "stat", maxStat))
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

// TestAddressesOfOneNetwork: all hosts have told some, and no two the same.
func TestAddressesOfOneNetwork(t *testing.T) {
	if all, err := told([]task.Site{{Node: "a", Own: "10.9.0.1"}, {Node: "b", Own: "10.9.0.2"}}); err != nil || len(all) != 2 || all[1].String() != "10.9.0.2" {
		t.Error(all, err)
	}
	for want, b := range map[string]string{"host b has not told": "", "hosts a and b both tell the address 10.9.0.1": "10.9.0.1"} {
		if _, err := told([]task.Site{{Node: "a", Own: "10.9.0.1"}, {Node: "b", Own: b}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	world, addresses := []task.Site{{Node: "a"}, {Node: "b"}}, []netip.Addr{netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.8.0.2")}
	one := network.Inspect{IPAM: network.IPAM{Config: []network.IPAMConfig{{Subnet: "10.9.0.0/16"}}}}
	if err := checkSubnets("lab", subnetsOf(one), world, addresses); err == nil || !strings.Contains(err.Error(), "host b tells the address 10.8.0.2 of its member, and network lab has 10.9.0.0/16 on this host") {
		t.Errorf("another network of its name: %v", err)
	}
	two := one
	two.IPAM.Config = append(two.IPAM.Config, network.IPAMConfig{Subnet: "10.8.0.0/16"})
	for name, subnets := range map[string][]netip.Prefix{"of both": subnetsOf(two), "that the engine does not say": nil} {
		if err := checkSubnets("lab", subnets, world, addresses); err != nil {
			t.Errorf("subnets %s: %v", name, err)
		}
	}
}
