// Package netns builds small networks out of Linux network namespaces: hosts, each in a namespace of its own, on one switch
// in another. What happens in them touches neither this machine's network nor each other's. Needs root, ip, tc and iptables.
package netns

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
)

// prefix of all namespaces of this package; the ID of the process that made one follows.
const prefix = "swarmd-"

// maxHosts is what the switch's subnet holds.
const maxHosts = 250

var made atomic.Int32

// Net is one switch with its hosts. Its methods are not for concurrent use.
type Net struct {
	// Names is a file that processes on hosts, those that are started from then on, see as /etc/hosts; empty: this machine's.
	Names string
	name  string // namespace of the switch
	hosts []*Host
}

// Host is one namespace on the switch.
type Host struct {
	Addr string // IPv4 address, the same port space for itself alone
	// Congestion is the congestion control of its TCP connections: Cubic where this machine allows it; empty: not known.
	Congestion string
	name       string
	net        *Net
	port       string // this host's end of the cable at the switch
}

// Available says why networks can't be made here, nil if they can.
func Available() error {
	if os.Geteuid() != 0 {
		return errors.New("needs root to make network namespaces")
	}
	for _, tool := range []string{"ip", "tc", "iptables"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("needs %s: install iproute2 and iptables", tool)
		}
	}
	return nil
}

// New makes a switch without hosts. The caller closes it. What processes that were killed left behind is removed.
func New() (*Net, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	sweep()
	n := &Net{name: fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), made.Add(1))}
	return n, n.undo(
		run("ip", "netns", "add", n.name),
		n.at("ip", "link", "add", "switch", "type", "bridge"),
		n.at("ip", "link", "set", "switch", "up"),
		n.at("ip", "link", "add", "island", "type", "bridge"),
		n.at("ip", "link", "set", "island", "up"),
		n.at("ip", "link", "set", "lo", "up"),
	)
}

// Add plugs another host in. It is gone after Close.
func (n *Net) Add() (*Host, error) {
	i := len(n.hosts) + 1
	if i > maxHosts {
		return nil, fmt.Errorf("a network has %d hosts at most", maxHosts)
	}
	h := &Host{Addr: fmt.Sprintf("10.77.0.%d", i), name: fmt.Sprintf("%s-%d", n.name, i), net: n, port: fmt.Sprintf("p%d", i)}
	n.hosts = append(n.hosts, h)
	return h, errors.Join(
		run("ip", "netns", "add", h.name),
		n.at("ip", "link", "add", h.port, "type", "veth", "peer", "name", "eth0", "netns", h.name),
		n.at("ip", "link", "set", h.port, "master", "switch", "up"),
		h.at("ip", "address", "add", h.Addr+"/24", "dev", "eth0"),
		h.at("ip", "link", "set", "eth0", "up"),
		h.at("ip", "link", "set", "lo", "up"),
		h.ordinary(),
	)
}

// Cubic is the congestion control of most Linux hosts.
const Cubic = "cubic"

// ordinary gives the host the congestion control of most Linux hosts, whatever this machine's is, so that what is measured on
// the network depends on the network. A kernel refuses one that it lacks or, in a namespace, does not list in
// tcp_allowed_congestion_control: then the host keeps its own, as Congestion says.
func (h *Host) ordinary() error {
	const file = "/proc/sys/net/ipv4/tcp_congestion_control"
	_ = h.at("sh", "-c", "echo "+Cubic+" > "+file) // Refused or not, what is set is read below.
	c := h.Command("cat", file)
	out, err := exec.Command(c[0], c[1:]...).Output()
	if err != nil {
		return fmt.Errorf("read congestion control of %s: %w", h.Addr, err)
	}
	h.Congestion = strings.TrimSpace(string(out))
	return nil
}

// Close removes the hosts and the switch. Processes that run in them keep a network without a cable.
func (n *Net) Close() error {
	var errs []error
	for _, h := range n.hosts {
		errs = append(errs, run("ip", "netns", "delete", h.name))
	}
	return errors.Join(append(errs, run("ip", "netns", "delete", n.name))...)
}

// undo closes a network that could not be made.
func (n *Net) undo(errs ...error) error {
	err := errors.Join(errs...)
	if err != nil {
		_ = n.Close() // The reason is in err.
	}
	return err
}

func (n *Net) at(argv ...string) error {
	return run("ip", append([]string{"netns", "exec", n.name}, argv...)...)
}

// Namespace is the file that stands for the host's namespace.
func (h *Host) Namespace() string { return filepath.Join("/run/netns", h.name) }

// Command returns the argument vector that runs argv on the host. The process keeps its ID, parent and environment.
func (h *Host) Command(argv ...string) []string {
	in := []string{"ip", "netns", "exec", h.name} // in a mount namespace of its own too
	if h.net.Names != "" {
		in = append(in, "sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, h.net.Names)
	}
	return append(in, argv...)
}

func (h *Host) at(argv ...string) error {
	c := h.Command(argv...)
	return run(c[0], c[1:]...)
}

// Limit bounds the host's link to so many bits per second in each direction, by a token bucket at each end: Ethernet
// frames, headers included, count.
func (h *Host) Limit(bits int64) error {
	rate := strconv.FormatInt(bits, 10)
	// A bucket of 5 ms at the rate, at least a few of the large packets that TCP hands down.
	burst := strconv.FormatInt(max(64<<10, bits/8/200), 10)
	tbf := func(dev string) []string {
		return []string{"tc", "qdisc", "replace", "dev", dev, "root", "tbf", "rate", rate, "burst", burst, "latency", "50ms"}
	}
	return errors.Join(h.at(tbf("eth0")...), h.net.at(tbf(h.port)...))
}

// Unlimit ends Limit.
func (h *Host) Unlimit() error {
	return errors.Join(h.at("tc", "qdisc", "delete", "dev", "eth0", "root"), h.net.at("tc", "qdisc", "delete", "dev", h.port, "root"))
}

// Cut drops all packets between two hosts, silently, as a firewall or a dead line would.
func (h *Host) Cut(o *Host) error {
	return errors.Join(h.filter("-A", o), o.filter("-A", h))
}

// Heal ends Cut.
func (h *Host) Heal(o *Host) error {
	return errors.Join(h.filter("-D", o), o.filter("-D", h))
}

// Deafen drops what o sends to the host, which o does not learn; what the host sends to o arrives.
func (h *Host) Deafen(o *Host) error { return h.ear("-A", o) }

// Hear ends Deafen.
func (h *Host) Hear(o *Host) error { return h.ear("-D", o) }

func (h *Host) ear(how string, o *Host) error {
	return h.at("iptables", "-w", how, "INPUT", "-s", o.Addr, "-j", "DROP")
}

// Shut drops TCP connections that others open to the host, silently, as a firewall before it does; those that the host opens are not hit,
// nor those that stand.
func (h *Host) Shut() error { return h.gate("-A") }

// Open ends Shut.
func (h *Host) Open() error { return h.gate("-D") }

func (h *Host) gate(how string) error {
	return h.at("iptables", "-w", how, "INPUT", "-i", "eth0", "-p", "tcp", "--syn", "-j", "DROP")
}

// Part moves the host's cable to a second switch, which has no link to the first: hosts there reach only one another.
func (h *Host) Part() error { return h.net.at("ip", "link", "set", h.port, "master", "island") }

// Rejoin ends Part.
func (h *Host) Rejoin() error { return h.net.at("ip", "link", "set", h.port, "master", "switch") }

func (h *Host) filter(how string, o *Host) error {
	return errors.Join(
		h.at("iptables", "-w", how, "INPUT", "-s", o.Addr, "-j", "DROP"),
		h.at("iptables", "-w", how, "OUTPUT", "-d", o.Addr, "-j", "DROP"),
	)
}

// Sent returns the bytes that the host has put on its cable so far, frames and all.
func (h *Host) Sent() (uint64, error) {
	c := h.Command("cat", "/sys/class/net/eth0/statistics/tx_bytes")
	out, err := exec.Command(c[0], c[1:]...).Output()
	if err != nil {
		return 0, fmt.Errorf("read counter of %s: %w", h.Addr, err)
	}
	return strconv.ParseUint(strings.TrimSpace(string(out)), 10, 64)
}

// sweep removes the namespaces of processes that are no more.
func sweep() {
	list, err := os.ReadDir("/run/netns")
	if err != nil {
		return // None was ever made.
	}
	for _, e := range list {
		rest, ours := strings.CutPrefix(e.Name(), prefix)
		pid, _, _ := strings.Cut(rest, "-")
		if _, err := os.Stat("/proc/" + pid); ours && pid != "" && errors.Is(err, os.ErrNotExist) {
			_ = run("ip", "netns", "delete", e.Name()) // The next one tries again.
		}
	}
}

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
